"""The one exception that a person sees."""


class AuditRefused(Exception):
    """The input cannot be audited as it is. The text is one or two sentences: what is wrong, where, and what to do."""
