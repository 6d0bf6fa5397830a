"""What looks like a number and is none to Python ends nobody: `²` is a digit, 5000 nines are digits."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from distui import files
from distui.cli import console
from distui.cluster.logs import from_files
from distui.cluster.logs.from_hosts import _Viewer
from distui.errors import HostCommandError
from distui.plan.checks import _gpus_out_of_reach
from distui.runs.hosts import readers, remains
from distui.runs.images.tar import BadArchive, TarReader
from distui.runs.lines.events import iso
from distui.runs.report.found import unfound
from distui.runs.report.rank_rows import network_name
from distui.runs.state import samples
from distui.runs.store.runs import RunStore
from distui.runs.task.fetch import HostFetch
from distui.session import Completed
from distui.spec.hosts.inventory import Host
from distui.tui.hosts.select import natural
from distui.whole import FIRST, LAST, MOST, code, count, moment, moment_ns, whole
from fakehosts.runs import plan_for

NONE = ("²", "9" * 5000, "٣", "+1", "1_0", " 1", "1\n", "")
"""What Python's `isdigit` or its `int` takes, and what no tool prints as a number."""


def says(text: str) -> Any:
    """A host that answers so to everything."""

    async def run(argv: Sequence[str], **more: Any) -> Completed:
        return Completed(tuple(argv), 0, text.encode(), b"")

    return run


def test_digits_are_a_number() -> None:
    """Plain ones, as many as were asked for; else there is none."""
    assert (whole("007"), whole(b"12"), whole("0")) == (7, 12, 0)
    assert (whole("9" * 18), whole("9" * 19), whole("9" * 20, 20)) == (10**18 - 1, None, 10**20 - 1)
    assert (whole("12", 2), whole("123", 2)) == (12, None)
    assert [whole(text) for text in NONE] == [None] * len(NONE)
    assert [whole(text.encode()) for text in NONE] == [None] * len(NONE)


ODD = (None, True, "1", [1], {}, float("nan"), float("inf"), -float("inf"), 10**400, -(10**400))
"""What JSON of others may have where a number is meant."""


def test_counters_statuses_and_times_are_bounded() -> None:
    """Whole ones, and no more of them than a counter, a status or a calendar has."""
    for read in (count, code, moment, moment_ns):
        assert [read(value) for value in ODD] == [None] * len(ODD)
    assert (count(0), count(MOST), count(MOST + 1), count(-1), count(1.0)) == (0, MOST, None, None, None)
    assert (code(0), code(-9), code(3221225477), code(1 << 32)) == (0, -9, 3221225477, None)
    assert (moment(FIRST), moment(LAST), moment(5)) == (FIRST, LAST, 5.0)
    assert (moment(FIRST - 1), moment(LAST + 1)) == (None, None)
    assert (moment_ns(1_795_226_874_473_189_101), moment_ns(10**29), moment_ns(1.0)) == (
        1795226874.473189101,
        None,
        None,
    )


def test_a_time_beyond_what_can_be_said_is_the_last_that_can() -> None:
    """Arithmetic with a clock that is far off never keeps an event from being written."""
    assert (iso(LAST), iso(LAST + 1e12)) == ("9999-12-31T23:59:59.000Z",) * 2
    assert (iso(FIRST), iso(-1e300)) == ("0001-01-01T00:00:00.000Z",) * 2


@pytest.mark.parametrize("bad", NONE[:5])
async def test_no_number_on_a_host(bad: str) -> None:
    """It is unknown, or an error in words."""
    with pytest.raises(HostCommandError, match="can't tell who reads"):
        await readers.visit(says(f"{bad} 0 0 0 0\n\n"), "h", "f", "t", "r")
    with pytest.raises(HostCommandError, match="can't tell who reads"):
        await readers.visit(says(f"0 0 0 0 {bad}\n\n"), "h", "f", "t", "r")
    assert (await readers.visit(says(f"2 1 1 0 0\n1 {bad} 7\n"), "h", "f", "t", "r")).unread == {1, 7}
    link = cast("Any", SimpleNamespace(run=says(f"3 {bad}x\n {bad}")))
    assert (await HostFetch("h", link, plan_for("h").tasks[0], [], "/h", give_up=0.0).so_far()).size == 3 * 1024
    session = cast("Any", SimpleNamespace(run=says(f"{bad} x\n")))
    assert await remains._folder(session, "h", "r") == []


