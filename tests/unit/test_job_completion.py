"""What may stand at a place of a job file that is being typed: the schema's keys and values, with its help."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.spec.completion import OF_LAUNCHER, Completion, complete, describe
from distui.spec.job.job_keys import JOB

KNOWN = {"hosts": ("node01", "node02", "@h100")}


def at(text: str) -> Completion:
    """The completion at the `^` of a text."""
    before, _, after = text.partition("^")
    return complete(before + after, before.count("\n"), len(before.rpartition("\n")[2]), KNOWN)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("fab^", ["fabric: "]),
        ("name: x\non_^\n", ["on_fail: ", "on_hang: "]),
        ("on_fail: stop\non_^", ["on_hang: "]),  # what is there is not offered
        ("launcher: t^", ["torchrun", "tf"]),
        ("launcher: torchrn^", ["torchrun"]),  # nearest
        ("lancher^", ["launcher: "]),
        ("fabric:\n  ki^", ["kind: "]),
        ("fabric:\n  kind: ib\n  r^", ["require: "]),
        ("fabric: {kind: r^", ["roce"]),
        ("fabric: {kind: ib, req^}", ["require: "]),
        ("fabric: {kind: ib, k^}", []),
        ("rendezvous: {f^", ["file: "]),
        ("roles:\n  worker: {per_host: 1, gp^", ["gpus: "]),
        ("roles:\n  worker:\n    count: 2\n    done^", []),
        ("ulimits: {mem^", ["memlock: "]),
        ("hosts: n^", ["node01", "node02"]),
        ("hosts: {group: x, co^", ["count: "]),
        ("preflight: [gp^", ["gpus_idle"]),
        ("preflight:\n  - gp^", ["gpus_idle"]),
        ("preflight:\n- ib\n- gp^", ["gpus_idle"]),
        ("a: 1\n---\nlaun^", ["launcher: "]),
        ("# laun^", []),
        ("^# a job\nversion: 1\n", []),  # it would be written before the sign
        ("version: 1\n  ^# more\n", []),
        ("name: x # laun^", []),
        ("command:\n  - |\n    laun^", []),
        ("command: |\n  laun^", []),
        ("command:\n  - x\nlaun^", ["launcher: "]),
        ("env: {laun^", []),
        ("image: laun^", []),
    ],
)
def test_options(text: str, options: list[str]) -> None:
    """Whatever the text around is, valid or not."""
    assert [option.word for option in at(text).options] == options


def test_keys_of_another_launcher_come_last() -> None:
    """`roles` only means something with tf, `task_per` with command."""
    job = "version: 1\nname: x\nhosts: a\nimage: i\n^\n"
    for launcher, wanted in (("env", ""), ("torchrun", "torchrun"), ("tf", "roles"), ("command", "task_per")):
        words = [option.word.rstrip(": ") for option in at(f"launcher: {launcher}\n{job}").options]
        of_launchers = [word for word in words if word in OF_LAUNCHER]
        last = words[-sum(OF_LAUNCHER[word] != launcher for word in of_launchers) :]
        assert {OF_LAUNCHER[word] for word in last} == set(OF_LAUNCHER.values()) - {launcher}
        assert not wanted or words.index(wanted) < words.index(last[0])
    assert [option.word for option in at("ro^").options] == ["roles: "], "it is there all the same"


def test_the_help_is_the_schema_s() -> None:
    """Of each key that is offered, and of the key whose value is typed."""
    assert {o.word: o.about for o in at("^").options} == {f"{key.name}: ": key.about for key in JOB.keys}
    assert at("launcher: ^").about == describe("launcher") != ""
    assert describe("fabric.kind") == "Network for the training data."
    assert describe("nothing.like.it") == ""
    assert ("env", "the default") in [(o.word, o.about) for o in at("launcher: ^").options]


@given(st.text("ab:{}[],-|># \n\"'", max_size=60), st.integers(0, 60))
def test_any_text_and_place(text: str, index: int) -> None:
    """There is an answer, and the word it takes the place of ends at the cursor."""
    before = text[:index]
    row, column = before.count("\n"), len(before.rpartition("\n")[2])
    assert 0 <= complete(text, row, column).start <= column
