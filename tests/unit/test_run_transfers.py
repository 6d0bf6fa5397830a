"""What a launch says while code and data are under way, and what its checks make of an image and a name."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from distui.doctor.finding import Check, CheckRow, Finding
from distui.errors import HostUnreachable
from distui.plan.labels import TaskLabels
from distui.runs.hosts.discover import FoundRun, FoundRuns, FoundTask
from distui.runs.launch import code, data
from distui.runs.launch.preflight import _comes, name_row
from distui.runs.task.fetch import SoFar


class Told:
    """Texts of a phase, as they come."""

    def __init__(self) -> None:
        self.texts: asyncio.Queue[str] = asyncio.Queue()

    async def __call__(self, attempt: Any, name: str, text: str) -> None:
        await self.texts.put(text)


async def cancelled(task: asyncio.Task[None]) -> None:
    """End what runs until it is cancelled."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_how_much_code_is_sent_is_said_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what was added meanwhile."""
    reported = Told()
    monkeypatch.setattr(code, "phase", reported)
    monkeypatch.setattr(code, "CODE_SECONDS", 0)
    progress = code.Progress(None)  # type: ignore[arg-type]
    progress.total = 3_000_000
    progress.add(1_000_000)
    telling = asyncio.create_task(progress.tell())
    async with asyncio.timeout(60):
        assert "1.0 MB of 3.0 MB" in await reported.texts.get()
        progress.add(1_000_000)
        while "2.0 MB of 3.0 MB" not in await reported.texts.get():
            pass
    await cancelled(telling)


async def test_how_much_data_a_host_has_is_said_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a host that can't be asked just now that is said, and it ends nothing."""
    reported, sizes = Told(), iter([1_000_000, None, 2_000_000])

    async def so_far() -> SoFar:
        if (found := next(sizes, 3_000_000)) is None:
            raise HostUnreachable("h1", "h1 is gone")
        return SoFar(found)

    monkeypatch.setattr(data, "phase", reported)
    monkeypatch.setattr(data, "SECONDS", 0)
    fetch = SimpleNamespace(host="h1", so_far=so_far)
    telling = asyncio.create_task(data._tell(None, [fetch]))  # type: ignore[arg-type, list-item]
    async with asyncio.timeout(60):
        texts = [await reported.texts.get() for _ in range(4)]
    await cancelled(telling)
    said = [text.partition("h1 ")[2] for text in texts]
    assert said == ["1.0 MB", "unknown (h1 is gone)", "2.0 MB", "3.0 MB"]


@pytest.mark.parametrize(
    ("pull", "present", "verdict", "does"),
    [("never", True, "fail", "image push"), ("never", False, "fail", ""), ("missing", True, "pull", "")],
)
def test_an_image_that_is_not_there(pull: str, present: bool, verdict: str, does: str) -> None:
    """With `pull: never` the job can't start; another host that has it can give it."""
    images: Any = {"img": {"h1": "sha256:1" if present else None, "h2": None}}
    found = (Finding("image:img", "h1", "ok"), Finding("image:img", "h2", "pull", "is not there"))
    plan: Any = SimpleNamespace(image="img", pull=pull, build=None)
    ok, other = _comes(CheckRow(Check("image:img", "Image", "is there", "docker"), found), plan, images).findings
    assert (ok, other.verdict) == (found[0], verdict)
    assert does in other.do and bool(other.do) == bool(does)


def test_a_name_that_is_nowhere() -> None:
    """A host that was not reached is not judged."""
    row = name_row("r", ("h1", "h2"), FoundRuns((), {"h2": HostUnreachable("h2", "h2 is gone")}))  # type: ignore[dict-item]
    assert [finding.verdict for finding in row.findings] == ["ok", "skip"]


def test_a_name_that_several_have_is_taken_on_the_hosts_of_each() -> None:
    """Each refuses the start, whichever of them began last, and whichever attempt its task is of."""
    one, two, three = (
        FoundTask(host, "", TaskLabels("r", 0, (0,), host, "j", owner), {}, running=True, status="running")
        for host, owner in (("h1", "ann@desk"), ("h2", "bob@desk"), ("h3", "bob@desk"))
    )
    found = FoundRuns((FoundRun("r", (one,)), FoundRun("r", (two,), (three,))), {})
    row = name_row("r", ("h1", "h2", "h3", "h4"), found)
    assert [finding.verdict for finding in row.findings] == ["fail", "fail", "fail", "ok"]
