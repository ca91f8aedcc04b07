"""The one exception that a person sees."""


class AuditRefused(Exception):  # noqa: N818 - it is an answer, not a fault of the program
    """The input cannot be audited as it is. The text is one or two sentences: what is wrong, where, and what to do."""
