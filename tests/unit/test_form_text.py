"""The launch form and the text of a job file are one: what a field says is written, and nothing else changes."""

from __future__ import annotations

import shlex

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from distui.errors import SpecError
from distui.spec.job.read_job import read_job
from distui.spec.yaml.edit_text import values_at
from distui.tui.launch.form.job_form import FIELDS, Field, changed, values

PLAIN = """\
# a job
version: 1
name: llm            # its name

hosts: node[01-02]   # two of them
launcher: env
ranks: {per_host: 1}
# what it runs in
image: pytorch/pytorch:2.5.1
command: [python, train.py]  # the program
fabric: {kind: auto, require: any}   # the network

# the end
"""
BLOCKS = """\
version: 1
name: "llm"
command:             # the program
  - python
  # its file
  - train.py         # with defaults
  - |
    not # a comment

hosts:
  group: h100        # all of them
gpus_per_host:       # every second one
  - 0
  - 2
fabric:
  # the fast one
  kind: ib
ranks: {per_host: 1}
env:
  A: "# no comment"
x-mine: {b: [1, 2]}
image: 'a/b:c'"""
BARE = "name: a\nversion: 1\ncommand: x\n"
SEVERAL = f"# first\n{BARE}---\n{PLAIN}...\n---\n# last\nname: z\nversion: 1\ncommand: y # z\n"
TEXTS = {"plain": (PLAIN, None), "blocks": (BLOCKS, None), "bare": (BARE, None), "several": (SEVERAL, "llm")}
TYPED = {
    "hosts": st.sampled_from(["node01", "node[01-04,07]", "@h100", "@h100 x2", "gpu=h100", "a, b", "node01:0-3", ""]),
    "gpus": st.sampled_from(["8", "all", "0-3", "0,2", "[1, 3]", "", "x", "1:2"]),
    "image": st.from_regex(r"[a-z]{1,8}(/[a-z0-9.-]{1,8})?(:[a-z0-9.]{1,8})?", fullmatch=True) | st.just(""),
    "command": st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=8),
                        min_size=1, max_size=4).map(shlex.join),
}  # fmt: skip


def typed(field: Field) -> st.SearchStrategy[str]:
    """What one may put into a field."""
    return st.sampled_from(field.choices) if field.choices else TYPED[field.id]


def comments(text: str) -> list[str]:
    """Every comment: what begins with a `#` outside of values."""
    plain, at = "", 0
    for token in yaml.scan(text):
        if isinstance(token, yaml.ScalarToken):
            plain, at = plain + text[at : token.start_mark.index], token.end_mark.index
    return sorted(line[line.index("#") :].strip() for line in (plain + text[at:]).splitlines() if "#" in line)


EDITS = st.sampled_from(FIELDS).flatmap(lambda field: st.tuples(st.just(field), typed(field)))


@given(EDITS, st.sampled_from(sorted(TEXTS)))
def test_what_is_put_into_a_field_is_in_the_text_and_all_else_stays(edit: tuple[Field, str], name: str) -> None:
    """The text reads back to the value; comments, other documents and other keys are there as they were written."""
    (field, value), (text, document) = edit, TEXTS[name]
    made = changed(text, field, value, document)
    assert made is not None
    written = field.write(value)
    wanted = {field.key: None if written is None else yaml.safe_load(written)}
    assert comments(made) == comments(text)
    assert made.startswith(text[: text.index("version: 1")].rpartition("\n")[0])
    top, _, below = field.key.partition(".")
    before, after = list(yaml.safe_load_all(text)), list(yaml.safe_load_all(made))
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        if document not in (None, old["name"]):
            assert new == old
            continue
        assert {k: v for k, v in new.items() if k != top} == {k: v for k, v in old.items() if k != top}
        got = new.get(top)
        assert (got.get(below) if below and isinstance(got, dict) else got) == wanted[field.key]


def span(text: str, document: str | None, key: str) -> tuple[int, int] | None:
    """The lines from a key of the job to the next one; None without it."""
    root = next(
        node for node in yaml.compose_all(text)
        if document is None or any((k.value, v.value) == ("name", document) for k, v in node.value)
    )  # fmt: skip
    at = next((n for n, (k, _) in enumerate(root.value) if k.value == key), None)
    if at is None:
        return None
    rest = root.value[at + 1 :]
    end = root.end_mark.line + (root.end_mark.column > 0)  # the last line may have no end
    return root.value[at][0].start_mark.line, rest[0][0].start_mark.line if rest else end


@given(EDITS, st.sampled_from(sorted(TEXTS)))
def test_lines_that_are_not_the_key_s_stay_byte_for_byte(edit: tuple[Field, str], name: str) -> None:
    """What stands before and after the key's lines is untouched; a key that was not there is one line more."""
    (field, value), (text, document) = edit, TEXTS[name]
    made = changed(text, field, value, document)
    assert made is not None
    lines = text.splitlines(keepends=True)
    here = span(text, document, field.key.split(".")[0])
    if here is not None:
        assert made.startswith("".join(lines[: here[0]]))
        assert made.endswith("".join(lines[here[1] :]))
    elif made != text:
        new = made.splitlines()
        more = [n for n in range(len(new)) if new[:n] + new[n + 1 :] == text.splitlines()]
        assert more and new[more[0]].startswith(f"{field.key.split('.')[0]}: ")


@given(EDITS, EDITS, st.sampled_from(sorted(TEXTS)))
def test_fields_do_not_meddle_with_each_other(one: tuple[Field, str], other: tuple[Field, str], name: str) -> None:
    """Two edits in either order give the same values; the second of one field wins."""
    text, document = TEXTS[name]
    keys = [field.key for field in FIELDS]
    made = text
    for field, value in (one, other):
        made = changed(made, field, value, document) or pytest.fail("the form could not change the text")
    found = values_at(made, keys, name=document)
    swapped = text
    for field, value in (other, one) if one[0] is not other[0] else (other,):
        swapped = changed(swapped, field, value, document) or pytest.fail("the form could not change the text")
    assert found == values_at(swapped, keys, name=document)


@given(EDITS, st.sampled_from(["plain", "blocks", "several"]))
def test_the_field_says_what_the_text_says(edit: tuple[Field, str], name: str) -> None:
    """Whatever was typed: where the text is a job the field reads as the job does, and typing that changes nothing."""
    (field, value), (text, document) = edit, TEXTS[name]
    made = changed(text, field, value, document)
    assert made is not None
    try:
        job = read_job(made, "job.yaml", environ={}, name=document)
    except SpecError:
        return
    shown = values(made, job, made, document)[field.id]
    assert shown == field.read(job)
    again = changed(made, field, shown, document)
    assert again is not None
    assert read_job(again, "job.yaml", environ={}, name=document) == job


def test_a_value_that_others_refer_to_is_left_alone() -> None:
    """The form can't take an anchor away: the text would be no YAML any more."""
    text = "name: a\nimage: &i x\nx-more: *i\n"
    image = next(field for field in FIELDS if field.id == "image")
    assert changed(text, image, "y", None) is None
