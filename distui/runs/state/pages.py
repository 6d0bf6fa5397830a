"""A frozen mapping by number, of which a copy with one entry changed is cheap: for one state of thousands of ranks.

Copying a plain dict per event makes the cost of a run grow with the square of its ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

V = TypeVar("V")

_BITS = 6
"""Numbers that share all but their lowest 6 bits share a page: a change copies one page and the list of pages."""


class Pages(Mapping[int, V]):
    """Entries by number, in pages; never changed once made. Numbers come in their order within what was given."""

    __slots__ = ("_count", "_pages")

    def __init__(self, entries: Mapping[int, V] | None = None) -> None:
        self._pages: dict[int, dict[int, V]] = {}
        for number, value in (entries or {}).items():
            self._pages.setdefault(number >> _BITS, {})[number] = value
        self._count = len(entries or {})

    def with_entry(self, number: int, value: V) -> Pages[V]:
        """The same with one entry set; what did not change is shared."""
        key = number >> _BITS
        page = self._pages.get(key, {})
        made: Pages[V] = Pages.__new__(Pages)
        made._pages = {**self._pages, key: {**page, number: value}}
        made._count = self._count + (number not in page)
        return made

    def __getitem__(self, number: int) -> V:
        return self._pages[number >> _BITS][number]

    def __iter__(self) -> Iterator[int]:
        for page in self._pages.values():
            yield from page

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"Pages({dict(self.items())!r})"
