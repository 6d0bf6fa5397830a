"""Slips of the pen in YAML that a reader of the file can't see, or takes for right."""

from __future__ import annotations

from distui.regex import regex

_NO_BLANK = regex(r"[\w.-]+:[^\s:/]")
_LIKE_A_BLANK = regex("[\u00a0\u1680\u2000-\u200b\u202f\u205f\u2060\u3000]")
"""From web pages and word processors."""
_TEXT = regex(r'"(?:\\.|[^"\\])*"?' + r"|'[^']*'|(?<!\S)#.*")
"""In quotes, or a comment: where any sign may stand. Read once: a quote that is never closed ends with its line."""

_CURLY = "“”„‟‘’‚‛"
"""Quotes of word processors and chats."""


def curly(text: str, written: str) -> str:
    """What to say of a text that stands in such quotes, where it begins with one as it is `written`; else nothing."""
    if text.isascii() or len(text) < 2 or not (text[0] in _CURLY and text[-1] in _CURLY and written[:1] == text[0]):
        return ""
    return (
        f'{text[0]} and {text[-1]} are quotes of a word processor, and part of the value here: write " in their place'
    )


def like_a_blank(text: str) -> int:
    """The column, from 1, of the first sign that looks like a blank, or like nothing, and is none in YAML; else 0."""
    found = None if text.isascii() else _LIKE_A_BLANK.search(text)
    return found.start() + 1 if found else 0


def like_a_blank_in(line: str) -> int:
    """The same of a line of YAML, but for what stands in quotes or a comment."""
    return 0 if line.isascii() else like_a_blank(_TEXT.sub(lambda found: "x" * len(found[0]), line))


def no_blank(sign: str) -> str:
    """What to say of such a sign."""
    return f"the character U+{ord(sign):04X} here looks like a blank, but is none in YAML: write a blank in its place"


def colon_hint(text: str) -> str:
    """`a blank is missing after the ':'` for a text such as `name:t`, which is no key and value; else nothing."""
    return "a blank is missing after the ':'" if _NO_BLANK.match(text) else ""
