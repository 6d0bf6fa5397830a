"""Regular expressions that are compiled when they are first used: a call declares hundreds of them and uses few."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


def regex(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """`re.compile`, later: for patterns of distui's own at the top of a module. It is asked by its methods only."""
    return cast("re.Pattern[AnyStr]", _Late(pattern, flags))


class _Late:
    """A pattern that is not compiled yet. Each of its methods is looked up once."""

    def __init__(self, pattern: Any, flags: int) -> None:
        self._written = pattern, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._written), name)
        setattr(self, name, found)
        return found
