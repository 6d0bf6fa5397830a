"""Editing one value of a YAML text: the rest stays byte for byte, and what is read back is what was set."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from distui.spec.yaml.edit_text import nested_at, scalar, set_value, values_at, words

JOB = """\
# a job
version: 1
name: llm            # its name
hosts: node[01-02]
fabric: {kind: auto, require: any}   # the network
command:
  - python
  - |
    print("hello")

# the end
env:
  A: "1"
"""


@pytest.mark.parametrize(
    ("key", "value", "before", "after"),
    [
        ("name", "vit", "name: llm            # its name", "name: vit            # its name"),
        ("fabric.kind", "ib", "{kind: auto, require", "{kind: ib, require"),
        ("fabric.ifname", "eno1", "require: any}", "require: any, ifname: eno1}"),
        ("fabric.kind", None, "{kind: auto, require: any}", "{require: any}"),
        ("fabric.require", None, ", require: any}", "}"),
        ("hosts", None, "hosts: node[01-02]\n", ""),
        ("env.A", '"2"', 'A: "1"', 'A: "2"'),
        ("env.B", "x", '  A: "1"\n', '  A: "1"\n  B: x\n'),
        ("launcher", "torchrun", '  A: "1"\n', '  A: "1"\nlauncher: torchrun\n'),
        ("torchrun.rdzv", "c10d", '  A: "1"\n', '  A: "1"\ntorchrun: {rdzv: c10d}\n'),
        ("command", "[a]", 'command:\n  - python\n  - |\n    print("hello")\n', "command: [a]\n"),
        ("hosts.count", "2", "hosts: node[01-02]", "hosts: {count: 2}"),
    ],
)
def test_only_the_value_changes(key: str, value: str | None, before: str, after: str) -> None:
    """Comments, order and everything else stay as they were written."""
    assert JOB.count(before) == 1
    assert set_value(JOB, key, value) == JOB.replace(before, after)


def test_one_of_several_documents() -> None:
    """The name picks the document."""
    text = "name: a\nimage: x\n---\nname: b\nimage: y\n"

    assert set_value(text, "image", "z", name="b") == "name: a\nimage: x\n---\nname: b\nimage: z\n"


@pytest.mark.parametrize("text", ["a: [", "- a\n- b\n", "{a: 1}", "", "just words"])
def test_what_cannot_be_changed_safely_is_left_alone(text: str) -> None:
    """Broken YAML and documents that are no block mapping give None."""
    assert set_value(text, "a", "1") is None


def test_an_empty_value_is_filled() -> None:
    """A key without a value gets one."""
    assert set_value("name:\nimage: x\n", "name", "n") == "name: n\nimage: x\n"


def test_a_last_line_without_its_end() -> None:
    """A new key starts a line of its own."""
    assert set_value("name: a", "image", "x") == "name: a\nimage: x\n"
    assert set_value("# mine\nenv:\n  A: 1", "image", "x") == "# mine\nenv:\n  A: 1\nimage: x\n"


@pytest.mark.parametrize(
    ("key", "before", "after"),
    [
        ("image", "env:\n  A: 1\n\n  # B: 2\n  #C: 3\n# end\n", "env:\n  A: 1\n\n  # B: 2\n  #C: 3\nimage: x\n# end\n"),
        ("image", "env:\n  A: 1\n  # B: 2", "env:\n  A: 1\n  # B: 2\nimage: x\n"),
        (
            "env.B",
            "env:\n  A:\n    - 1\n    # - 2\n  # B\na: 1\n",
            "env:\n  A:\n    - 1\n    # - 2\n  B: x\n  # B\na: 1\n",
        ),
    ],
)
def test_a_new_key_comes_behind_the_comments_of_the_block_above_it(key: str, before: str, after: str) -> None:
    """It came between the block and them, which were then its own."""
    assert set_value(before, key, "x") == after


@pytest.mark.parametrize("key", ["image", "env.C"])
@pytest.mark.parametrize("text", ["name: a\ncommand: |\n  x", "command: >\n  x", "env:\n  A: 1\n  B: |+\n    x"])
def test_a_block_of_text_whose_last_line_has_no_end_stays_as_it_was(text: str, key: str) -> None:
    """A new key behind it would give it one more sign."""
    made = set_value(text, key, "new")
    assert made is not None
    wanted, (top, _, below) = yaml.safe_load(text), key.partition(".")
    wanted[top] = {**wanted.get(top, {}), below: "new"} if below else "new"
    assert yaml.safe_load(made) == wanted


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=30))
def test_any_string_comes_back(value: str) -> None:
    """A scalar reads back as the string it was made from, in block and in flow context."""
    made = set_value(JOB, "image", scalar(value))
    assert made is not None
    assert yaml.safe_load(made)["image"] == value
    listed = set_value(JOB, "command", words([value, "x"]))
    assert listed is not None
    assert yaml.safe_load(listed)["command"] == [value, "x"]


@given(st.sampled_from(["name", "hosts", "fabric.kind", "fabric.x", "command", "env.A", "env.Z", "new", "new.key"]))
def test_the_others_keep_their_values(key: str) -> None:
    """Whatever is set, every other key reads as before."""
    made = set_value(JOB, key, "7")
    assert made is not None
    old, new = yaml.safe_load(JOB), yaml.safe_load(made)
    top, _, sub = key.partition(".")
    assert {k: v for k, v in new.items() if k != top} == {k: v for k, v in old.items() if k != top}
    assert (new[top][sub] if sub else new[top]) == 7


ALIASES = """\
x-program: &program train.py
x-words: &words [python, *program]
name: llm
command:
  - python
  - *program
