"""YAML's syntax errors in words that say what to do, at the place where a person will look.

The problems are libyaml's (its scanner.c and parser.c). It names the place where it could not read on; what was
opened and never closed, or a key without its colon, is reported where it stands instead.
"""

from __future__ import annotations

import re

import yaml

from distui.regex import regex
from distui.spec.yaml.nodes import Source
from distui.spec.yaml.slips import colon_hint, like_a_blank_in, no_blank

Place = tuple[int, int]
"""Line and column, from 1."""

_RANGE_IN_BRACES = regex(r"[\w.-]\[[0-9]")
_CLOSED = regex(r"[\"'\]}]\s*$")
_CLOSERS = {"[": "]", "{": "}"}

_DIRECTIVE = "a line that begins with % is a directive, which is not supported: quote the value if the % belongs to it"
_TAG = "a value that starts with ! must be quoted"

_HINTS = (
    ("mapping values are not allowed", "a ':' here makes no sense: check the indentation, or quote the value if the "
     "':' belongs to it"),
    ("mapping keys are not allowed", "a '?' can't begin a key here: quote the value if the '?' belongs to it"),
    ("block sequence entries are not allowed", "a list begins on a line of its own: write '- ' below the key, or quote "
     "the value if the '-' belongs to it"),
    ("did not find expected '-' indicator", "expected '- ' as in the lines above: a list and keys can't be mixed"),
    ("did not find expected comment or line break", "nothing but a comment may follow here; put the rest on the next "
     "line"),
    ("did not find expected <document start>", "expected a line `---` here: a new document begins"),
    ("found unknown escape character", "no such escape in double quotes: write \\\\ for a backslash, or use single "
     "quotes"),
    ("did not find expected hexdecimal number", "hexadecimal digits are missing after \\x, \\u or \\U"),
    ("found invalid Unicode character escape", "no such character: correct the digits after \\x, \\u or \\U"),
    ("found unexpected document indicator", "a quoted text can't go on after a line `---` or `...`: is its closing "
     "quote missing?"),
    ("found an indentation indicator equal to 0", "the indentation of a block of text is a number from 1 to 9"),
    ("found a tab character", "a tab can't indent YAML: use spaces"),
    ("found duplicate %YAML", "%YAML is written twice"),
    ("found incompatible YAML document", "only YAML 1.1 and 1.2 can be read"),
    ("found unexpected ':'", "a ':' here makes no sense: quote the value if the ':' belongs to it"),
    ("found duplicate %TAG", _DIRECTIVE),
    ("found undefined tag handle", "tags are not supported: write the value without !, or quote it"),
)  # fmt: skip
_NEEDS = {"while parsing a block mapping": "the mapping", "while parsing a block collection": "the list"}


def explain(error: yaml.MarkedYAMLError, source: Source, opened: Place | None = None) -> tuple[int, int, str]:
    """Line, column (from 1) and message of a syntax error. `opened` is the innermost bracket not closed by then."""
    mark = error.problem_mark or error.context_mark
    at = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    for line, _ in (at, _context_place(error) or at):
        if column := like_a_blank_in(source.line(line)):
            return line, column, no_blank(source.line(line)[column - 1])
    problem = error.problem or "not valid YAML"
    if (before := _context_place(error)) and (words := _never_ended(problem, error.context or "", source, before)):
        return *before, words
    if opened and problem.startswith("did not find expected") and _runs_out(source, opened, at):
        return *opened, _unclosed(source, opened)
    message = _in_brackets(problem, source, at) or _at_character(problem, source, at) or _known(problem)
    if not message:  # the rest of what may be wrong with directives and tags, of which distui's files need none
        context = error.context or ""
        message = _DIRECTIVE if "directive" in context else _TAG if "a tag" in context else problem
    where = _within(error, at, source) if message.startswith("expected") else ""
    return *_on_text(source, at), message + where


def _context_place(error: yaml.MarkedYAMLError) -> Place | None:
    mark = error.context_mark
    return (mark.line + 1, mark.column + 1) if mark else None


def _never_ended(problem: str, context: str, source: Source, at: Place) -> str:
    """What to say of a thing whose end is missing, where it begins."""
    if problem.startswith("could not find expected ':'"):
        return colon_hint(source.line(at[0])[at[1] - 1 :]) or "a ':' is missing after this key"
    if problem.startswith("found unexpected end of stream") and "quoted scalar" in context:
        return "the closing quote is missing"
    return ""


