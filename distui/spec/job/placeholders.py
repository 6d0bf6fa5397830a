"""Placeholders in a job's command: `{rank}`, `{world_size}`, `{init_method}` ...

Braces are common in commands (JSON, Python, templates), so only a word that is a placeholder, or so like one that it
must be a slip, means anything. Doubled, such a word stands for itself: `{{rank}}` -> `{rank}`. After `$` it belongs to
the shell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from distui.regex import regex
from distui.spec.yaml.problems import nearest

PLACEHOLDERS = (
    "rank",
    "world_size",
    "local_rank",
    "local_world_size",
    "nproc",
    "node_rank",
    "nnodes",
    "init_method",
    "backend",
    "master_addr",
    "master_port",
    "peers",
    "hostfile",
)

_WORD = regex(r"(?<![${])\{(\{)?([a-z][a-z_]{1,30})\}(?(1)\})")


def fill(text: str, values: Mapping[str, str]) -> str:
    """`text` with placeholders replaced. What `values` lacks stays as it is."""

    def replace(match: re.Match[str]) -> str:
        doubled, word = match[1], match[2]
        if doubled:
            return match[0][1:-1] if meant(word) else match[0]
        return values.get(word, match[0])

    return _WORD.sub(replace, text)


def used(text: str) -> frozenset[str]:
    """The placeholders that `text` uses."""
    return frozenset(m[2] for m in _WORD.finditer(text) if not m[1] and m[2] in PLACEHOLDERS)


def slips(text: str) -> Iterator[tuple[str, str]]:
    """Words in braces that are no placeholder but like one: the word and the placeholder meant."""
    for match in _WORD.finditer(text):
        word = match[2]
        if not match[1] and word not in PLACEHOLDERS and (near := meant(word)):
            yield word, near


def meant(word: str) -> str | None:
    """The placeholder that `word` is or is like, or None."""
    return nearest(word, PLACEHOLDERS, likeness=0.7)
