"""What a list of hosts shows: filtered, sorted, marked. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from distui.frozen import frozen
from distui.monitor.host_board import HostBoard
from distui.patterns import BadPattern, Searches, compiled
from distui.tui.hosts import rows as host_rows
from distui.tui.paint.glyphs import UNICODE
from distui.whole import whole

SORTS = ("problems", "file", "host", "state", "util", "mem", "temp", "net", "run")
"""What `o` goes through: first hosts that are gone and then the others as in the file; `file` is the file's order."""


@frozen
class Filter:
    """`h100` (text), `^gw.*` (a regex), `!down` (without), `@front` (a group), `rack=r7` (a label, or state= run=
    gpu= group=)."""

    text: str = ""

    def matches(self, host: HostBoard) -> bool:
        """Whether a host is shown."""
        wanted = self.text.strip()
        if wanted.startswith("!"):
            rest = wanted[1:].strip()
            return not rest or not _matches(rest, host)
        return not wanted or _matches(wanted, host)


def _matches(wanted: str, host: HostBoard) -> bool:
    if wanted.startswith("@"):
        return wanted[1:] in host.groups
    key, equals, value = wanted.partition("=")
    known = {**host.spec.labels, **_attributes(host)}
    if equals and key in known:
        return _finds(value, known[key])
    if equals and re.fullmatch(r"[\w./-]+", key):
        return False
    return _finds(wanted, _words(host))


def _attributes(host: HostBoard) -> dict[str, str]:
    gpus = host.facts.gpu.gpus if host.facts else ()
    return {
        "state": host.status,
        "group": " ".join(host.groups),
        "run": " ".join(run for run, _ in host_rows.runs_on(host)),
        "gpu": host.spec.labels.get("gpu", "") or " ".join({g.name for g in gpus}),
    }


def _words(host: HostBoard) -> str:
    """Everything a person sees in the row, and the labels."""
    labels = " ".join(f"{k}={v}" for k, v in host.spec.labels.items())
    fabric, _ = host_rows.fabric(host, UNICODE)
    reason = " ".join(host_rows.reason_of(host)) if host.trouble else ""
    known = [
        host.name,
        host.status,
        host_rows.address(host),
        fabric,
        reason,
        labels,
        host_rows.foreign(host),
        host.engine_words,
    ]
    return " ".join([*known, *_attributes(host).values()])


def _finds(wanted: str, text: str) -> bool:
    """As a regular expression where it is one, else as it stands; case does not matter."""
    pattern = _pattern(wanted)
    return pattern.search(text) is not None if pattern is not None else wanted.lower() in text.lower()


@lru_cache(maxsize=8)
def _pattern(wanted: str) -> Searches[str] | None:
    """What is typed as a regular expression; None when it is none. One that is too slow finds nothing."""
    try:
        return compiled(wanted, re.IGNORECASE)
    except BadPattern:
        return None


def chosen(hosts: Iterable[HostBoard], shown: Filter, sort: str = "file", *, reverse: bool = False) -> list[HostBoard]:
    """The hosts to show, in order. Equal ones stay in the inventory's order; unknown values come last."""
    kept = [h for h in hosts if shown.matches(h)]
    if sort == "file":
        return kept[::-1] if reverse else kept
    if sort == "problems":
        found = sorted(kept, key=lambda h: h.status not in ("down", "lost"))
        return found[::-1] if reverse else found
    key = _KEYS[sort]
    known = [h for h in kept if key(h) is not None]
    unknown = [h for h in kept if key(h) is None]
    return [*sorted(known, key=lambda h: key(h), reverse=reverse), *unknown]  # type: ignore[arg-type,return-value]


def _share(host: HostBoard) -> float | None:
    memory = host.memory()
    return -memory[0] / memory[1] if memory else None


def _traffic(host: HostBoard) -> float | None:
    rates = host.rates()
    return -sum(rates) if rates else None


def _negative(value: float | None) -> float | None:
    return None if value is None else -value


def natural(name: str) -> tuple[tuple[int, str | int], ...]:
    """A key under which `node2` comes before `node10`."""
    parts = ((part, whole(part)) for part in re.split(r"(\d+)", name) if part)
    return tuple((1, part) if number is None else (0, number) for part, number in parts)


_STATES = {"down": 0, "lost": 0, "unknown": 1, "up": 2}
_KEYS: dict[str, Callable[[HostBoard], object]] = {
    "host": lambda h: natural(h.name),
    "state": lambda h: _STATES[h.status],
    "util": lambda h: _negative(h.average()),
    "mem": _share,
    "temp": lambda h: _negative(h.hottest()),
    "net": _traffic,
    "run": lambda h: next((run for run, _ in host_rows.runs_on(h)), None),
}


def next_sort(now: str) -> str:
    """The sort after this one."""
    return SORTS[(SORTS.index(now) + 1) % len(SORTS)]


def toggled(marks: frozenset[str], names: Sequence[str]) -> frozenset[str]:
    """Marks with some names put in, or taken out when all of them were in."""
    return marks - set(names) if marks.issuperset(names) else marks | set(names)


def span(names: Sequence[str], start: str, end: str) -> frozenset[str]:
    """The names from one to another in the order shown, whichever comes first."""
    if start not in names or end not in names:
        return frozenset({end})
    low, high = sorted((names.index(start), names.index(end)))
    return frozenset(names[low : high + 1])


def sort_words(sort: str, reverse: bool) -> str:
    """The sort for the crumb; empty for the one that holds when nothing was asked for."""
    if sort == SORTS[0]:
        return "reversed" if reverse else ""
    return f"by {sort}" + (", reversed" if reverse else "")
