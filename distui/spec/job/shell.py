"""What only a shell does with a command: pipes, variables, wildcards. Pure."""

from __future__ import annotations

import shlex

from distui.regex import regex

_PARTS = regex(
    r"[ \t]+|'[^']*'|\"(?:[^\"\\$`]|\\[^$`\n])*\"|\\[^\n]"
    r"|\{(?!\S*?(?:,|\.\.))|[^\s'\"\\|&;<>$`()*?\[~#{]|(?<!^)(?<![ \t])[~#]"
)
"""What a shell hands on as it is, or parts words: anything else means more to it."""
_ASSIGNED = regex(r"[A-Za-z_]\w*\+?=")
_FIRST = frozenset((
    "!", ".", ":", "{", "}", "alias", "bg", "case", "cd", "command", "eval", "exec", "exit", "export", "fg", "for",
    "function", "getopts", "hash", "if", "jobs", "popd", "pushd", "read", "readonly", "return", "select", "set",
    "shift", "shopt", "source", "time", "times", "trap", "type", "ulimit", "umask", "unalias", "unset", "until",
    "wait", "while",
))  # fmt: skip
"""First words that are a shell's own, and no program's."""


def uses_shell(text: str) -> bool:
    """Whether a command means something else to a shell than its words do as a list."""
    at, text = 0, text.strip(" \t")
    while at < len(text):
        part = _PARTS.match(text, at)
        if part is None:
            return True
        at = part.end()
    return _ASSIGNED.match(text) is not None or next(iter(shlex.split(text)), "") in _FIRST
