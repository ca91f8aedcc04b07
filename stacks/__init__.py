"""The CDK app: settings → constructs → stacks.

CDK starts Node.js the moment it is imported, so Node.js is chosen here, before any module of this package imports CDK.
"""

from stacks.node import choose_node

choose_node()
