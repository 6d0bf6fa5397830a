"""The launch form and the text of a job file are one: what a field says is written, and nothing else changes."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from distui.errors import SpecError
from distui.plan.command import shell
from distui.spec.job.job import Job
from distui.spec.job.read_job import read_job
from distui.spec.job.variables import expand_text
from distui.spec.yaml.edit_text import values_at
from distui.tui.launch.form.job_form import FIELDS, Field, changed, only_in_text, values

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
    "hosts": st.sampled_from(["node01", "node[01-04,07]", "@h100", "@h100 x2", "gpu=h100", "gpu=h100,rack=r7",
                              "a=b, 8=1 x2", "a, b", "node01:0-3", ""]),
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
    wanted = _wanted(field, value, name)
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
        assert (got.get(below) if below and isinstance(got, dict) else got) == wanted


@pytest.mark.parametrize("value", ["3-0", "0,3-1"])
def test_a_range_of_gpus_that_ends_before_it_begins_is_no_choice_of_fewer(value: str) -> None:
    """It is refused as anything else that is no GPUs."""
    made = changed(BARE, next(field for field in FIELDS if field.id == "gpus"), value, None)
    assert made is not None
    with pytest.raises(SpecError, match="gpus_per_host"):
        read_job(made, "job.yaml", environ={})


def _wanted(field: Field, value: str, name: str) -> object:
    """What the key holds then: a command of these texts that is a string stays one."""
    if field.id == "command" and name in ("bare", "shell") and value:
        return value
    written = field.write(value)
    return None if written is None else yaml.safe_load(written)


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
    assume({one[0].id, other[0].id} != {"command", "launcher"})  # torchrun takes no text for a shell
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
    assert shown == field.read(job) or "$" in shown
    again = changed(made, field, shown, document)
    assert again is not None
    assert read_job(again, "job.yaml", environ={}, name=document) == job


def test_a_value_that_others_refer_to_is_left_alone() -> None:
    """The form can't take an anchor away: the text would be no YAML any more."""
    text = "name: a\nimage: &i x\nx-more: *i\n"
    image = next(field for field in FIELDS if field.id == "image")
    assert changed(text, image, "y", None) is None


COMMAND = next(field for field in FIELDS if field.id == "command")
SHELL = 'name: a\nversion: 1\nlauncher: env\ncommand: "cd /w && python t.py | tee log.$RANK"\n'
SHELL_TEXT = st.lists(
    st.text("ab", min_size=1, max_size=3)
    | st.sampled_from(["cd", "a=1", "{rank}", "{a,b}", "~", "~/a", "a~b", "#", "a#b", "!", "$$", "$${a}"])
    | st.sampled_from(["''", "'a b'", '"a b"', "'$a'", '"$a"', '"\\$a"', '"\\\\"', "\\ ", "\\$", "'", '"', "\\"])
    | st.sampled_from(["$a", "|", "&&", ";", ">a", "<", "*", "[a]", "?", "(", "`"])
    | st.sampled_from(["\n", "\t", "é", "\u00a0", "a\rb"]),
    min_size=1, max_size=5,
).map(" ".join).filter(str.strip)  # fmt: skip
FORMS = {"list": PLAIN, "string": SHELL, "none": "name: a\nversion: 1\nimage: b\n"}


def _runs(text: str) -> tuple[str, ...]:
    """What a task of the job would be started with; text for a shell without the `exec` in front of one program."""
    job = read_job(text, "job.yaml", environ={})
    words = shell.words(job, job.command, "podman")
    return words if words is job.command else (*words[:2], words[2].removeprefix("exec ").lstrip())


def _words_in_shell(text: str, folder: Path) -> tuple[str, ...]:
    """The words that a shell without any program makes of a command."""
    script = f"show() {{ for i; do printf '%s\\0' \"$i\"; done; }}\nshow {text}"
    done = subprocess.run(["/bin/sh", "-c", script], cwd=folder, env={"PATH": ""}, capture_output=True, check=True)
    return tuple(done.stdout.decode().split("\0")[:-1])


@given(SHELL_TEXT, st.sampled_from(sorted(FORMS)))
def test_what_is_typed_as_a_command_is_what_runs(
    tmp_path_factory: pytest.TempPathFactory, typed: str, form: str
) -> None:
    """As text for a shell it is that text; as a list it is the words that a shell would have made of it."""
    made = changed(FORMS[form], COMMAND, typed, None) or pytest.fail("the form could not change the text")
    try:
        runs = _runs(made)
    except SpecError:
        return  # no words at all, or a slip that is told
    asked = expand_text(typed, {})
    if runs[:2] == ("sh", "-c"):
        assert runs[2] == asked.lstrip()
    else:
        assert form != "string"
        assert runs == _words_in_shell(asked, tmp_path_factory.getbasetemp())
    assert values(made, read_job(made, "job.yaml", environ={}), made, None)["command"] == typed or form != "string"


