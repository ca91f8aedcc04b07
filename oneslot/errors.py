"""Errors whose text is shown to the user."""

from __future__ import annotations


class OneslotError(Exception):
    """`str(error)` says in whole sentences what is wrong and what to do. Exit status 1."""

    exit_code = 1


class BadInput(OneslotError):
    """An argument or a file that cannot be used. Exit status 2, as for any usage error."""

    exit_code = 2
