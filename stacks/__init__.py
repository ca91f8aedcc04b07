"""The CDK app: settings → constructs → stacks.

CDK starts Node.js the moment it is imported, so Node.js is chosen here, and where it unpacks CDK, before any module
of this package imports CDK.
"""

from stacks.node import choose_cache, choose_node

choose_cache()
choose_node()
