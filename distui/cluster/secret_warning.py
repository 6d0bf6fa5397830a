"""Secrets whose values can't be hidden, as Python warns of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable


class SecretWarning(UserWarning):
    """A value of a secret is not known here, is another one than the run was started with, or is too short: where ranks
    print it, it is not hidden.

    `left` is what the stop that it is of may have left on hosts: where warnings are errors, it returns nothing.
    """

    left: tuple[str, ...] = ()


def warn_of_plain(words: Iterable[str], left: tuple[str, ...] = ()) -> None:
    """Warn in the name of who called the function that calls this, which would have returned `left`."""
    for text in words:
        warning = SecretWarning(text)
        warning.left = left
        if left:
            warning.add_note(f"left on hosts: {'; '.join(left)}")
        warnings.warn(warning, stacklevel=3)
