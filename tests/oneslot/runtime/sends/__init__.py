"""The messages that follow a commit, and their relay."""
