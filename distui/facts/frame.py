"""The framed answer of the probe script: finds it between whatever else a login shell or a command prints."""

from __future__ import annotations

import re
from collections.abc import Mapping

from distui.facts.values import Reply
from distui.frozen import frozen
from distui.regex import regex

_STAGE_LIMIT = 1_000_000  # bytes a group of commands may say, as in probe.sh
_STAMP = regex(r"(?:begin|end) (\d{9,20})", re.ASCII)


@frozen
class Answer:
    """The parts of one answer by name, and the host's clock at its begin and end, in seconds since 1970.

    `coarse` says that the host's clock was read in whole seconds.
    """

    parts: Mapping[str, Reply]
    began: float
    ended: float
    coarse: bool

    def part(self, name: str) -> Reply:
        """The reply of that name; one that never came is an empty reply that did not end."""
        return self.parts.get(name, Reply())

    def text(self, name: str) -> str:
        """The text of the reply of that name, "" when it never came."""
        return self.part(name).text


def parse(stdout: bytes, nonce: str) -> Answer | None:
    """The answer framed with `nonce`, or None when its begin or end is missing (rubbish, or cut off)."""
    chunks = ("\n" + stdout.decode("utf-8", "replace")).split(f"\n{nonce} ")[1:]
    heads = [chunk.partition("\n")[0] for chunk in chunks]
    began = _stamp(next((h for h in heads if h.startswith("begin ")), ""))
    ended = _stamp(next((h for h in heads if h.startswith("end ")), ""))
    if began is None or ended is None:
        return None
    return Answer(_parts(chunks), began[0], ended[0], began[1] or ended[1])


def _stamp(head: str) -> tuple[float, bool] | None:
    """(seconds, whether only whole ones were given); half a second is added to those, the middle of their range."""
    match = _STAMP.fullmatch(head.strip())
    if not match:
        return None
    digits = match[1]
    return (int(digits) + 0.5, True) if len(digits) < 13 else (int(digits) / 1e9, False)


def _parts(chunks: list[str]) -> dict[str, Reply]:
    parts: dict[str, Reply] = {}
    for chunk, following in zip(chunks, [*chunks[1:], ""], strict=True):
        head, _, body = chunk.partition("\n")
        if head.startswith("part "):
            status = re.match(r"rc (\d{1,3})\b", following, re.ASCII)
            code = int(status[1]) if status else None
            parts.setdefault(head[5:].strip(), Reply(body, code, code is None and len(body) > _STAGE_LIMIT // 2))
    return parts
