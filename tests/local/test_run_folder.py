"""The run's folder as a lock, with this machine's own shell as the host."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from distui.errors import HostCommandError
from distui.runs.hosts.claims.folder import _TAKE, TOKEN_IN, Claim, Take, take
from distui.runs.task.host_run import _REMOVE_FOLDER
from distui.session import Completed
from fakehosts.interrupted import interrupt, moments

ANN, BOB = Claim("ann@desk", 0.0), Claim("bob@desk", 60.0)


async def here(argv: Sequence[str]) -> Completed:
    """Run a command on this machine."""
    process = await asyncio.create_subprocess_exec(*argv, stdout=-1, stderr=-1)
    out, err = await process.communicate()
    return Completed(tuple(argv), process.returncode or 0, out, err)


def age(folder: Path, minutes: float) -> None:
    """Make a folder as old as that."""
    then = time.time() - 60 * minutes
    os.utime(folder, (then, then))


def left_in(folder: Path) -> list[str]:
    """Names in a folder."""
    return [path.name for path in folder.iterdir()]


async def test_one_of_many_gets_it(tmp_path: Path) -> None:
    """Ten launches at one moment: one has the folder, and the others are told whose it is."""
    folder = tmp_path / "distui/hosts/h1/r"
    claims = [Claim(f"u{n}@desk", 0.0) for n in range(10)]
    output = await asyncio.gather(*(take(here, "h1", str(folder), claim) for claim in claims))

    (winner,) = [claim for claim, took in zip(claims, output, strict=True) if took.state == "taken"]
    assert (folder / "launch").read_text().splitlines()[0] == winner.owner
    assert folder.stat().st_mode & 0o777 == 0o700
    late = await take(here, "h1", str(folder), BOB)
    assert late == Take("held", f"of {winner.owner} since 1970-01-01 00:00:00 UTC")


async def test_it_may_be_asked_twice(tmp_path: Path) -> None:
    """A connection that broke under the first answer: the same launch has it still."""
    folder = str(tmp_path / "r")
    assert [await take(here, "h1", folder, ANN) for _ in range(2)] == [Take("taken")] * 2


@pytest.mark.parametrize(
    ("launch_file", "minutes", "state"),
    [(True, 9, "held"), (True, 12, "stale"), (False, 0.5, "held"), (False, 4, "stale")],
)
async def test_only_a_stale_folder_is_taken_over(tmp_path: Path, launch_file: bool, minutes: float, state: str) -> None:
    """Ten minutes after a launch, or one after it had started everything, it is anybody's who asks for it so."""
    folder = tmp_path / "r"
    await take(here, "h1", str(folder), ANN)
    (folder / "env-0").write_text("A=1\n")
    if not launch_file:
        (folder / "launch").unlink()
    age(folder, minutes)

    assert (await take(here, "h1", str(folder), BOB)).state == state
    over = await take(here, "h1", str(folder), BOB, over=True)
    assert over.state == ("taken" if state == "stale" else "held")
    assert (folder / "env-0").exists() == (state == "held")
    assert left_in(tmp_path) == ["r"]


async def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """The host's own words, its name and the path; nothing half-made stays."""
    (tmp_path / "file").write_text("")
    with pytest.raises(HostCommandError, match=r"can't make .*/file/h1/r on h1: .*Not a directory"):
        await take(here, "h1", str(tmp_path / "file/h1/r"), ANN)


async def test_env_files_that_a_killed_distui_left_go_with_the_next_launch(tmp_path: Path) -> None:
    """They hold secrets. Those of a launch that may be under way stay, and so does all that is no env file."""
    for run, minutes in (("killed", 11), ("under-way", 2)):
        await take(here, "h1", str(tmp_path / run), ANN)
        for name in ("env-0", ".distui-5e1f", "stopped"):
            (tmp_path / run / name).write_text("TOKEN=hunter2\n")
            age(tmp_path / run / name, minutes)
    await take(here, "h1", str(tmp_path / "next"), BOB)

    assert sorted(left_in(tmp_path / "killed")) == ["launch", "stopped"]
    assert sorted(left_in(tmp_path / "under-way")) == [".distui-5e1f", "env-0", "launch", "stopped"]


async def test_whose_a_folder_is_waits_for_nothing(tmp_path: Path) -> None:
    """A FIFO in the place of the claim is none, as a missing one is."""
    (tmp_path / "claim").write_text("owner\n1\ntoken")
    os.mkfifo(tmp_path / "fifo")
    for name, token in (("claim", b"token"), ("fifo", b""), ("missing", b"")):
        script = f'{TOKEN_IN}token_in "$1"'
        done = await asyncio.wait_for(here(("sh", "-c", script, "sh", str(tmp_path / name))), 20)
        assert (done.stdout, done.stderr) == (token, b"")


@pytest.mark.parametrize("over", ["", "over"])
def test_a_launch_that_is_given_up_leaves_no_folder_that_is_nobodys(tmp_path: Path, over: str) -> None:
    """Signals at any moment: the folder says whose it is, and a stale one that was taken over is gone."""
    folder = tmp_path / "h/r"
    argv = ("sh", "-c", _TAKE, "distui-take", str(folder), ANN.text, over, "10")
    for waits in moments(80, 0.015):
        if over:
            folder.mkdir(parents=True)
            (folder / "launch").write_text(BOB.text)
            age(folder, 12)
        interrupt(argv, waits)
        if folder.parent.exists():
            assert left_in(folder.parent) in ([], ["r"])
        if folder.exists():
            assert (folder / "launch").read_text().rstrip() in (ANN.text, BOB.text)
        shutil.rmtree(folder.parent, ignore_errors=True)


async def test_a_stale_folder_whose_removal_was_killed_goes_with_the_next_launch_or_its_end(tmp_path: Path) -> None:
    """It is nobody's: SIGKILL left it, moved aside."""
    folder, left = tmp_path / "h/r", tmp_path / "h/.replaced-r-77"
    for what in ("launch", "end"):
        (left / "rank-0").mkdir(parents=True)
        (left / "launch").write_text(BOB.text)
        if what == "launch":
            assert await take(here, "h", str(folder), ANN) == Take("taken")
        else:
            await here(("sh", "-c", _REMOVE_FOLDER, "sh", str(folder), ANN.token, ""))
            assert not folder.exists()
        assert not left.exists()
