"""The job's code in plans: its keys, the mount in the printed line, what the plan says, and JSON and back."""

from __future__ import annotations

import csv
import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.errors import SpecError
from distui.plan.command import process
from distui.plan.content import mounts
from distui.plan.model import CodePlan, NoPlan, RunPlan
from distui.plan.plan import plan
from distui.plan.serialize import from_json, to_json
from distui.plan.text.render import render_text
from distui.spec.hosts.inventory import Host, HostPick, Inventory
from distui.spec.job.code_keys import in_bytes
from distui.spec.job.job import Code, Job
from distui.spec.job.read_job import read_job
from distui.tui.launch import plan_lines
from distui.tui.paint import theme
from distui.tui.paint.glyphs import UNICODE
from fakehosts.runs import facts_of

LOOK = theme.palette(theme.DARK, {**theme.DARK.to_color_system().generate(), **theme.DARK.variables})

TREE = "0123456789abcdef" * 2
CODE = CodePlan("./", TREE, 2, 1500, "/work", commit="c" * 40, dirty=True, stat=" a.py | 2 +-", diff="-x\n+\x1b[2Jy\n")


def planned(engine: Any = "docker", code: CodePlan | None = CODE, **job: Any) -> RunPlan | NoPlan:
    key = job.pop("code_key", Code(path="./"))
    given = {"image": "img:1", "command": ("true",), "code": key} | job
    inventory = Inventory((Host("h1", engine=engine),))
    return plan(
        Job("j", insight="off", **given), inventory, (HostPick("h1"),), {"h1": facts_of("h1")},
        run_id="r1", owner="o", version="0", code=code,
    )  # fmt: skip


def start_of(made: RunPlan | NoPlan) -> tuple[str, ...]:
    assert isinstance(made, RunPlan), made
    return made.tasks[0].start


def after(argv: tuple[str, ...], flag: str) -> str:
    return argv[argv.index(flag) + 1]


def test_the_tree_is_mounted_read_only_where_the_job_says() -> None:
    """And the task starts there, unless workdir says otherwise."""
    argv = start_of(planned())
    store = "/home/u/.local/state/distui/code"
    assert after(argv, "--mount") == f"type=bind,source={store}/{TREE}/tree,target=/work,readonly"
    assert after(argv, "-w") == "/work"
    assert after(start_of(planned(workdir="/else")), "-w") == "/else"


def test_a_copy_is_in_the_run_s_folder() -> None:
    """mode rw: writable, and gone with the run."""
    rw = CodePlan("./", TREE, 2, 1500, "/work", "rw")
    run_dir = "/home/u/.local/state/distui/hosts/h1/r1"
    assert after(start_of(planned(code=rw)), "--mount") == f"type=bind,source={run_dir}/code,target=/work"


@pytest.mark.parametrize(
    ("workdir", "where"),
    [(None, ""), ("/work", ""), ("/work/sub/x", "/sub/x"), ("/workshop", None), ("/data", None)],
)
def test_without_a_container_a_task_starts_in_its_copy(workdir: str | None, where: str | None) -> None:
    """`workdir` inside the code's place means the same place in the copy."""
    argv = start_of(planned("process", workdir=workdir, image=None, code_key=Code(path="./", to="/work")))
    place = workdir if where is None else f"/home/u/.local/state/distui/hosts/h1/r1/code{where}"
    assert place in argv[argv.index(process.PROGRAM) - 3 :]


def test_code_that_was_not_read_gives_no_plan() -> None:
    """A mount of nothing would start with an empty folder."""
    made = planned(code=None)
    assert isinstance(made, NoPlan)
    assert [p.code for p in made.problems] == ["not_read"]


def test_the_plan_says_what_it_is() -> None:
    """Source, size, tree, commit, what is not committed; the diff with --full, and nothing in it drives a terminal."""
    made = planned()
    assert isinstance(made, RunPlan)
    text = render_text(made)
    assert "./ (2 files, 1.5 kB), tree 0123456789ab, commit cccccccccccc and uncommitted changes" in text
    assert "seen at /work, read-only" in text
    assert "a.py | 2 +-" in text
    assert "+\\x1b[2Jy" not in text
    assert "+\\x1b[2Jy" in render_text(made, full=True)
    assert "\x1b" not in render_text(made, full=True)


def test_json_and_back() -> None:
    """A stored plan is the same plan; the hash follows the tree."""
    made = planned()
    assert isinstance(made, RunPlan)
    assert from_json(json.loads(json.dumps(to_json(made)))) == made
    other = planned(code=CodePlan("./", "f" * 32, 2, 1500, "/work"))
    assert isinstance(other, RunPlan)
    assert other.hash != made.hash


