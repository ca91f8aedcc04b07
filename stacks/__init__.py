"""The CDK app: settings → constructs → stacks. `application.py` puts the stacks together.

Importing CDK starts Node.js and unpacks CDK. So this package chooses both places before any of its modules imports CDK.
"""

from stacks.node import choose_cache, choose_node

choose_cache()
choose_node()
