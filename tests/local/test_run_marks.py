"""Marks of tasks that others can't see: this machine's own shell is the host, its processes are the tasks."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from distui.errors import HostCommandError
from distui.plan.labels import TaskLabels, to_labels
from distui.runs.hosts.claims import marks
from distui.session import Completed
from fakehosts.interrupted import interrupt, moments

LABELS = TaskLabels("r", 3, (3,), "h1", "j", owner="ann@desk", launch="aa", gpus=(0, 1), ports=(29500,), progress="x")
TOKEN = "aa-1"


async def here(argv: Sequence[str]) -> Completed:
    """Run a command on this machine."""
    process = await asyncio.create_subprocess_exec(*argv, stdout=-1, stderr=-1)
    out, err = await process.communicate()
    return Completed(tuple(argv), process.returncode or 0, out, err)


@pytest.fixture
def program() -> Iterator[subprocess.Popen[bytes]]:
    """A task's program."""
    with subprocess.Popen(["sleep", "300"]) as process:
        yield process
        process.kill()


def read(path: str) -> str:
    """A file of the kernel's."""
    return Path(path).read_text()


def files(place: Path) -> list[str]:
    """The files there are."""
    return sorted(path.name for path in place.iterdir() if path.is_file())


def identity(program: subprocess.Popen[bytes]) -> str:
    """Start time and boot of a process."""
    start = read(f"/proc/{program.pid}/stat").rpartition(")")[2].split()[19]
    return f"{start} {read('/proc/sys/kernel/random/boot_id').strip()}"


def folder_of(program: subprocess.Popen[bytes], place: Path) -> Path:
    """A process's folder, as engine `process` keeps it."""
    folder = place / "task-3"
    folder.mkdir(parents=True)
    (folder / "pid").write_text(f"{program.pid}\n")
    (folder / "ident").write_text(f"{identity(program)}\n")
    return folder


async def leave(folder: Path, place: Path, labels: TaskLabels = LABELS, token: str = TOKEN) -> None:
    """The mark of a process."""
    await marks.leave(here, token, to_labels(labels), str(folder), place=str(place))


async def test_it_counts_while_the_process_lives(tmp_path: Path, program: subprocess.Popen[bytes]) -> None:
    """All may read it, it says what the task has and nothing private; once the process has ended it is nothing."""
    folder = folder_of(program, tmp_path / "run")
    await leave(folder, tmp_path)
    await leave(folder, tmp_path)
    file = tmp_path / "distui-task-aa-1.3"
    (task,) = await marks.read(here, "h1", sweep=True, place=str(tmp_path))

    assert file.stat().st_mode & 0o777 == 0o644
    assert (task.host, task.running) == ("h1", True)
    assert (task.labels.run, task.labels.owner, task.labels.gpus, task.labels.ports) == (
        "r",
        "ann@desk",
        (0, 1),
        (29500,),
    )
    assert "progress" not in file.read_text()

    program.kill()
    program.wait()
    assert await marks.read(here, "h1", place=str(tmp_path)) == ()
    assert file.exists(), "looking changes nothing"
    assert await marks.read(here, "h1", sweep=True, place=str(tmp_path)) == ()
    assert not file.exists()


async def test_a_pid_that_is_another_s_by_now(tmp_path: Path, program: subprocess.Popen[bytes]) -> None:
    """The start time and the boot tell it: neither counts, nor is left in the first place."""
    folder = folder_of(program, tmp_path / "run")
    await leave(folder, tmp_path)
    file = tmp_path / "distui-task-aa-1.3"
    pid, start, boot = file.read_text().splitlines()[0].split()
    rest = file.read_text().splitlines()[1]
    for line in (f"{pid} {int(start) + 1} {boot}", f"{pid} {start} another", f"{pid}", "", f"1x {start} {boot}"):
        file.write_text(f"{line}\n{rest}\n")
        assert await marks.read(here, "h1", place=str(tmp_path)) == (), line
    file.unlink()

    (folder / "ident").write_text(f"{start} another-boot\n")
    await leave(folder, tmp_path)
    assert not file.exists()