@given(SHELL_TEXT, st.sampled_from(sorted(FORMS)))
def test_a_word_more_is_a_word_more(typed: str, form: str) -> None:
    """Whatever was typed, an edit of what the field shows then runs the same and what was added."""
    made = changed(FORMS[form], COMMAND, typed, None) or pytest.fail("the form could not change the text")
    try:
        runs = _runs(made)
    except SpecError:
        return
    shown = values(made, read_job(made, "job.yaml", environ={}), made, None)["command"]
    again = changed(made, COMMAND, f"{shown} a", None) or pytest.fail("the form could not change the text")
    assert _runs(again) == ((*runs[:2], f"{runs[2]} a") if runs[:1] == ("sh",) else (*runs, "a"))


@pytest.mark.parametrize(
    "typed",
    ["cd /w && x", "cd /w", "x | y", "x $A", 'x "$A"', "x >y", "x *.txt", "A=1 x", "x # y", "~/x", "x {a,b}", "x `y`",
     "exec x", "if x", 'x "\\$A"', "x\ny", "x '"],
)  # fmt: skip
def test_what_only_a_shell_understands_is_text_for_one(typed: str) -> None:
    """Also where the job had a list; the words would be handed to the first one."""
    made = changed(PLAIN, COMMAND, typed, None) or pytest.fail("the form could not change the text")
    assert read_job(made, "job.yaml", environ={}).command == typed


@pytest.mark.parametrize(
    "typed", ["x --rank {rank} {}", "x 'a; b' '$A'", 'x "a b"', "x a=1 a~b a#b", "x --a=b:c,d", "x \\$A \\*"]
)
def test_plain_words_stay_a_list(typed: str) -> None:
    """Quoted as a shell takes it, what looks like its syntax is plain."""
    made = changed(PLAIN, COMMAND, typed, None) or pytest.fail("the form could not change the text")
    assert read_job(made, "job.yaml", environ={}).command == tuple(shlex.split(typed))


def test_torchrun_which_takes_no_text_gets_a_list() -> None:
    """Else its command could not be mended in the form."""
    text = SHELL.replace("launcher: env", "launcher: torchrun")
    assert "command: [t.py, -v]" in (changed(text, COMMAND, "t.py -v", None) or "")


def test_a_variable_of_the_caller_is_shown_and_kept_as_it_is_written() -> None:
    """The job has its value, which would be written into the file."""
    text = 'name: a\nversion: 1\nimage: "a:${TAG}"\ncommand: [x, "${TAG}", $$A]\n'
    job = read_job(text, "job.yaml", environ={"TAG": "7"})
    shown = values(text, job, text, None)
    assert (shown["image"], shown["command"]) == ("a:${TAG}", "x '${TAG}' '$$A'")
    made = changed(text, COMMAND, f"{shown['command']} b", None)
    assert made is not None and yaml.safe_load(made)["command"] == ["x", "${TAG}", "$$A", "b"]


def job_of(text: str) -> Job | None:
    """The job of a text, if it is one."""
    try:
        return read_job(text, "job.yaml", environ={})
    except SpecError:
        return None


def test_hosts_by_several_labels_stay_labels() -> None:
    """Whatever is typed behind them, and before it."""
    text = f"{BARE}hosts: {{label: {{gpu: h100, rack: r7}}, count: 4}}\n"
    field = FIELDS[0]
    assert values(text, job_of(text), text, None)["hosts"] == "gpu=h100,rack=r7 x4"
    assert not only_in_text(text, job_of(text), text, None)
    for typed, count in (("gpu=h100,rack=r7 x2", ", count: 2"), ("gpu=h100, rack=r7", "")):
        made = changed(text, field, typed, None)
        assert made == f"{BARE}hosts: {{label: {{gpu: h100, rack: r7}}{count}}}\n"
        assert job_of(made) is not None


@pytest.mark.parametrize(
    ("key", "written", "field", "shown"),
    [
        ("gpus_per_host", "\n  node01: [0, 1]\n  node02: 2\n", "gpus", "node01 [0-1]; node02 2"),
        ("gpus_per_host", " {node01: all}\n", "gpus", "node01 all"),
        ("hosts", " {label: {rack: row 7}}\n", "hosts", "rack=row 7"),
        ("hosts", " {label: {rack: [r7]}}\n", "hosts", "{label: {rack: [r7]}}"),
        ("image", " {a: b}\n", "image", "{a: b}"),
    ],
)
def test_what_a_field_cannot_say_is_only_in_the_text(key: str, written: str, field: str, shown: str) -> None:
    """A mapping without words for it, in a job or in what is none: with the line where it begins."""
    text = f"{BARE}{key}:{written}"
    found = only_in_text(text, job_of(text), text, None)
    assert found == {field: 5 if written.startswith("\n") else 4}
    assert values(text, job_of(text), text, None)[field] == shown
    assert only_in_text(text, job_of(BARE), BARE, None) == found, "the job is of an older text"
    assert not only_in_text("a: [", None, "", None)
