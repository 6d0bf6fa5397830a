"""Values: frozen dataclasses with slots whose methods are made when they are first needed.

A call declares hundreds of them and makes instances of few, but `dataclasses.dataclass` compiles six methods of each
at once: that was half of what a call cost. `@frozen` is `@dataclass(frozen=True, slots=True)` at another time:
`__init__` is compiled for the first instance, `__eq__` and `__hash__` when they are first called, what `dataclasses`
knows of the fields is made when it is first asked for (`fields`, `replace`, `asdict`), and the other methods are the
same for all values. Instances are made faster, too: they are filled through their slots, not `object.__setattr__`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import replace as replace
else:

    def replace(value: T, /, **changes: object) -> T:
        """As `dataclasses.replace` of such a value, in half of its time: for what is done with each event."""
        return value.__replace__(**changes)


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def frozen(cls: type[T]) -> type[T]:
    """The class, its annotations as fields. It has no base with fields; a field it does not take has no default."""
    given = {name: cls.__dict__.get(name, MISSING) for name in cls.__annotations__}
    body = {name: item for name, item in cls.__dict__.items() if name not in (*given, "__dict__", "__weakref__")}
    made = {
        "__slots__": tuple(given),
        "__qualname__": cls.__qualname__,
        "__match_args__": _names(given, "init"),
        "__init__": _Late(lambda kind: _init(kind, given)),
        "__eq__": _Late(lambda kind: _equal(kind, _names(given, "compare"))),
        "__hash__": _Late(lambda kind: _hash(kind, _names(given, "compare"))),
        "__replace__": _Late(_replacing),
        "__dataclass_fields__": _Late(lambda kind: _fields(kind, given)),
    }
    metaclass: Any = type(cls)
    kind: type[T] = metaclass(cls.__name__, cls.__bases__, {**_SHARED, **made, **body})
    return kind


class _Late:
    """What a class has, made when it is first asked for, and from then on in the class itself."""

    __slots__ = ("_make", "_name", "_owner")

    def __init__(self, make: Callable[[type], object]) -> None:
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: type) -> object:
        made: Any = self._make(self._owner)
        setattr(self._owner, self._name, made)
        # `inspect` gives the class as the instance, to have a method bound to it.
        return made.__get__(instance, owner) if hasattr(made, "__get__") else made


def _names(given: Mapping[str, object], option: str) -> tuple[str, ...]:
    """The fields that have an option of `dataclasses.field`: all that were given none."""
    return tuple(name for name, value in given.items() if not isinstance(value, Field) or getattr(value, option))


def _fields(kind: type, given: Mapping[str, object]) -> object:
    """The fields as `dataclass` says them of a class with the same ones."""
    body = {name: value for name, value in given.items() if value is not MISSING}
    words = {"__annotations__": kind.__annotations__, "__module__": kind.__module__, "__doc__": kind.__doc__}
    twin: Any = dataclasses.dataclass(init=False, repr=False, eq=False)(type(kind.__name__, (), body | words))
    return twin.__dataclass_fields__


def _init(kind: Any, given: Mapping[str, object]) -> object:
    """`__init__` as `dataclass` has it."""
    scope: dict[str, Any] = {"_FACTORY": _FACTORY}
    arguments, lines = ["self"], ["pass"]
    for name in kind.__match_args__:
        default, value = given[name], name
        if isinstance(default, Field) and default.default_factory is not MISSING:
            scope[f"_make_{name}"] = default.default_factory
            default, value = _FACTORY, f"_make_{name}() if {name} is _FACTORY else {name}"
        elif isinstance(default, Field):
            default = default.default
        scope |= {f"_set_{name}": getattr(kind, name).__set__, f"_default_{name}": default}
        arguments.append(name if default is MISSING else f"{name}=_default_{name}")
        lines.append(f"_set_{name}(self, {value})")
    if hasattr(kind, "__post_init__"):
        lines.append("self.__post_init__()")
    made = _method(kind, "__init__", arguments, lines, scope)
    made.__annotations__ = {name: kind.__annotations__[name] for name in kind.__match_args__} | {"return": None}
    return made


def _replacing(kind: Any) -> object:
    """`__replace__`: a copy with other values for some fields."""
    names = kind.__match_args__
    values = ", ".join(f"{name}=self.{name} if {name} is _KEPT else {name}" for name in names)
    arguments = ["self", "/", *(["*"] if names else []), *(f"{name}=_KEPT" for name in names)]
    return _method(kind, "__replace__", arguments, [f"return self.__class__({values})"], {"_KEPT": _KEPT})


_KEPT = object()


class _ByFactory:
    """The default of an argument whose value is made for each instance."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _ByFactory()


def _equal(kind: type, names: Sequence[str]) -> object:
    other = "if other.__class__ is not self.__class__: return NotImplemented"
    equal = f"return {_values('self', names)} == {_values('other', names)}"
    return _method(kind, "__eq__", ["self", "other"], [other, equal], {})


def _hash(kind: type, names: Sequence[str]) -> object:
    return _method(kind, "__hash__", ["self"], [f"return hash({_values('self', names)})"], {})


def _values(one: str, names: Sequence[str]) -> str:
    return f"({''.join(f'{one}.{name}, ' for name in names)})"


def _method(kind: type, name: str, arguments: Sequence[str], lines: Sequence[str], scope: dict[str, Any]) -> Any:
    """A method of its lines. What is compiled is words of here and names of fields, as they are written in a class."""
    exec(f"def {name}({', '.join(arguments)}):\n " + "\n ".join(lines), scope)
    made = scope[name]
    made.__qualname__, made.__module__ = f"{kind.__qualname__}.{name}", kind.__module__
    return made


@recursive_repr()
def _shown(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _set(self: object, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delete(self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[object]:
    return [getattr(self, name) for name in self.__slots__]


def _restore(self: Any, state: Sequence[object]) -> None:
    for name, value in zip(self.__slots__, state, strict=True):
        object.__setattr__(self, name, value)


_SHARED: Mapping[str, object] = {
    "__repr__": _shown,
    "__setattr__": _set,
    "__delattr__": _delete,
    "__getstate__": _state,
    "__setstate__": _restore,
}
