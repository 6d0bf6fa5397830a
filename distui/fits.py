"""Proves that a value is what its type says: for values made of JSON that others wrote.

`RankChanged(rank=[])` can be made, and fails wherever it is used as a key. A value that went through `check` can't.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

Figure = NewType("Figure", float)
"""A number that a program printed: a loss may be NaN or infinite."""

WHOLE = 1 << 53
"""No whole number beyond this is meant: JSON's readers elsewhere lose digits there."""


def check(value: T) -> T:
    """A dataclass instance whose fields, and theirs, are of the types they were declared with. Raises ValueError."""
    kind: Any = type(value)
    for name, hint in _hints(kind):
        field = getattr(value, name)
        if not fits(field, hint):
            raise ValueError(f"{name} can't be {str(field)[:40]!r}")
    return value


@functools.cache
def _hints(cls: type) -> tuple[tuple[str, Any], ...]:
    hints = get_type_hints(cls)
    return tuple((f.name, hints[f.name]) for f in dataclasses.fields(cls))


def fits(value: object, hint: Any) -> bool:
    """Whether `value` is of the type `hint`: plain ones, unions, literals, tuples, sequences, mappings, dataclasses.

    A bool is no number, and a number is finite. For any other type nothing is claimed.
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, one) for one in args)
    if origin is Literal:
        return isinstance(value, str | int | bool | None) and value in args
    if origin is tuple:
        return isinstance(value, tuple) and _members(value, args)
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(fits(k, args[0]) and fits(v, args[1]) for k, v in value.items())
    if origin is not None and issubclass(origin, Sequence):
        return isinstance(value, list | tuple) and all(fits(one, args[0]) for one in value)
    return _is(value, hint)


def _members(value: tuple[object, ...], args: tuple[Any, ...]) -> bool:
    if len(args) == 2 and args[1] is Ellipsis:
        return all(fits(one, args[0]) for one in value)
    return len(value) == len(args) and all(map(fits, value, args))


def _is(value: object, hint: Any) -> bool:
    if hint is None or hint is type(None):
        return value is None
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= WHOLE
    if hint is Figure:
        return isinstance(value, float)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and _finite(value)
    if dataclasses.is_dataclass(hint):
        return isinstance(value, hint) and all(fits(getattr(value, n), h) for n, h in _hints(hint))  # type: ignore[arg-type]
    return isinstance(value, hint) if isinstance(hint, type) else True


def _finite(value: float) -> bool:
    return abs(value) <= WHOLE if isinstance(value, int) else math.isfinite(value)
