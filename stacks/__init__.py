"""The CDK app: settings → the construct → stacks. `application.py` puts the stacks together.

`oneslot.cdk` comes before any import of CDK: it chooses the Node.js that CDK starts.
"""

import oneslot.cdk  # noqa: F401