@pytest.mark.parametrize("bad", NONE[:3])
async def test_no_number_beside_a_container(bad: str) -> None:
    """What its files take is unknown; how long its process's log is, too."""
    labels = SimpleNamespace(engine="docker", task=0)
    task = cast("Any", SimpleNamespace(id="abc", labels=labels, status="running"))
    session = cast("Any", SimpleNamespace(run=says(f"abc {bad}\n")))
    (found,) = await remains._containers(session, Host("h"), [task])
    assert found.size is None
    plan = plan_for("h")
    (planned,) = (replace(task, engine="process") for task in plan.tasks)

    async def link_session() -> Any:
        return SimpleNamespace(run=says(f"{bad} log\n"))

    async def run_dir() -> str:
        return "/r"

    link = SimpleNamespace(session=link_session)
    host = cast("Any", SimpleNamespace(tasks=(planned,), ids={}, link=link, run_dir=run_dir))
    live: list[Any] = []

    async def go_live(task: Any) -> None:
        live.append(task)

    viewer = _Viewer(
        host, cast("Any", None), cast("Any", SimpleNamespace(mask=SimpleNamespace(cut=None))), cast("Any", None)
    )
    viewer._go_live = go_live  # type: ignore[method-assign]
    await viewer._look_at(planned)
    assert live == [planned]


@pytest.mark.parametrize("bad", NONE[:3])
def test_no_number_in_figures(bad: str) -> None:
    """A counter that can't be read is left out, and so is a GPU without a number."""
    assert samples._ib_bytes({"a": [bad, "1"], "b": ["1", "18446744073709551615"]}) == {"b": (4, 4 * (2**64 - 1))}
    assert samples._kib_to_mib(bad) is None
    assert samples._nvidia(bad, {"gpus": {"fields": ["index"], "pcie": {}, "xid": {}}}, 0.0) is None


@pytest.mark.parametrize("bad", NONE[:3])
def test_no_number_in_labels_and_names(bad: str) -> None:
    plan = plan_for("h")
    task = replace(plan.tasks[0], labels={**plan.tasks[0].labels, "distui.attempt": bad, "distui.tasks": bad})
    assert task.container == replace(task, labels={**task.labels, "distui.attempt": "1"}).container
    assert unfound(replace(plan, tasks=(task,))) == 0
    network = SimpleNamespace(hcas=("mlx5_0", f"mlx5_{bad}"), rdma_off=False, ifname="")
    assert network_name(cast("Any", network)) == "mlx5_0 +1"
    job = cast("Any", SimpleNamespace(env={"CUDA_VISIBLE_DEVICES": bad}))
    assert list(_gpus_out_of_reach(job, [])) == []
    assert sorted(["n10", f"n{bad}", "n9"], key=natural)[:2] == ["n9", "n10"]


def test_no_number_in_names_of_files(tmp_path: Path, cli: Any, home: Path) -> None:
    """`logs --attempt` says which attempts there are."""
    stored = RunStore(home / ".local/state/distui").create("r")
    for name in ("attempt-2", "attempt-²", "attempt-" + "9" * 200):
        (stored.path / name).mkdir()
    for name in ("rank-00001.log", "rank-².log", "rank-" + "9" * 200 + ".log"):
        (stored.log_dir / name).touch()
    assert stored.earlier() == (2,)
    assert [found.rank for found in from_files._found(stored, "rank")] == [1]
    assert cli("logs", "r", "--attempt", "1").code != 70


@pytest.mark.parametrize("bad", NONE[:3])
def test_no_number_in_the_environment(tmp_path: Path, bad: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal says how wide it is, the file whose it is."""
    assert console._columns({"COLUMNS": bad}) > 0
    assert console._columns({"COLUMNS": "77"}) == 77
    (tmp_path / "f").write_text("x")
    monkeypatch.setenv("SUDO_UID", bad)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    files._refuse_strangers(cast("Any", SimpleNamespace(st_uid=0)), tmp_path / "f")


@pytest.mark.parametrize("bad", NONE[:3])
def test_no_number_in_an_archive(bad: str) -> None:
    """An image with such a size is refused."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("a")
        info.pax_headers = {"size": bad}
        archive.addfile(info)
    with pytest.raises(BadArchive, match="a size that is none"):
        list(TarReader().feed(out.getvalue()))
