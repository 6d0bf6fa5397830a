"""Words of command output as values: every way tools say "I don't know" becomes None, never 0."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from distui.frozen import frozen
from distui.regex import regex

JsonObject = Mapping[str, object]
CUT_OFF = 141  # the status of a command that printed more than the probe reads: SIGPIPE's, as shells give it

_UNKNOWN = frozenset(
    {"", "n/a", "na", "not supported", "not available", "err!", "error", "unknown", "unknown error", "none",
     "not found", "insufficient permissions", "gpu is lost", "requires reset", "gpu requires reset"}
)  # fmt: skip
_NUMBER = regex(r"([-+]?\d{1,18}(?:\.\d{1,18})?)(?:\s*[A-Za-z%/()°].*)?", re.ASCII)


@frozen
class Reply:
    """What a command of the probe printed (stdout and stderr together) and how it ended.

    `status` is None when it did not end within its time or never got its turn; `cut` says that its
    output was longer than the probe carries.
    """

    text: str = ""
    status: int | None = None
    cut: bool = False

    @property
    def ok(self) -> bool:
        """Whether the command ended with status 0."""
        return self.status == 0

    @property
    def timed_out(self) -> bool:
        """Whether the command was ended by its time limit: timeout(1) says 124, or 137 if it had to kill."""
        return self.status is None or self.status in (124, 137)

    @property
    def missing(self) -> bool:
        """Whether there is no such command: decided by the status, since the text is translated."""
        return self.status in (126, 127)


def known(text: str | None) -> str | None:
    """The text without surrounding space and brackets' "don't know" spellings; None when it says nothing."""
    if text is None:
        return None
    word = text.strip()
    bare = word.removeprefix("[").removesuffix("]").strip().lower()
    return None if bare in _UNKNOWN else word


def number(text: object) -> float | None:
    """A number with or without a unit (`69.85 W`, `100 %`), or None for all else."""
    if isinstance(text, bool):
        return None
    if isinstance(text, int | float):
        return float(text) if abs(text) < 1e18 else None
    if not isinstance(text, str):
        return None
    word = known(text)
    found = _NUMBER.fullmatch(word) if word else None
    return float(found[1]) if found else None


def integer(text: object) -> int | None:
    """A whole number with or without a unit, or None."""
    value = number(text)
    return int(value) if value is not None else None


def mib(size_bytes: object) -> int | None:
    """Bytes, as a number or digits, in MiB."""
    value = number(size_bytes)
    return int(value) // (1 << 20) if value is not None else None


def loads(text: str | bytes | bytearray) -> Any:
    """`json.loads` for what others wrote: no text in it has half a character. Raises ValueError, also for nesting that
    Python can't follow.
    """
    return loads_own(_mended(text if isinstance(text, str) else text.decode(json.detect_encoding(text))))


def loads_own(text: str) -> Any:
    """As `loads`, for what we wrote ourselves: paths that are not UTF-8 come back with the halves they have in Python.

    Raises ValueError.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


_TRIES = 20
"""Lines that may begin a JSON value; what has more of them is something else."""


def load_json(text: str) -> object | None:
    """The first JSON object or array that begins a line of `text`, whatever warnings surround it; else None."""
    text = _mended(text)
    for _, begin in zip(range(_TRIES), re.finditer(r"^[ \t]*(?=[\[{])", text, re.MULTILINE), strict=False):
        try:
            value, _ = json.JSONDecoder().raw_decode(text, begin.end())
        except (ValueError, RecursionError):
            continue
        return value  # type: ignore[no-any-return]
    return None


_ESCAPE = regex(
    r"\\u[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2}|(\\u[Dd][89A-Fa-f][0-9A-Fa-f]{2})|\\.", re.DOTALL
)
"""Escapes of JSON: two that are one character, one (the group) that is half of one, any other."""


def _mended(text: str) -> str:
    r"""JSON with U+FFFD for each half of a character (`\ud800`), which JSON may hold and no file or terminal takes."""
    if "\\ud" not in text and "\\uD" not in text:
        return text
    return _ESCAPE.sub(lambda found: "\\ufffd" if found[1] else found[0], text)


def as_object(value: object) -> JsonObject:
    """`value` if it is a JSON object, else an empty one: lets readers go on past a wrong shape."""
    return value if isinstance(value, dict) else {}


def as_objects(value: object) -> tuple[JsonObject, ...]:
    """The JSON objects of an array; empty for anything else."""
    return tuple(v for v in value if isinstance(v, dict)) if isinstance(value, list) else ()


def as_text(value: object) -> str | None:
    """A non-empty string, with `N/A` and the like as None."""
    return known(value) if isinstance(value, str) else None


def tree(text: str) -> dict[str, str]:
    """Lines `path TAB value` as a mapping; other lines are skipped, the first value of a path wins."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        path, tab, value = line.partition("\t")
        if tab:
            values.setdefault(path, value.strip())
    return values
