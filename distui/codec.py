"""Frozen dataclasses as JSON and back, by the types of their fields: events, plans, jobs, hosts, labels.

What is read may have been written by anybody: whatever comes back is what its type says, whole numbers are bounded and
others finite. Keys of later versions are left out; what an earlier version did not write has its field's default.

A field says with `Annotated` how it stands there, where that is not as it is. `KEYS`, a class variable, names the
fields that are written, in their order, where these are not all of them in the order they have.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
Convert = Callable[[Any], Any]

WHOLE = 1 << 53
"""No whole number beyond this is meant: JSON's readers elsewhere lose digits there."""


class Form(NamedTuple):
    """In `Annotated`: how a value is written, how it is read, and the type of what is read."""

    write: Convert
    read: Convert
    kind: Any = str


class Key(NamedTuple):
    """In `Annotated`: what a field is called; a `brief` one is left out where it has its default."""

    name: str = ""
    brief: bool = False


class Unfit(ValueError):
    """A value that is not what its type says; the message names the field."""


class Part(NamedTuple):
    """One field of a class, ready to be written and read."""

    name: str
    key: str
    default: Any
    """`dataclasses.MISSING` where there is none; of those with a factory only `brief` ones need theirs."""
    brief: bool
    write: Convert | None
    """None for what stands there as it is."""
    read: Convert


def write(value: Any) -> dict[str, Any]:
    """A dataclass instance as plain JSON values, keys in the order of the fields."""
    made = {}
    for part in parts(value.__class__):
        held = getattr(value, part.name)
        if not part.brief or held != part.default:
            made[part.key] = held if part.write is None else part.write(held)
    return made


def read(cls: type[T], value: object, **known: Any) -> T:
    """The instance that `write` wrote; `known` are fields that are not read. Raises ValueError."""
    of: Any = cls
    if not isinstance(value, dict):
        raise Unfit(f"not an object: {str(value)[:40]!r}")
    found = (part for part in parts(of) if part.key in value and part.name not in known)
    held = {part.name: _read_part(part, value[part.key]) for part in found} | known
    try:
        return cls(**held)
    except TypeError:
        missing = [p.key for p in parts(of) if p.default is dataclasses.MISSING and p.name not in held]
        raise Unfit(f"no {', '.join(missing)}") from None


def _read_part(part: Part, value: object) -> Any:
    try:
        return part.read(value)
    except Unfit:
        raise
    except (ValueError, OverflowError):
        raise Unfit(f"{part.key} can't be {str(value)[:40]!r}") from None


def as_list(value: Any) -> list[Any]:
    """A dataclass instance as the list of its values."""
    return list(write(value).values())


def from_list(cls: type[T], values: Sequence[object]) -> T:
    """The instance that `as_list` wrote. Raises ValueError."""
    of: Any = cls
    return read(cls, dict(zip((part.key for part in parts(of)), values, strict=True)))


def reads(kind: Any, value: object) -> bool:
    """Whether this JSON value is one of that type."""
    try:
        reader(kind)(value)
    except (ValueError, OverflowError):
        return False
    return True


@functools.cache
def parts(cls: Any) -> tuple[Part, ...]:
    """The fields of a class that are written, in their order. Made when the class is first written or read."""
    hints = get_type_hints(cls, include_extras=True)
    fields = {f.name: f for f in dataclasses.fields(cls)}
    return tuple(_part(fields[name], hints[name]) for name in getattr(cls, "KEYS", fields))


def _part(field: dataclasses.Field[Any], hint: Any) -> Part:
    key = next((m for m in getattr(hint, "__metadata__", ()) if isinstance(m, Key)), Key())
    default = field.default_factory() if callable(field.default_factory) else field.default
    return Part(field.name, key.name or field.name, default, key.brief, writer(hint), reader(hint))


def _form(hint: Any) -> tuple[Any, Form | None]:
    """A type without what was annotated, and its own form."""
    if get_origin(hint) is not Annotated:
        return hint, None
    return hint.__origin__, next((m for m in hint.__metadata__ if isinstance(m, Form)), None)


