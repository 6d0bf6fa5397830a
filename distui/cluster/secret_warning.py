"""Secrets whose values can't be hidden, as Python warns of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable


class SecretWarning(UserWarning):
    """A value of a secret is not known here, is another one than the run was started with, or is too short: where ranks
    print it, it is not hidden.
    """


def warn_of_plain(words: Iterable[str]) -> None:
    """Warn in the name of who called the function that calls this."""
    for text in words:
        warnings.warn(text, SecretWarning, stacklevel=3)
