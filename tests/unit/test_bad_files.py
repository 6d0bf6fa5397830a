"""Wrong job files and inventories: for each the message a person gets, with what, where and what to do."""

from __future__ import annotations

import errno
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from distui.config import paths
from distui.errors import Problem, SpecError
from distui.spec.hosts.inventory import Host
from distui.spec.hosts.read_inventory import load_inventory, read_inventory
from distui.spec.job.read_job import load_job, read_job
from distui.spec.yaml.problems import render
from distui.spec.yaml.slips import like_a_blank_in

DATA = Path(__file__).parents[1] / "data"
JOB = "version: 1\nname: j\nhosts: n1\nimage: i\ncommand: [a]\n"
HOSTS = "version: 1\nhosts:\n  n1: {}\n"
NO_JARGON = re.compile(r"scalar|token|flow|block mapping|while parsing|NoneType|Traceback|object at 0x|<.*Error")


def cases(name: str, base: str) -> list[tuple[str, list[str]]]:
    """(the file, the messages wanted) for each case of a table."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"((?:^%% .*\n)+)((?:^(?!%% ).*\n?)+)", (DATA / name).read_text(), re.MULTILINE):
        text = block[1].replace("{job}\n", base).replace("{hosts}\n", base)
        found.append((text, [line[3:] for line in block[0].splitlines()]))
    return found


BAD_JOBS = cases("bad_jobs.txt", JOB)
BAD_HOSTS = cases("bad_hosts.txt", HOSTS)


def problems(read: Callable[[], object]) -> tuple[Problem, ...]:
    with pytest.raises(SpecError) as caught:
        read()
    return caught.value.problems


def messages(found: tuple[Problem, ...]) -> list[str]:
    """Messages as the tables write them."""
    return [f"{p.line}:{p.column} {p.key + ': ' if p.key else ''}{p.message}" for p in found]


def test_the_tables_are_large_enough() -> None:
    """And no case is there twice."""
    assert len(BAD_JOBS) >= 150
    assert len(BAD_HOSTS) >= 80
    assert len({text for text, _ in BAD_JOBS}) == len(BAD_JOBS)
    assert len({text for text, _ in BAD_HOSTS}) == len(BAD_HOSTS)


def test_what_the_tables_change_is_right() -> None:
    """Each case is wrong by itself alone."""
    assert read_job(JOB, "job.yaml", environ={}).name == "j"
    assert read_inventory(HOSTS, "hosts.yaml").hosts


@pytest.mark.parametrize(("text", "wanted"), BAD_JOBS, ids=[w[0][:60] for _, w in BAD_JOBS])
def test_a_bad_job_file_gets_the_wanted_messages(text: str, wanted: list[str]) -> None:
    """All at once, in the order of the file, each with its line and a caret."""
    found = problems(lambda: read_job(text, "job.yaml", environ={}))
    assert messages(found) == wanted
    _shown_well(found)


@pytest.mark.parametrize(("text", "wanted"), BAD_HOSTS, ids=[w[0][:60] for _, w in BAD_HOSTS])
def test_a_bad_inventory_gets_the_wanted_messages(text: str, wanted: list[str]) -> None:
    """As of job files."""
    found = problems(lambda: read_inventory(text, "hosts.yaml"))
    assert messages(found) == wanted
    _shown_well(found)


def _shown_well(found: tuple[Problem, ...]) -> None:
    for problem in found:
        assert not NO_JARGON.search(problem.message)
        shown = render(problem).splitlines()
        assert not problem.line or (len(shown) == 3 and shown[2].endswith("^"))


FILES: list[tuple[str, bytes | None, str]] = [
    ("empty", b"", "the file is empty"),
    ("blank", b" \n\n", "the file is empty"),
    ("utf-16", ("\ufeff" + JOB).encode("utf-16-le"), "this is UTF-16; save it as UTF-8"),
    ("utf-16 without a mark", JOB.encode("utf-16-le"), "the character U+0000 is not allowed in YAML; is this UTF-16?"),
    ("latin-1", JOB.encode() + "env: {A: ü}\n".encode("latin-1"), ":6:10: the byte 0xfc is not UTF-8"),
    ("nul", JOB.encode() + b"x: a\0b\n", ":6:5: the character U+0000 is not allowed in YAML"),
    ("escape", JOB.encode() + b"x: \x1b[31m\n", ":6:4: the character U+001B is not allowed in YAML"),
    ("mark inside", JOB.encode() + "\ufeffx: 1\n".encode(), ":6:1: the character U+FEFF is not allowed in YAML"),
    ("a program", b"\x7fELF\x02\x01\x01" + bytes(100), "the character U+007F is not allowed in YAML"),
    ("huge", b"#" * (9 << 20), "larger than 8 MiB; this can't be the right file"),
    ("deep", b"x: " + b"[" * 100_000, ":1:35: nested more than 32 levels deep"),
    ("deep blocks", b"".join(b" " * i + b"a:\n" for i in range(40)), "nested more than 32 levels deep"),
    ("bomb", b"a: &a [" + b"x," * 9 + b"x]\n" + b"".join(
        b"%c: &%c [%s*%c]\n" % (c, c, b"*%c," % (c - 1) * 9, c - 1) for c in range(98, 108)
    ), "more than 500,000 values (aliases count each time)"),
    ("long line", b"name: " + b"x" * 100_000, "can't name a job"),
    ("many problems", b"".join(b"k%d: 1\n" % i for i in range(1000)), "more problems not shown"),
    ("missing", None, "there is no such file"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "said"), FILES, ids=[f[0] for f in FILES])
@pytest.mark.parametrize("verb", ["job", "hosts"])
def test_a_file_that_is_none_is_said_in_words(cli: Any, verb: str, name: str, content: bytes | None, said: str) -> None:
    """By the command: exit 2, no traceback, and the file is named. Nothing is said at length about a huge one."""
    if content is not None:
        Path("f.yaml").write_bytes(content)
    done = cli(verb, "validate", "f.yaml")

    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("f.yaml")
    assert name == "long line" or said in done.err
    assert len(done.err) < 100_000
    assert not NO_JARGON.search(done.err)


def test_what_stands_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    """A folder, a pipe that nobody writes to, a device, a path through a file."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file.yaml").write_text(JOB)
    for path, said in (
        (tmp_path, "this is a folder; name a file in it"),
        (tmp_path / "pipe", "this is a FIFO, not a regular file; `-` reads standard input"),
        (Path("/dev/zero"), "device"),
        (tmp_path / "file.yaml/x", "ot a directory"),
        (tmp_path / "fiel.yaml", "there is no such file, did you mean 'file.yaml'?"),
    ):
        for load in (lambda p: load_job(p, environ={}), load_inventory):
            (found,) = problems(lambda load=load, path=path: load(str(path)))  # type: ignore[misc]
            assert said in found.message, found


