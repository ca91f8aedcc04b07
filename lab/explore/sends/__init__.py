"""A decision that sends, and its relay, through every schedule."""