# Writing.


def writer(hint: Any) -> Convert | None:
    """What writes values of a type; None where that is the value itself."""
    hint, form = _form(hint)
    if form is not None:
        return form.write
    origin = get_origin(hint)
    if origin is Literal or hint in _LEAVES or hint is type(None):
        return None
    inner = [writer(one) for one in get_args(hint) if one is not Ellipsis]
    if origin in (Union, types.UnionType):
        return _union_writer([convert for convert in inner if convert is not None])
    if all(convert in (None, _plain) for convert in inner):
        return _plain
    each = [convert or _plain for convert in inner]
    if issubclass(origin, Mapping):
        return lambda value: {str(key): each[1](held) for key, held in value.items()}
    if len(each) > 1:
        return lambda value: [convert(held) for convert, held in zip(each, value, strict=True)]
    return lambda value: [each[0](held) for held in value]


def _union_writer(inner: Sequence[Convert]) -> Convert | None:
    """Of types of which none or one has a form."""
    own = [convert for convert in inner if convert is not _plain]
    if not own:
        return _plain if inner else None
    return lambda value: None if value is None else own[0](value)


def _plain(value: Any) -> Any:
    """A value without a form of its own as JSON."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(held) for held in value]
    return write(value) if dataclasses.is_dataclass(value) else value


# Reading.


@functools.cache
def reader(hint: Any) -> Convert:
    """What reads values of a type from JSON, where lists are tuples. It raises ValueError for all else."""
    hint, form = _form(hint)
    if form is not None:
        kind = reader(form.kind)
        return lambda value: form.read(kind(value))
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _union_reader([reader(one) for one in args if one is not type(None)], type(None) in args)
    if origin is Literal:
        return lambda value: value if isinstance(value, str | int | bool | None) and value in args else _no(value)
    if origin is tuple and args[-1] is not Ellipsis:
        return _row_reader([reader(one) for one in args])
    if origin is not None and issubclass(origin, Mapping):
        return _mapping_reader(reader(args[0]), reader(args[1]))
    if origin is not None and issubclass(origin, Sequence):
        return _list_reader(reader(args[0]))
    if dataclasses.is_dataclass(hint):
        return functools.partial(read, hint)  # type: ignore[arg-type]
    return _LEAVES.get(hint, lambda value: value)


def _no(value: object) -> Any:
    raise ValueError(f"can't be {str(value)[:40]!r}")


def _union_reader(readers: Sequence[Convert], optional: bool) -> Convert:
    def read_any(value: object) -> Any:
        if value is None and optional:
            return None
        for one in readers[:-1]:
            try:
                return one(value)
            except ValueError:
                continue
        return readers[-1](value)

    return read_any


def _row_reader(readers: Sequence[Convert]) -> Convert:
    def read_row(value: object) -> tuple[Any, ...]:
        row = value if isinstance(value, list | tuple) and len(value) == len(readers) else _no(value)
        return tuple(one(held) for one, held in zip(readers, row, strict=True))

    return read_row


def _mapping_reader(key: Convert, held: Convert) -> Convert:
    def read_mapping(value: object) -> dict[Any, Any]:
        return {key(k): held(v) for k, v in (value if isinstance(value, dict) else _no(value)).items()}

    return read_mapping


def _list_reader(one: Convert) -> Convert:
    return lambda value: tuple(map(one, value)) if isinstance(value, list | tuple) else _no(value)


def _int(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= WHOLE else _no(value)


def _float(value: object) -> float:
    return value if isinstance(value, float) and math.isfinite(value) else _int(value)


def _one_of(kind: type) -> Convert:
    return lambda value: value if isinstance(value, kind) else _no(value)


_LEAVES: Mapping[Any, Convert] = {
    int: _int, float: _float, str: _one_of(str), bool: _one_of(bool), dict: _one_of(dict),
    list: _one_of(list),
}  # fmt: skip
