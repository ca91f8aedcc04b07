"""What the explorer cannot explore, refused by name."""


class NotExplorable(Exception):
    """The handler needs something that the explorer does not have. The text names it, and the remedy."""


class Stop(BaseException):
    """Ends the code under test at a refusal. Not an `Exception`, so that a handler's `except Exception` lets it pass."""
