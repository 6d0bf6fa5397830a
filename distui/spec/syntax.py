"""YAML's syntax errors in words that say what to do."""

from __future__ import annotations

import re

import yaml

from distui.spec.nodes import Source

_RANGE_IN_BRACES = re.compile(r"[\w.-]\[[0-9]")


def explain(error: yaml.MarkedYAMLError, source: Source) -> tuple[int, int, str]:
    """Line, column (from 1) and message of a syntax error."""
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    problem = error.problem or "not valid YAML"
    hint = _hint(problem, source.line(line), column)
    if problem.startswith("did not find expected ','") and _range_before(source, line, column):
        hint = 'quote a range inside braces or brackets: {h100: "node[01-04]"}'
    opened = _opened(error, line, source)
    return line, column, f"{hint or problem}{opened}"


def _hint(problem: str, text: str, column: int) -> str | None:
    """What to do, where the problem and the character it is at tell."""
    character = text[column - 1 : column]
    if text[column - 2 : column] == "${":
        return 'quote a variable inside braces: {NAME: "${VAR}"}'
    if character == "\t":
        return "a tab can't indent YAML: use spaces"
    if problem.startswith("found character that cannot start any token"):
        return f"a value can't start with {character}: quote it"
    if problem.startswith("mapping values are not allowed"):
        return "a ':' here makes no sense: check the indentation, or quote the value if the ':' belongs to it"
    if problem.startswith("did not find expected alphabetic or numeric character"):
        return f"a value that starts with {character or '*'} must be quoted"
    if problem.startswith("could not find expected ':'"):
        return "a ':' is missing after the key above"
    if problem.startswith("found unexpected end of stream"):
        return "the closing quote is missing"
    if problem.startswith("did not find expected '-' indicator"):
        return "expected '- ' as in the lines above: a list and keys can't be mixed"
    if problem.startswith("did not find expected ','"):
        return f"{problem.removeprefix('did not find ')} here, or the bracket's end; quote a text with , [ ] {{ or }}"
    if problem.startswith("did not find expected key"):
        return "expected a key here: check the indentation and the quotes"
    return None


def _range_before(source: Source, line: int, column: int) -> bool:
    """Whether `name[01` stands at or before the place, where YAML takes `[` for the start of a list."""
    text = source.line(line)
    return bool(_RANGE_IN_BRACES.search(text[: column + 1])) and ("{" in text or "[" in text[:column])


def _opened(error: yaml.MarkedYAMLError, line: int, source: Source) -> str:
    """Where the thing that goes wrong began, if that is on another line."""
    mark = error.context_mark
    if mark is None or mark.line + 1 == line or not error.context or source.is_flag:
        return ""
    return f" ({error.context.removeprefix('while ')}, begun on line {mark.line + 1})"