@pytest.mark.parametrize(
    ("asked", "meant"), [("jbo.yaml", "job.yaml"), ("job.yml", "job.yaml"), ("job", "job.yaml"), ("nope.yaml", "")]
)
def test_a_file_that_is_meant_is_alike_without_its_suffix(tmp_path: Path, asked: str, meant: str) -> None:
    """`.yaml` makes short names alike that share nothing else."""
    for name in ("job.yaml", "hp.yaml", "README.md"):
        (tmp_path / name).write_text(JOB)
    (found,) = problems(lambda: load_job(str(tmp_path / asked), environ={}))
    assert found.message == "there is no such file" + (f", did you mean '{meant}'?" if meant else "")


LONG = "python train.py " + "--lr 1 " * 60
"""A whole command as one word: no file can be called so, and Python raises where it is asked whether one is."""


@pytest.mark.parametrize(
    "words",
    [("plan", LONG), ("run", "--headless", LONG), ("job", "show", LONG), ("job", "validate", LONG), ("job", "ls", LONG),
     ("--config", LONG, "hosts", "ls"), ("doctor", "--bundle", LONG, "node01"), ("doctor", "--job", LONG, "node01"),
     ("hosts", "add", "-i", LONG, "node09"), ("image", "ls", LONG), ("why", "nope", "--save", LONG),
     ("plan", "code.yaml"), ("plan", "build.yaml"), ("job", "validate", "code.yaml", "build.yaml")],
    ids=lambda words: " ".join(words)[:24],
)  # fmt: skip
def test_a_name_that_no_file_can_have_is_said_in_words(cli: Any, words: tuple[str, ...]) -> None:
    """Not as a bug of distui."""
    Path("hosts.yaml").write_text("version: 1\nhosts:\n  node[01-02]: {addr: 'node{n}.invalid'}\n")
    for key in ("code", "build"):
        text = f"version: 1\nname: long\nimage: img\nhosts: node01\ncommand: [sleep]\n{key}: ./{LONG}\n"
        Path(f"{key}.yaml").write_text(text)
    done = cli(*words)
    assert done.code not in (0, 70)
    assert "a bug in distui" not in done.err