async def test_a_container_is_known_by_its_control_group(tmp_path: Path, program: subprocess.Popen[bytes]) -> None:
    """A pid that the engine tells is only believed when the kernel says that it is the container's."""
    own = read(f"/proc/{program.pid}/cgroup").splitlines()[0]
    tell = ("echo", str(program.pid))
    for ref, found in (("no-such-container", 0), (own, 1)):
        await marks.leave(here, TOKEN, to_labels(LABELS), ref, tell, place=str(tmp_path))
        assert len(await marks.read(here, "h1", place=str(tmp_path))) == found
    await marks.remove(here, TOKEN, place=str(tmp_path))
    for gone in (("echo", "0"), ("false",)):
        await marks.leave(here, TOKEN, to_labels(LABELS), own, gone, place=str(tmp_path))
    assert files(tmp_path) == []


async def test_only_its_own_token_removes_it(tmp_path: Path, program: subprocess.Popen[bytes]) -> None:
    """Another attempt's stays; a token that is a way elsewhere is none."""
    folder = folder_of(program, tmp_path / "run")
    for token in (TOKEN, "aa-11"):
        await leave(folder, tmp_path, token=token)
    (tmp_path / "other.3").write_text("")
    for token in ("aa", "bb-1", "x/../../other", "*", "", TOKEN):
        await marks.remove(here, token, place=str(tmp_path))
    await leave(folder, tmp_path, token="x/../../other")

    assert files(tmp_path) == ["distui-task-aa-11.3", "other.3"]


async def test_what_strangers_put_there(tmp_path: Path, program: subprocess.Popen[bytes]) -> None:
    """Links, pipes, rubbish and floods are passed over, and a planted link is not written through."""
    secret = tmp_path / "secret"
    secret.write_text("keep\n")
    place = tmp_path / "tmp"
    place.mkdir()
    (place / "distui-task-aa-1.3").symlink_to(secret)
    os.mkfifo(place / "distui-task-pipe")
    (place / "distui-task-dir").mkdir()
    (place / "distui-task-flood").write_text("1" * 100_000)
    first = identity(program)
    for number, labels in enumerate(("[]", "{", '{"distui.run": "../x", "distui.task": "0"}', "\x1b]52;c;x\x07")):
        (place / f"distui-task-rubbish-{number}").write_text(f"{program.pid} {first}\n{labels}\n")
    await leave(folder_of(program, tmp_path / "run"), place)

    assert [t.labels.run for t in await marks.read(here, "h1", sweep=True, place=str(place))] == ["r"]
    assert secret.read_text() == "keep\n"
    assert not (place / "distui-task-aa-1.3").is_symlink()


@pytest.mark.parametrize("kind", ["pipe", "device", "link", "nowhere", "folder"])
async def test_where_a_stranger_s_thing_can_not_be_removed(
    tmp_path: Path, program: subprocess.Popen[bytes], kind: str
) -> None:
    """As in a sticky /tmp: there is no mark then, and nobody waits, writes through it, or leaves anything."""
    place, tools, target = tmp_path / "tmp", tmp_path / "bin", tmp_path / "target"
    file = place / "distui-task-aa-1.3"
    for folder in (place, tools):
        folder.mkdir()
    (tools / "rm").write_text(f'#!/bin/sh\ncase $* in *{file}) exit 1;; esac\nexec {shutil.which("rm")} "$@"\n')
    (tools / "rm").chmod(0o755)
    target.write_text("keep\n")
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        file.symlink_to({"device": Path("/dev/null"), "link": target, "nowhere": tmp_path / "new"}[kind])

    async def run(argv: Sequence[str]) -> Completed:
        done = await here(("timeout", "10", "env", f"PATH={tools}:{os.environ['PATH']}", *argv))
        assert done.status == 0, done
        return done

    ref = str(folder_of(program, tmp_path / "run"))
    await marks.leave(run, TOKEN, to_labels(LABELS), ref, place=str(place))
    assert [path.name for path in place.rglob("*")] == [file.name]
    assert target.read_text() == "keep\n"
    assert not (tmp_path / "new").exists()