@given(st.text(st.characters(exclude_characters="\0\r\n", exclude_categories=("Cs",)), min_size=1), st.booleans())
def test_any_path_is_one_field_of_the_mount(path: str, readonly: bool) -> None:
    """Commas and quotes in a home's name stay in the source."""
    flag, value = mounts.bind(path, "/work", readonly=readonly)
    assert flag == "--mount"
    (fields,) = csv.reader([value])
    assert fields == ["type=bind", f"source={path}", "target=/work", *(["readonly"] if readonly else [])]


def test_sizes_are_docker_s() -> None:
    assert [in_bytes(x) for x in ("1g", "512mb", "1.5 KiB", "100", "7b")] == [1 << 30, 512 << 20, 1536, 100, 7]


def read(text: str) -> Code:
    code = read_job(f"version: 1\nname: j\ncommand: [x]\n{text}\n", "job.yaml", environ={}).code
    assert code is not None
    return code


def test_the_forms_of_the_key() -> None:
    """The short form is a folder; the long form says the rest."""
    assert read("code: ./") == Code(path="./")
    assert read("code: {path: src, to: /app/, mode: rw, ignore: [data/], max_size: 2g, max_file: 1m}") == Code(
        path="src", to="/app/", mode="rw", ignore=("data/",), max_size=2 << 30, max_file=1 << 20
    )
    url = "https://example.org/a/b.git"
    assert read(f"code: {{git: '{url}', ref: v1.2, token: TOK, subdir: src/x}}") == Code(
        git=url, ref="v1.2", token="TOK", subdir="src/x"
    )
    for good in ("git@example.org:a/b.git", "ssh://git@example.org/a", "/srv/git/a", "file:///srv/a"):
        assert read(f"code: {{git: '{good}', ref: 3.10}}").ref == "3.10"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("code: {to: /x}", "4:7 code: names no source: add path: ./ or git: URL"),
        ("code: {path: }", "4:7 code: names no source: add path: ./ or git: URL"),
        ("code: {path: ./, git: /x}", "4:23 code.git: can't stand beside path; choose one"),
        ("code: {path: ./, ref: main}", "4:23 code.ref: only means something with git"),
        ("code: {path: ./, to: work}", "4:22 code.to: 'work' must be an absolute folder inside the container"),
        ("code: {path: ./, to: /}", "4:22 code.to: '/' must be an absolute folder"),
        ("code: {path: ./, to: /a/../b}", "4:22 code.to: '/a/../b' must be an absolute folder"),
        ("code: https://example.org/a", "4:7 code: 'https://example.org/a' is a URL; write code: {git: https"),
        ("code: {git: '--upload-pack=x'}", "4:13 code.git: '--upload-pack=x' is not fetched"),
        ("code: {git: 'ext::sh -c x'}", "4:13 code.git: 'ext::sh -c x' is not fetched"),
        ("code: {git: 'https://u:pw@example.org/a'}", "4:13 code.git: holds a password, which would be shown"),
        ("code: {git: 'ftp://example.org/a'}", "4:13 code.git: unknown scheme 'ftp'"),
        ("code: {git: 'ssh://-oProxyCommand=x/a'}", "4:13 code.git: "),
        ("code: {git: /x, ref: --all}", "4:22 code.ref: '--all' is not a branch"),
        ("code: {git: /x, ref: a..b}", "4:22 code.ref: 'a..b' is not a branch"),
        ("code: {git: /x, token: T}", "4:24 code.token: is only sent over https"),
        ("code: {git: /x, subdir: ../y}", "4:25 code.subdir: '../y' must be a folder of the repository"),
        ("code: {path: ./, max_size: big}", "4:28 code.max_size: expected a size such as"),
        ("code: {path: ./, mode: wr}", "4:24 code.mode: expected ro or rw"),
        ("code: {url: x}", "4:8 code.url: unknown key, did you mean 'git'?"),
        ("code: ./\nvolumes: ['/d:/work']", "4:7 code: /work is the target of volume '/d:/work' too"),
    ],
)
def test_one_problem_is_reported_in_one_sentence(text: str, problem: str) -> None:
    with pytest.raises(SpecError) as caught:
        read(text)
    messages = [f"{p.line}:{p.column} {p.key}: {p.message}" for p in caught.value.problems]
    assert any(line.startswith(problem) for line in messages), messages


def test_the_launch_form_says_what_is_sent() -> None:
    """Before the start: the code in one line, and what is left out."""
    output = dataclasses.replace(CODE, left_out=("left out: submodule third/party",))
    made = planned(code=output)
    assert isinstance(made, RunPlan)
    rows = plan_lines.plan_rows(plan_lines.Preview(plan=made), 160, LOOK, UNICODE)
    text = "\n".join(row.line.plain for row in rows)
    assert "code      ./ (2 files, 1.5 kB), tree 0123456789ab, commit cccccccccccc and uncommitted changes" in text
    assert "only what is missing is sent" in text
    assert "left out: submodule third/party" in text
