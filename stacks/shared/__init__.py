"""Parts that several stacks use. This room imports no other room."""
