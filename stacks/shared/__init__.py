"""One capability each. A construct takes `Settings` and other constructs; the stacks only compose them."""
