"""What a plain YAML scalar means: the core schema of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema).

PyYAML follows YAML 1.1, where `22:22` is 1342, `017` is 15 and `no` is false; here they are text, 17 and text.
"""

from __future__ import annotations

from distui.regex import regex
from distui.spec.yaml.nodes import ScalarValue

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = regex(r"[-+]?[0-9]+")
_OCTAL = regex(r"0o[0-7]+")
_HEX = regex(r"0x[0-9a-fA-F]+")
_FLOAT = regex(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITE = regex(r"[-+]?\.(?:inf|Inf|INF)")
_NAN = frozenset({".nan", ".NaN", ".NAN"})
_NUMBER_STARTS = frozenset("+-.0123456789")
_MAX_DIGITS = 300
"""Longer runs of digits stay text: nothing here is that large, and int() is slow and limited there."""


def resolve(text: str) -> ScalarValue:
    """The value of the plain scalar `text`."""
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    if text[0] in _NUMBER_STARTS and len(text) <= _MAX_DIGITS:
        return _number(text)
    return text


def _number(text: str) -> ScalarValue:
    if _INT.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text) or _HEX.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _INFINITE.fullmatch(text):
        return float(text.replace(".", ""))
    return float("nan") if text in _NAN else text