def _runs_out(source: Source, opened: Place, at: Place) -> bool:
    """Whether a bracket's lines are over at `at`: the text ends there, or goes on no deeper than the bracket's line."""
    if at[0] == opened[0]:
        return False
    rest = source.line(at[0])
    return not rest.strip() or _indent(rest) <= _indent(source.line(opened[0]))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _unclosed(source: Source, opened: Place) -> str:
    text = source.line(opened[0])
    bracket = text[opened[1] - 1 : opened[1]]
    if range_hint := _range_hint(text, len(text)):
        return range_hint
    return f"the {bracket} is never closed: a {_CLOSERS.get(bracket, 'bracket')} is missing"


def _in_brackets(problem: str, source: Source, at: Place) -> str | None:
    """What to do about a text inside brackets that should have ended."""
    if not problem.startswith("did not find expected ','"):
        return None
    text = source.line(at[0])
    wanted = problem.removeprefix("did not find ")
    return _range_hint(text, at[1] + 1) or _variable_hint(text, at[1]) or _placeholder_hint(text, at[1]) or (
        f"{wanted} here: a comma or the closing bracket is missing; quote a text with , [ ] {{ or }}"
    )  # fmt: skip


def _range_hint(text: str, end: int) -> str | None:
    """Where `name[01` stands before `end`, and YAML takes `[` for the start of a list."""
    found = next((f for f in _RANGE_IN_BRACES.finditer(text[:end]) if set("{[") & {*text[: f.start()]}), None)
    if found:
        return 'quote a range inside braces or brackets: {h100: "node[01-04]"}'
    return None


def _variable_hint(text: str, column: int) -> str | None:
    return 'quote a variable inside braces: {NAME: "${VAR}"}' if text[column - 2 : column] == "${" else None


def _placeholder_hint(text: str, column: int) -> str | None:
    """Where a text goes on with `{n}` or `{rank}`, and YAML takes `{` for the start of a mapping."""
    found = re.match(r"\{\w+\}", text[column - 1 :])
    return f"quote a text with {found[0]} inside braces or brackets" if found else None


def _at_character(problem: str, source: Source, at: Place) -> str | None:
    """What to do, where the character at the place tells."""
    text, column = source.line(at[0]), at[1]
    character = text[column - 1 : column]
    if character == "\t":
        return "a tab can't indent YAML: use spaces"
    if hint := _variable_hint(text, column):
        return hint
    if text.strip().startswith("```"):
        return "take this line away: ``` marks where a text begins and ends, and is no part of it"
    if problem.startswith("found character that cannot start any token"):
        return f"a value can't start with {character}: quote it"
    if problem.startswith(("did not find expected alphabetic or numeric", "did not find the expected '>'")):
        return f"a value that starts with {_starter(text, column)} must be quoted"
    if problem.startswith("did not find expected node content"):
        return f"expected a value here, not {character}" if character else "a value is missing here"
    if problem.startswith("did not find expected key"):
        return _not_a_key(text, column)
    return None


def _starter(text: str, column: int) -> str:
    """The `*`, `&` or `!` before the place, or what stands at it."""
    found = re.search(r"[*&!]<?[^\s*&!]*$", text[: column - 1])
    return found[0][0] if found else text[column - 1 : column] or "*"


def _not_a_key(text: str, column: int) -> str:
    """What stands where a key should."""
    character = text[column - 1 : column]
    if character in ("]", "}"):
        return f"this {character} closes nothing: take it away, or quote the text it belongs to"
    if _CLOSED.search(text[: column - 1]):
        return "nothing may follow the closing quote or bracket: quote the whole value"
    if character == "-":
        return "a list item can't stand among keys: indent it below the key it belongs to"
    return "expected a key here: check the indentation and the quotes"


def _known(problem: str) -> str | None:
    return next((words for start, words in _HINTS if problem.startswith(start)), None)


def _on_text(source: Source, at: Place) -> Place:
    """The place, or the end of the last line with text when nothing stands there: a caret needs a line."""
    line = at[0]
    if source.is_flag or line < 1 or source.line(line).strip():
        return at
    while line > 1 and not source.line(line).strip():
        line -= 1
    return (line, len(source.line(line).rstrip()) + 1) if source.line(line).strip() else at


def _within(error: yaml.MarkedYAMLError, at: Place, source: Source) -> str:
    """Which mapping or list is meant, if it began on another line."""
    begun, what = _context_place(error), _NEEDS.get(error.context or "")
    if not begun or not what or begun[0] == at[0] or source.is_flag:
        return ""
    return f" (in {what} that begins on line {begun[0]})"
