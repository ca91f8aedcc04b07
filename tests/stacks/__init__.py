"""The CDK app's tests. `stacks` comes first: it chooses the Node.js that CDK starts when it is imported."""

import stacks as stacks
