"""What can go wrong at the command line, as sentences for the person at the terminal."""


class OneslotError(Exception):
    """`str(error)` is one or more whole sentences: what is wrong and what to do. Exit status 1."""

    exit_code = 1


class BadInput(OneslotError):
    """An argument or a file that cannot be used as it is. Exit status 2, as for any usage error."""

    exit_code = 2
