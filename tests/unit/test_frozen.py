"""`@frozen` is `@dataclass(frozen=True, slots=True)` in all that a program can see, but for when it is made."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import pkgutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import distui
from distui.frozen import frozen, replace


class Plain:
    """What both decorators are given."""

    rank: int
    host: str = "h1"
    names: list[str] = field(default_factory=list)
    secret: str = field(default="", repr=False)
    seen: float = field(default=0.0, compare=False)

    @property
    def where(self) -> str:
        """A method of its own."""
        return f"r{self.rank} on {self.host}"


def twin(decorate: Any, template: type = Plain) -> Any:
    """A class as if written with a decorator."""
    hidden = ("__dict__", "__weakref__")
    return decorate(type(template.__name__, (), {k: v for k, v in vars(template).items() if k not in hidden}))


LATE, EARLY = twin(frozen), twin(dataclass(frozen=True, slots=True))


@pytest.mark.parametrize("given", [(3,), (3, "h2"), (3, "h2", ["x"], "s", 1.5)])
def test_an_instance_is_as_of_dataclass(given: tuple[Any, ...]) -> None:
    """By position and by name, with its words, its fields, as a dict, in a match."""
    late, early = LATE(*given), EARLY(*given)
    assert repr(late) == repr(early)
    assert dataclasses.asdict(late) == dataclasses.asdict(early)
    assert late == LATE(**dict(zip(LATE.__match_args__, given, strict=False)))
    assert late.where == early.where
    assert LATE.__match_args__ == EARLY.__match_args__
    match late:
        case LATE(rank, host):
            assert (rank, host) == (late.rank, late.host)


def test_the_class_is_as_of_dataclass() -> None:
    """Its signature, its slots, its name, its words."""
    assert str(inspect.signature(LATE)) == str(inspect.signature(EARLY))
    assert LATE.__slots__ == EARLY.__slots__
    assert (LATE.__qualname__, LATE.__module__, LATE.__doc__) == (EARLY.__qualname__, EARLY.__module__, EARLY.__doc__)
    assert not hasattr(LATE(1), "__dict__")


@pytest.mark.parametrize("words", [(), (1, "h", [], "", 0.0, "one too many")])
def test_wrong_arguments_are_refused(words: tuple[Any, ...]) -> None:
    """With the words of Python's own calls."""
    with pytest.raises(TypeError) as late:
        LATE(*words)
    with pytest.raises(TypeError) as early:
        EARLY(*words)
    assert str(late.value) == str(early.value)


@pytest.mark.parametrize("name", ["rank", "unknown"])
def test_nothing_is_set_or_deleted(name: str) -> None:
    """As of a frozen dataclass: an AttributeError of its own kind."""
    one = LATE(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot assign to field '{name}'"):
        setattr(one, name, 2)
    with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot delete field '{name}'"):
        delattr(one, name)
    assert one.rank == 1


def test_equal_are_those_of_one_class_with_equal_fields() -> None:
    """But for fields that are not compared; a hash goes by the same fields."""
    assert LATE(1, seen=1.0) == LATE(1, seen=2.0)
    assert LATE(1) != LATE(2)
    assert LATE(1) != EARLY(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(LATE(1))
    assert hash(LATE(1, names=())) == hash(LATE(1, names=(), seen=3.0))


def test_one_field_and_none() -> None:
    """A NaN equals itself, as in a tuple."""

    @frozen
    class One:
        at: float

    @frozen
    class Nothing:
        pass

    nan = float("nan")
    assert One(nan) == One(nan)
    assert One(1.0) != One(2.0)
    assert Nothing() == Nothing()
    assert hash(Nothing()) == hash(Nothing())


def test_replace_and_copy() -> None:
    """Another value with some fields changed, and a copy of its own."""
    one = LATE(1, names=["a"])
    assert dataclasses.replace(one, host="h9") == replace(one, host="h9") == LATE(1, "h9", ["a"])
    assert replace(one) == one
    assert replace(one).names is one.names
    for copied in (dataclasses.replace, replace):
        with pytest.raises(TypeError):
            copied(one, nobody=1)
    assert copy.deepcopy(one) == one
    assert copy.deepcopy(one).names is not one.names


def test_lists_of_two_instances_are_two() -> None:
    """A factory is asked for each."""
    assert LATE(1).names is not LATE(1).names


def test_nothing_is_compiled_before_the_first_instance() -> None:
    """That is what it is for."""
    kind = twin(frozen)
    assert not inspect.isfunction(vars(kind)["__init__"])
    kind(1)
    assert inspect.isfunction(vars(kind)["__init__"])
    assert not isinstance(vars(kind)["__dataclass_fields__"], dict)
    assert [f.name for f in dataclasses.fields(kind)] == list(kind.__slots__)


def test_a_post_init_is_called_and_may_fill_what_is_not_given() -> None:
    """By `object.__setattr__`, as in any frozen dataclass."""

    @frozen
    class Sum:
        parts: tuple[int, ...]
        total: int = field(init=False, repr=False, compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "total", sum(self.parts))

    assert Sum((1, 2)).total == 3
    assert repr(Sum((1, 2))).endswith("Sum(parts=(1, 2))")


def values() -> list[type]:
    """Every class of distui that is made so."""
    found = []
    for module in pkgutil.walk_packages(distui.__path__, "distui."):
        if not module.name.startswith(("distui.trainers", "distui.agent.hook")) and not module.name.endswith(
            "__main__"
        ):
            names = vars(importlib.import_module(module.name)).values()
            found += [
                one
                for one in names
                if isinstance(one, type) and vars(one).get("__setattr__") is vars(LATE)["__setattr__"]
            ]
    return sorted(set(found), key=lambda one: (one.__module__, one.__qualname__))


def test_every_value_of_distui_is_a_dataclass() -> None:
    """Each one's arguments are its fields, and none has what `@frozen` does not do: bases with fields, say."""
    kinds = values()
    assert len(kinds) > 200
    for kind in kinds:
        fields = dataclasses.fields(kind)
        assert list(inspect.signature(kind).parameters) == [f.name for f in fields if f.init], kind
        assert not any(f.kw_only for f in fields), kind
        assert all(f.init or f.default is f.default_factory is dataclasses.MISSING for f in fields), kind
        assert not any(hasattr(base, "__dataclass_fields__") for base in kind.__mro__[1:]), kind


def test_only_what_is_no_plain_value_is_made_by_dataclass() -> None:
    """One mechanism: a frozen class with slots and nothing else is a value."""
    root = Path(distui.__file__).parent
    texts = {path: path.read_text("utf-8") for path in root.rglob("*.py")}
    assert [str(path) for path, text in texts.items() if "@dataclass(frozen=True, slots=True)\n" in text] == []
