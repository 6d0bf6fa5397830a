"""Wildcards of others, as in ignore files of a cloned repository: regular expressions that must not take for ever.

Each `*` that may end anywhere multiplies the ways in which a name can be tried. Two of them are always quick; with more
the name is tried in the process that has a time limit (`patterns.py`).
"""

from __future__ import annotations

import re

from distui.patterns import LimitedPattern, PatternMatch, Searches, given_up

MOST_STARS = 2
"""Wildcards of any length, between two slashes or over several folders, that are tried without a limit."""

PACE = 50_000
"""Bytes of paths a second that a pattern with more of them must get through."""


class TooSlow(ValueError):
    """A line of an ignore file can't be tried in time. The message names it."""


class Wildcard:
    """One line of an ignore file, `written`, as the regular expression that it was made into."""

    def __init__(self, written: str, regex: re.Pattern[str]) -> None:
        self._written = written
        self._regex: Searches[str] = regex
        if _stars(regex.pattern) > MOST_STARS:
            self._regex = LimitedPattern(regex.pattern, regex.flags, pace=PACE)

    def search(self, path: str) -> re.Match[str] | PatternMatch[str] | None:
        """The match in a path. Raises TooSlow."""
        match = self._regex.search(path)
        if why := given_up(self._regex):
            raise TooSlow(f"{self._written!r} {why}; write it with fewer '*'")
        return match


def _stars(pattern: str) -> int:
    """How many wildcards may share one text, or more."""
    plain = pattern.replace("[^/]*", "*").replace("[^/]+", "*").replace("[^/]", "?")
    parts = [plain] if "[" in plain else plain.split("/")
    return max(max(part.count("*") for part in parts), plain.count(".+") + plain.count(".*"))
