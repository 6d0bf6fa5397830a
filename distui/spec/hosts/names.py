"""Sets of host names: `node[01-04,07]`, `gw1,gw2`, `@group`, and `node01:0-3` to pick GPUs.

The notation is that of ClusterShell, pdsh and Slurm. Names are what ssh can be called with safely: letters, digits,
`.`, `_` and `-`, not starting with `-`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

from distui.frozen import frozen
from distui.regex import regex
from distui.spec.hosts.address import six_login
from distui.spec.hosts.inventory import HostPick
from distui.spec.yaml.problems import Wrong, did_you_mean, shown

MAX_NAMES = 4096
"""Names one expression may stand for."""
MAX_GPU = 255

_NAME = regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
_GROUP = regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
_SPAN = regex(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_BRACKET = regex(r"\[([^\[\]]*)\]")
_NUMBERS = regex(r"([0-9]{1,9})")
_LAST_NUMBER = regex(r"(.*?)([0-9]{1,9})([^0-9]*)", re.DOTALL)


@frozen
class Numbered:
    """A name out of a range, with the numbers that took the brackets' places."""

    name: str
    numbers: tuple[int, ...] = ()


def expand(text: str, groups: Mapping[str, Sequence[str]] | None = None) -> tuple[str, ...]:
    """The names that `text` stands for, in order, each once.

    `groups` gives the names behind `@group`. Raises Wrong (a UsageError) saying what is not understood.
    """
    return tuple(p.name for p in picks(text, groups, gpus=False))


def picks(text: str, groups: Mapping[str, Sequence[str]] | None = None, *, gpus: bool = True) -> tuple[HostPick, ...]:
    """The hosts that `text` stands for, with the GPUs picked by `:0-3`; each once, in order.

    Raises Wrong when something is not understood, or when one host is named with different GPUs.
    """
    found: dict[str, HostPick] = {}
    for piece, chosen in _pieces(text, gpus):
        for name in _members(piece, groups or {}):
            pick = HostPick(name, chosen)
            if found.setdefault(name, pick) != pick:
                raise Wrong(f"{name} is named twice with different GPUs in {shown(text)}; name it once")
        _bound(len(found), text)
    return tuple(found.values())


def checked(text: str, *, gpus: bool = True) -> str:
    """The same text. Raises Wrong unless it is a set of names; groups may be unknown."""
    for piece, _ in _pieces(text, gpus):
        if piece.startswith("@"):
            _group_name(piece)
        else:
            numbered(piece)
    return text


def members(text: str) -> tuple[Numbered, ...]:
    """The names of a set without groups or GPU picks, each with its range numbers. Raises Wrong."""
    return tuple(n for piece, _ in _pieces(text, gpus=False) for n in numbered(piece))


def numbered(piece: str) -> tuple[Numbered, ...]:
    """The names of one range such as `node[01-04,07]` with their numbers. Raises Wrong."""
    parts = _BRACKET.split(piece)
    literals, brackets = parts[::2], parts[1::2]
    if "[" in "".join(literals) or "]" in "".join(literals):
        raise Wrong(f"{shown(piece)}: brackets don't match; a range is written node[01-04]")
    spans = [_span_list(b, piece) for b in brackets]
    total = 1
    for span in spans:
        total *= len(span)
        _bound(total, piece)
    return tuple(_join(literals, choice, piece) for choice in product(*spans))


def fold(names: Iterable[str]) -> str:
    """The shortest plain way to write `names`, in the same order: `node[01-04],gw1`.

    `expand(fold(names))` gives `names` again.
    """
    runs: list[_Run] = []
    for name in names:
        if not (runs and runs[-1].extend(name)):
            runs.append(_Run(name))
    return ",".join(r.text() for r in runs)


def natural(names: Iterable[str]) -> tuple[str, ...]:
    """Sorted with numbers as numbers: mlx5_2 before mlx5_10."""

    def key(name: str) -> list[int | str]:
        return [int(part) if i % 2 else part for i, part in enumerate(_NUMBERS.split(name))]

    return tuple(sorted(names, key=key))


def fold_sorted(names: Iterable[str]) -> str:
    """The same of a set that names no order: `node[01-04]`, whichever of them has rank 0."""
    return fold(natural(names))


def fold_texts(texts: Iterable[str], hosts: Sequence[str]) -> list[str]:
    """Texts `HOST: ...` that say the same of several of these hosts as one, `node[01-04]: ...`; in the order of their
    first, each once.
    """
    named: dict[tuple[bool, str], set[str]] = {}
    for text in texts:
        host, colon, rest = text.partition(": ")
        known = bool(colon) and host in hosts
        named.setdefault((known, rest if known else text), set()).add(host)
    return [f"{fold(h for h in hosts if h in who)}: {text}" if known else text for (known, text), who in named.items()]


def _pieces(text: str, gpus: bool) -> Iterator[tuple[str, tuple[int, ...] | None]]:
    """The parts of a comma-separated expression, each with its GPU picks."""
    words = [w.strip() for w in split(text)]
    while words:
        word = words.pop(0)
        if (login := six_login(word)) is not None:
            raise Wrong(f"{shown(word)} is an IPv6 address: its host needs a name, `{login.advice}`")
        piece, colon, suffix = _suffix(word)
        if not piece:
            what = "has an empty name" if text.strip() else "names no host; write node01, node[01-04] or @group"
            raise Wrong(f"{shown(text)} {what}")
        if not colon:
            yield piece, None
            continue
        if not gpus:
            raise Wrong(f"{shown(piece + ':' + suffix)}: GPUs can't be picked here; write {shown(piece)}")
        spans = [suffix]
        while words and _SPAN.fullmatch(words[0]):
            spans.append(words.pop(0))
        yield piece, _gpus(spans, f"{piece}:{','.join(spans)}")