async def test_a_pipe_that_takes_the_place_of_a_mark_keeps_nobody_waiting(
    tmp_path: Path, program: subprocess.Popen[bytes]
) -> None:
    """Put there by another login between the look at it and the reading: the others are read all the same."""
    place, tools = tmp_path / "tmp", tmp_path / "bin"
    for folder in (place, tools):
        folder.mkdir()
    mark = place / "distui-task-00-1.3"
    mark.touch()
    swaps = f"[ ! -f {mark} ] || {{ rm {mark}; mkfifo {mark}; }}"
    (tools / "dd").write_text(f'#!/bin/sh\n{swaps}\nexec {shutil.which("dd")} "$@"\n')
    (tools / "dd").chmod(0o755)
    await leave(folder_of(program, tmp_path / "run"), place)

    async def run(argv: Sequence[str]) -> Completed:
        return await here(("timeout", "30", "env", f"PATH={tools}:{os.environ['PATH']}", *argv))

    assert [t.labels.run for t in await marks.read(run, "h1", place=str(place))] == ["r"]


async def test_a_flood_of_marks_is_read_in_part(tmp_path: Path) -> None:
    """So that nobody can make a launch wait; it is said that some were not."""
    for number in range(marks.MANY + 1):
        (tmp_path / f"distui-task-{number}").touch()
    messages: list[str] = []
    assert await marks.read(here, "h1", tell=messages.append, place=str(tmp_path)) == ()
    assert messages == [f"more than 1000 files {tmp_path}/distui-task-* on h1"]
    with pytest.raises(HostCommandError, match="more than 1000 files"):
        await marks.read(here, "h1", place=str(tmp_path))
    (tmp_path / "distui-task-0").unlink()
    await marks.read(here, "h1", tell=messages.append, place=str(tmp_path))
    assert len(messages) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another login")
async def test_a_flood_of_another_login_s_marks_hides_none_of_one_s_own(
    tmp_path: Path, program: subprocess.Popen[bytes]
) -> None:
    """Who sweeps what a launch has left asks for these only, and would leave it there."""
    for number in range(marks.MANY + 1):
        path = tmp_path / f"distui-task-0{number}"
        path.touch()
        os.chown(path, 54321, 54321)
    await leave(folder_of(program, tmp_path / "run"), tmp_path)
    assert [t.labels.run for t in await marks.read(here, "h1", own=True, place=str(tmp_path))] == ["r"]


def test_nobody_has_everything() -> None:
    """A mark with more GPUs or ports than any task has is none, and one login has a bounded number of ports."""
    greedy = [json.dumps(to_labels(replace(LABELS, **{kind: tuple(range(65))}))) for kind in ("gpus", "ports")]
    many = [json.dumps(to_labels(replace(LABELS, task=n, ports=tuple(range(n * 64, n * 64 + 64))))) for n in range(20)]
    assert marks.parse("".join(f"1001 {line}\n" for line in greedy), "h1") == ()
    assert len(marks.parse("".join(f"1001 {line}\n" for line in many), "h1")) == marks.MOST_OF_LOGIN // 64
    assert len(marks.parse("".join(f"{n} {line}\n" for n, line in enumerate(many)), "h1")) == 20


def test_a_line_that_is_no_mark_hides_none_below_it() -> None:
    """Anybody can write one."""
    good, greedy = (json.dumps(to_labels(replace(LABELS, gpus=gpus))) for gpus in ((1,), tuple(range(65))))
    for bad in ("", "1001 {", f"1001 {greedy}"):
        (task,) = marks.parse(f"{bad}\n1002 {good}\n", "h1")
        assert task.labels.gpus == (1,)


def test_what_the_engine_knows_counts_before_a_mark() -> None:
    """A task is told once, and what has ended by its engine's word does not live by its mark."""
    line = json.dumps(to_labels(LABELS))
    (marked,) = marks.parse("0 " + line, "h1")
    (other,) = marks.parse("0 " + json.dumps(to_labels(LABELS) | {"distui.launch": "bb"}), "h1")
    ended = replace(marked, id="c1", running=False)
    assert marks.added([ended], [marked, other]) == (ended, other)


def test_a_mark_is_left_whole_or_not_at_all(tmp_path: Path, program: subprocess.Popen[bytes]) -> None:
    """Signals at any moment, as a call gets that is given up: no file of another name stays in the shared place."""
    place, folder = tmp_path / "place", folder_of(program, tmp_path)
    place.mkdir()
    file = place / f"distui-task-{TOKEN}.3"
    for waits in moments(80, 0.015):
        interrupt(("sh", "-c", marks._LEAVE, "distui-mark", str(file), "{}", str(folder)), waits)
        assert files(place) in ([], [file.name])
        assert not file.exists() or file.read_text().endswith("{}\n")
        file.unlink(missing_ok=True)
