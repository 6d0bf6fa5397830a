"""An error that nobody expected, met while one host is followed, costs that host alone, and is kept to be mended."""

from __future__ import annotations

import asyncio
import contextlib
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from distui.cli import wiring
from distui.cluster.logs.from_hosts import _Viewer
from distui.monitor import figures
from distui.runs.follow.followed import Sampled
from distui.runs.follow.survived import survived
from distui.runs.state.samples import Sample
from fakehosts.hosts import FakeConnector, FakeHost


class Odd:
    """Follows hosts; what the host `odd` says first makes no sense."""

    met: tuple[str, ...] = ()
    """Whom it was made to follow so far."""

    def __init__(self, link: Any, access: object, take: Any, **_: object) -> None:
        self._host = link.host
        self._take = take
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """One sample, of `odd` only the second time."""
        Odd.met += (self._host,)
        if Odd.met.count(self._host) == 1 and self._host == "odd":
            raise OverflowError("timestamp out of range \x1b[2J")
        await self._take(Sampled(Sample(1.0)))
        await self._stop.wait()

    async def close(self) -> None:
        """End `run`."""
        self._stop.set()


async def test_figures_of_one_host_never_end_those_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is lost, in words, and asked again later."""
    monkeypatch.setattr(figures, "HostFollower", Odd)
    monkeypatch.setattr(figures, "REFUSED_WAIT", 0.0)
    monkeypatch.setattr(Odd, "met", ())
    kept: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, reported: kept.append(reported["exception"]))
    connector = FakeConnector(FakeHost("odd"), FakeHost("well"))
    found: dict[str, list[figures.HostNews]] = {"odd": [], "well": []}
    async with (
        asyncio.timeout(60),
        contextlib.aclosing(figures.figures(connector, ["odd", "well"])) as stream,  # type: ignore[arg-type]
    ):
        async for news in stream:
            found[news.host].append(news)
            if {"sample"} <= {one.state for one in found["odd"]} and found["well"]:
                break
    assert [one.state for one in found["odd"]] == ["lost", "sample"]
    assert "OverflowError: timestamp out of range" in found["odd"][0].reason
    assert "\x1b" not in found["odd"][0].reason
    assert [one.state for one in found["well"]] == ["sample"]
    assert [type(error) for error in kept] == [OverflowError]


async def test_logs_say_why_a_host_is_read_no_more() -> None:
    """Not of a stdout that was closed."""
    said: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, reported: None)
    host = cast("Any", SimpleNamespace(host="h1", tasks=()))
    out = cast("Any", SimpleNamespace(mask=SimpleNamespace(cut=None)))
    viewer = _Viewer(host, cast("Any", None), out, lambda words, _: said.append(words))

    async def fail(error: Exception) -> None:
        raise error

    for error in (OverflowError("too large"), BrokenPipeError("stdout")):
        running = asyncio.ensure_future(fail(error))
        await asyncio.gather(running, return_exceptions=True)
        viewer._tell_error(running)
    assert said == ["h1: distui can't make sense of what it says, and follows it no more (OverflowError: too large)"]
    assert viewer.misses


def test_a_command_that_goes_on_names_the_crash_file_at_its_end(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for each error, not for each time it is met; another error another file; it holds no value of the caller."""
    monkeypatch.setenv("HF_TOKEN", "hunter2-hunter2")

    def meet(error: Exception) -> None:
        try:
            raise error
        except Exception as exc:
            survived(exc, "following h1")

    async def work() -> int:
        for _ in range(3):
            meet(OverflowError("too large: hunter2-hunter2"))
        meet(ZeroDivisionError("oops"))
        return 6

    assert wiring.run_async(work()) == 6
    files = sorted((home / ".local/state/distui/crashes").iterdir())
    one, other = (file.read_text() for file in files)
    assert "OverflowError: too large: ***" in one and "hunter2" not in one and "ZeroDivisionError: oops" in other
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600, 0o600]
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(" are in ")[2] for line in lines] == [str(file) for file in files]
    assert all(line.startswith("distui: following h1 ended in an error that may be a bug in distui") for line in lines)


def test_other_errors_that_nobody_waits_for_are_told_as_before(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    """By asyncio's own handler."""

    async def work() -> None:
        asyncio.get_running_loop().call_exception_handler({"message": "a task was lost", "exception": ValueError("x")})

    wiring.run_async(work())
    assert "a task was lost" in caplog.text
    assert not (home / ".local/state/distui/crashes").exists()
