"""The codec: what it writes it reads again, for every type that is stored; what a type does not say is refused."""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distui.codec import Form, Key, read, reads, write
from distui.plan.model import RunPlan
from distui.runs.follow.resume import ResumePoint
from distui.runs.lines.event_json import STORED, TYPES, event_of, to_json
from distui.runs.lines.events import Event, RunEnded, RunOpened
from distui.spec.hosts.inventory import Host, HostPick
from distui.spec.job.job import Job

LEAVES: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=5), int: st.integers(0, 99), bool: st.booleans(), type(None): st.none(),
    float: st.integers(0, 10**9).map(lambda halves: halves / 2),
    bytes: st.text(max_size=5).map(str.encode),
}  # fmt: skip


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a type."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return st.one_of(*map(values, args))
    if origin is Literal:
        return st.sampled_from(args)
    if origin is tuple and args[-1] is not Ellipsis:
        return st.tuples(*map(values, args))
    if origin is tuple:
        return st.lists(values(args[0]), max_size=3).map(tuple)
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(values(args[0]), values(args[1]), max_size=3)
    if dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint)
        return st.builds(hint, **{f.name: values(hints[f.name]) for f in dataclasses.fields(hint)})  # type: ignore[arg-type]
    return LEAVES[hint]


def through(value: Any) -> Any:
    """It as JSON text and back."""
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("cls", [Job, Host, HostPick, RunPlan, ResumePoint])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_what_is_written_is_read_again(cls: type, data: st.DataObject) -> None:
    """Whatever is in it."""
    value = data.draw(values(cls))
    assert read(cls, through(write(value))) == value


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_every_stored_event_comes_back(data: st.DataObject) -> None:
    """With what the plan knows: which task has which ranks."""
    event = data.draw(values(data.draw(st.sampled_from(sorted(STORED.values(), key=str)))))
    if isinstance(event, RunOpened):
        lines = {rank: count for rank, count in event.lines.items() if rank in event.ranks and count}
        names = {rank: name for rank, name in event.names.items() if rank in event.ranks and name}
        event = dataclasses.replace(event, run="r", tasks={0: (1, 2)}, lines=lines, names=names)
    elif isinstance(event, RunEnded) and (reported := event.progress) is not None:
        words = {
            name: f"word {said}" for name, said in event.progress.words.items() if name not in event.progress.values
        }
        event = dataclasses.replace(event, progress=dataclasses.replace(reported, at=event.at, words=words))
    (value,) = to_json(event, "r")
    assert event_of(through(value), {0: (1, 2)}) == event


def test_every_event_has_a_name() -> None:
    assert set(TYPES) == set(get_args(Event))


@dataclasses.dataclass(frozen=True)
class Inner:
    """Within another."""

    name: str


@dataclasses.dataclass(frozen=True)
class One:
    """A field of each kind of type that events, plans and hosts have."""

    number: int
    words: str | None
    map: Mapping[str, tuple[str, ...]]
    pair: tuple[int, float]
    mode: Literal["ro", "rw"] = "ro"
    inner: Inner | None = None
    when: Annotated[float, Form(str, float), Key("at", brief=True)] = 0.0


GOOD = {"number": 1, "words": None, "map": {"a": ["b"]}, "pair": [1, 2]}


def test_defaults_keys_of_later_versions_and_forms() -> None:
    """A key may be missing or unknown; a brief one is written where it is not the default."""
    made = read(One, {**GOOD, "later": 1})
    assert made == One(1, None, {"a": ("b",)}, (1, 2))
    assert write(made) == {**GOOD, "mode": "ro", "inner": None}
    other = One(1, "x", {}, (1, 2.5), "rw", Inner("n"), 2.5)
    assert write(other)["at"] == "2.5"
    assert read(One, through(write(other))) == other


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        *(("number", bad) for bad in (None, True, "1", 1.0, 10**400, 2**53 + 1, [])),
        *(("words", bad) for bad in (1, [], {})),
        *(("map", bad) for bad in ([], {"a": "b"}, {"a": ["b", 2]}, None)),
        *(("pair", bad) for bad in ([1], [1, 2, 3], ["1", 2.0], [1, float("nan")], [1, True], "ab")),
        *(("mode", bad) for bad in ("", "x", None, [], {})),
        *(("at", bad) for bad in (1.0, None, "x")),
    ],
)
def test_what_a_type_does_not_say_is_refused(name: str, bad: object) -> None:
    """The message names the field."""
    with pytest.raises(ValueError, match=f"{name} can't be"):
        read(One, {**GOOD, name: bad})


@pytest.mark.parametrize("inner", [{"name": 1}, {}, [], "x"])
def test_what_is_wrong_inside_is_named(inner: object) -> None:
    """Not the whole of what it is in."""
    with pytest.raises(ValueError, match=r"name can't be '1'|no name|not an object"):
        read(One, {**GOOD, "inner": inner})
    assert not reads(Inner, inner)


@pytest.mark.parametrize("value", [None, [], 1, "x", {}])
def test_what_is_no_object_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"not an object|no number, words, map, pair"):
        read(One, value)