@pytest.mark.parametrize(
    "words", [("hosts", "ls"), ("hosts", "add", "node02"), ("hosts", "add", "-i", "hosts.yaml", "node02")]
)
def test_a_file_that_cannot_be_looked_at_is_there(
    cli: Any, home: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """As while a file server is away for a moment: no other inventory is taken for it, nor is it written anew."""
    here, own = Path("hosts.yaml").absolute(), paths(os.environ).hosts_file
    own.parent.mkdir(parents=True)
    for file, name in ((here, "node01"), (own, "other")):
        file.write_text(f"version: 1\nhosts:\n  {name}: {{}}\n")
    usual, away = Path.stat, [errno.ESTALE] * 2

    def stat(path: Path, **how: Any) -> os.stat_result:
        if away and path.absolute() == here:
            raise OSError(away.pop(), "Stale file handle")
        return usual(path, **how)

    monkeypatch.setattr(Path, "stat", stat)
    done = cli(*words)
    assert (done.code, away, "other" in done.out) == (0, [], False), done.err
    assert "node01" in here.read_text()
    assert load_inventory(str(own)).hosts == (Host("other"),)


def test_a_long_set_of_hosts_is_no_file(cli: Any) -> None:
    """As $SLURM_JOB_NODELIST is where the hosts of a run are not in a row."""
    listed = f"node[{','.join(f'{number:03d}' for number in range(1, 199, 2))}]"
    done = cli("hosts", "import", "nodeset", listed)
    assert done.code == 0, done.err
    assert "node[001,003," in done.out


def test_a_byte_order_mark_and_windows_ends_of_lines_are_fine() -> None:
    """Editors write them; places are still right."""
    assert read_job("\ufeff" + JOB.replace("\n", "\r\n"), "job.yaml", environ={}).name == "j"
    (found,) = problems(lambda: read_job(JOB.replace("\n", "\r\n") + "pul: x\r\n", "job.yaml", environ={}))
    assert (found.line, found.column, found.snippet) == (6, 1, "pul: x")


def test_problems_as_json_have_the_same_words(cli: Any) -> None:
    """For editors: path, line, column, key, message."""
    Path("f.yaml").write_text(JOB + "backend: nvcl\n")
    value = json.loads(cli("job", "validate", "f.yaml", "--json").out)
    (problem,) = value["problems"]
    assert (problem["path"], problem["line"], problem["column"], problem["key"]) == ("f.yaml", 6, 10, "backend")
    assert "did you mean 'nccl'?" in problem["message"]


@pytest.mark.parametrize("text", ['"\\', '\\"', "'", 'a"', "#a", " \"'#"])
def test_a_long_line_is_looked_through_once(text: str) -> None:
    """For a sign that looks like a blank; quotes that are never closed took minutes."""
    begun = time.process_time()
    like_a_blank_in(text * 50_000 + "\u00a0")
    assert time.process_time() - begun < 5