image: *program
fabric: &fabric {kind: tcp}
torchrun: *fabric
"""


@pytest.mark.parametrize(
    ("key", "value", "before", "after"),
    [
        ("command", None, "command:\n  - python\n  - *program\n", ""),
        ("command", "[a]", "command:\n  - python\n  - *program\n", "command: [a]\n"),
        ("image", "b", "image: *program", "image: b"),
        ("image", None, "image: *program\n", ""),
        ("torchrun", "{}", "torchrun: *fabric", "torchrun: {}"),
        ("env", "{A: b}", "torchrun: *fabric\n", "torchrun: *fabric\nenv: {A: b}\n"),
    ],
)
def test_an_alias_is_changed_where_it_stands(key: str, value: str | None, before: str, after: str) -> None:
    assert set_value(ALIASES, key, value) == ALIASES.replace(before, after)


def test_what_an_alias_names_is_changed_for_no_others() -> None:
    assert set_value(ALIASES, "torchrun.kind", "ib") is None


def test_aliases_are_read_as_what_they_name() -> None:
    assert values_at(ALIASES, ["image", "x-words", "torchrun.kind"]) == {
        "image": "train.py",
        "x-words": ("python", "train.py"),
        "torchrun.kind": "tcp",
    }
    assert nested_at(ALIASES, ["torchrun", "x-words"]) == {"torchrun": 9}


@pytest.mark.parametrize("text", ["command: &x [a, *x]\n", "command: &x\n  - a\n  - *x\n", "command: &x\n  a: *x\n"])
def test_a_value_that_holds_itself_ends_nothing(text: str) -> None:
    assert set_value(text, "command", "[b]") == "command: [b]\n"
    assert set_value(text, "name", "a") == f"{text}name: a\n"
    assert values_at(text, ["command"]) == {"command": text.removeprefix("command: ").rstrip()}


def test_a_few_aliases_that_are_a_million_values_cost_nothing() -> None:
    levels = "".join(f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 9)}]\n" for n in range(1, 30))
    text = f"x0: &x0 a\n{levels}command:\n  - *x29\n"
    assert set_value(text, "command", "[b]") == text.replace("command:\n  - *x29\n", "command: [b]\n")


@pytest.mark.parametrize(
    ("text", "key"),
    [("? image\nname: a\n", "image"), ("name: a\n? image\n", "image"), ("? image\n: x\nname: a\n", "env"),
     ("name: a\n? image\n---\nname: b\n", "image"), ("name: a\nenv: {A, B: c}\n", "env.A")],
)  # fmt: skip
def test_a_key_without_its_colon_is_not_changed(text: str, key: str) -> None:
    """What stands behind another key's colon is none of its."""
    assert set_value(text, key, "x") is None


def test_what_is_nested_beyond_measure_is_not_changed() -> None:
    assert set_value(f"name: a\ncommand: {'[' * 2000}{']' * 2000}\n", "name", "b") is None