def _suffix(word: str) -> tuple[str, str, str]:
    """`word` parted at the first colon that is not inside brackets."""
    at = word.find(":", word.rfind("]") + 1)
    return (word, "", "") if at < 0 else (word[:at], ":", word[at + 1 :])


def split(text: str) -> list[str]:
    """`text` cut at commas that are not inside brackets."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if char == "," and depth <= 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def _gpus(spans: list[str], whole: str) -> tuple[int, ...]:
    indices: dict[int, None] = {}
    for span in spans:
        match = _SPAN.fullmatch(span)
        if match is None:
            raise Wrong(f"{shown(whole)}: GPUs are picked as node01:0-3 or node01:0,2")
        first, last = int(match[1]), int(match[2] or match[1])
        if last > MAX_GPU or last < first:
            raise Wrong(f"{shown(whole)}: GPU numbers go up, from 0 to {MAX_GPU}")
        indices |= dict.fromkeys(range(first, last + 1))
    return tuple(indices)


def _members(piece: str, groups: Mapping[str, Sequence[str]]) -> Iterable[str]:
    if not piece.startswith("@"):
        return (n.name for n in numbered(piece))
    group = _group_name(piece)
    if group not in groups:
        known = did_you_mean(group, groups)
        listed = f"; groups: {', '.join(sorted(groups)[:8])}" if groups and not known else ""
        raise Wrong(f"there is no group @{group}{known}{listed}")
    return groups[group]


def _group_name(piece: str) -> str:
    if not _GROUP.fullmatch(piece, 1):
        raise Wrong(f"{shown(piece)} is not a group: write @ and letters, digits, '.', '_' or '-'")
    return piece[1:]


def _span_list(bracket: str, piece: str) -> list[tuple[str, int]]:
    """What `01-04,07` stands for: the digits as written and their value."""
    digits: list[tuple[str, int]] = []
    for part in bracket.split(","):
        digits += _span(part.strip(), piece)
        _bound(len(digits), piece)
    return digits


def _span(part: str, piece: str) -> list[tuple[str, int]]:
    match = _SPAN.fullmatch(part)
    if match is None:
        hint = f"; write [{part.replace(':', '-')}]" if ":" in part else "; a range is written node[01-04,07]"
        raise Wrong(f"{shown(piece)}: {shown(part)} is not a number or range{hint}")
    first, last = match[1], match[2] or match[1]
    if int(last) < int(first):
        raise Wrong(f"{shown(piece)}: the range {part} ends before it starts")
    if last[0] == "0" and len(last) != len(first):
        raise Wrong(f"{shown(piece)}: the two ends of {part} have different zeros in front")
    _bound(int(last) - int(first) + 1, piece)
    width = len(first) if first[0] == "0" else 1
    return [(f"{n:0{width}d}", n) for n in range(int(first), int(last) + 1)]


def _join(literals: list[str], choice: tuple[tuple[str, int], ...], piece: str) -> Numbered:
    name = literals[0] + "".join(d + t for (d, _), t in zip(choice, literals[1:], strict=True))
    if not _NAME.fullmatch(name):
        raise Wrong(_bad_name(name, piece))
    return Numbered(name, tuple(n for _, n in choice))


def _bad_name(name: str, piece: str) -> str:
    if "@" in name:
        host = name.rpartition("@")[2]
        return f"{shown(piece)}: write only {shown(host)}; the user comes from hosts.yaml or ~/.ssh/config"
    if len(words := name.split()) > 1:
        return f"{shown(piece)} is not a host name; several are written with commas: {shown(','.join(words))}"
    if len(name) > 253:
        return f"{shown(piece)}: a host name has at most 253 characters"
    return f"{shown(piece)} is not a host name: letters, digits, '.', '_' and '-', and no '-' in front"


def _bound(count: int, text: str) -> None:
    if count > MAX_NAMES:
        raise Wrong(f"{shown(text)} stands for more than {MAX_NAMES} names")


class _Run:
    """Names in a row that differ in one number only."""

    def __init__(self, name: str) -> None:
        self._first = name
        self._shape = _shape(name)
        self._numbers = [self._shape[1]] if self._shape else []

    def extend(self, name: str) -> bool:
        """Take `name` in if it has the same shape."""
        shape = _shape(name)
        if self._shape is None or shape is None or not _alike(self._shape, shape):
            return False
        self._numbers.append(shape[1])
        return True

    def text(self) -> str:
        if self._shape is None or len(self._numbers) == 1:
            return self._first
        before, _, after = self._shape
        return f"{before}[{','.join(_spans(self._numbers))}]{after}"


_Shape = tuple[str, str, str]


def _shape(name: str) -> _Shape | None:
    """Text before, digits of, and text after the last number in a name."""
    match = _LAST_NUMBER.fullmatch(name)
    return (match[1], match[2], match[3]) if match else None


def _alike(one: _Shape, other: _Shape) -> bool:
    return one[0] == other[0] and one[2] == other[2]


def _spans(numbers: list[str]) -> Iterator[str]:
    """`01 02 03 07` -> `01-03`, `07`."""
    start = previous = numbers[0]
    for number in [*numbers[1:], None]:
        if number is not None and _follows(previous, number):
            previous = number
            continue
        yield start if start == previous else f"{start}-{previous}"
        if number is not None:
            start = previous = number


def _follows(previous: str, number: str) -> bool:
    """Whether `number` is what a range through `previous` gives next, zeros in front included."""
    width = len(previous) if previous[0] == "0" else 1
    return number == f"{int(previous) + 1:0{width}d}"
