"""One host: its tabs, what the cursor chooses, the way to its run."""

from __future__ import annotations

import time
from typing import Any

import pytest
from fakes import FakeDesk, sample, screen_text, settle, shot

from tui.desk import HostNews
from tui.screens.host_detail import HostDetailScreen
from tui.screens.text import TextScreen


async def opened(app: Any, pilot: Any, desk: FakeDesk, name: str = "node02", seconds: int = 3) -> HostDetailScreen:
    """The screen of a host that has sent some seconds."""
    now = time.time()
    await desk.say(*(HostNews(name, "sample", sample=sample(name, now - seconds + i)) for i in range(seconds)))
    app.open_host(name)
    await pilot.pause()
    await settle(pilot)
    app.screen._tick()
    await pilot.pause()
    assert isinstance(app.screen, HostDetailScreen)
    return app.screen


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_gpus_with_history(open_app: Any, desk: FakeDesk, size: tuple[int, int]) -> None:
    """Each GPU a row; below it the last five minutes of the one under the cursor."""
    async with open_app(size) as (app, pilot):
        screen = await opened(app, pilot, desk)
        await pilot.press("j", "j")
        await pilot.pause()
        text = screen_text(app)
        shot(app, f"host-{size[0]}")
        assert screen.lane is not None
        assert screen.lane.index == 2
        assert "GPU 2  utilisation" in text
        assert "72°C" in text
        assert max(len(line) for line in text.splitlines()) <= size[0]
        assert size[0] < 100 or "ib[0-7]  traffic" in text


async def test_links_with_errors_and_addresses(open_app: Any, desk: FakeDesk) -> None:
    """Ports and interfaces, a dead one in its own word."""
    async with open_app((120, 40)) as (app, pilot):
        screen = await opened(app, pilot, desk, "node03")
        await pilot.press("]")
        await pilot.pause()
        text = screen_text(app)
        shot(app, "host-net")
        assert screen.tab == "net"
        assert "DOWN !" in text
        assert "default route" in text
        assert "10.0.0.3/24" in text


async def test_processes_know_their_run(open_app: Any, desk: FakeDesk) -> None:
    """Those of no run are remarked."""
    async with open_app((120, 40)) as (app, pilot):
        screen = await opened(app, pilot, desk)
        await pilot.press("]", "]")
        await pilot.pause()
        assert screen.tab == "procs"
        assert "4005" in screen_text(app)
        assert "of no run !" in screen_text(app)


async def test_the_containers_of_runs(open_app: Any, desk: FakeDesk, live: Any) -> None:
    """Tasks with ranks and GPUs; enter opens their run."""
    async with open_app((120, 40)) as (app, pilot):
        followed: list[str] = []
        app.follow_run = followed.append
        screen = await opened(app, pilot, desk)
        await pilot.press("]", "]", "]")
        await pilot.pause()
        assert screen.tab == "containers"
        assert "llm-7f3" in screen_text(app)
        await pilot.press("enter")
        await pilot.pause()
        assert followed == ["llm-7f3"]


async def test_facts_can_be_filtered(open_app: Any, desk: FakeDesk) -> None:
    """Everything in words, and only what is looked for; esc undoes the filter first."""
    async with open_app((120, 40)) as (app, pilot):
        screen = await opened(app, pilot, desk)
        await pilot.press("[")
        await pilot.pause()
        assert screen.tab == "facts"
        assert "EPYC 9654" in screen_text(app)
        await pilot.press("slash", *"engine", "enter")
        await pilot.pause()
        assert "docker 27.3" in screen_text(app)
        assert "EPYC" not in screen_text(app)
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is screen
        assert "EPYC 9654" in screen_text(app)


async def test_raw_json(open_app: Any, desk: FakeDesk) -> None:
    """y shows the document that `probe --json` prints for the host."""
    async with open_app((120, 40)) as (app, pilot):
        await opened(app, pilot, desk)
        await pilot.press("y")
        await pilot.pause()
        assert isinstance(app.screen, TextScreen)
        assert '"state": "up"' in screen_text(app)


async def test_a_dead_host_says_why(open_app: Any, desk: FakeDesk) -> None:
    """On every tab; its raw JSON has the error."""
    async with open_app((120, 40)) as (app, pilot):
        app.open_host("node05")
        await settle(pilot)
        assert "publickey refused" in screen_text(app)
        await pilot.press("y")
        await pilot.pause()
        assert '"code": "auth"' in screen_text(app)


async def test_a_host_without_gpus_opens_on_its_links(open_app: Any, desk: FakeDesk) -> None:
    """There is nothing to see on the first tab."""
    async with open_app((120, 40)) as (app, pilot):
        app.open_host("gw1")
        await settle(pilot)
        assert app.screen.tab == "net"
        assert "eno1" in screen_text(app)


async def test_a_tiny_window(open_app: Any, desk: FakeDesk) -> None:
    """20x5 and back breaks nothing."""
    async with open_app((120, 40)) as (app, pilot):
        await opened(app, pilot, desk)
        for size in ((20, 5), (200, 50), (80, 24)):
            await pilot.resize_terminal(*size)
            for _ in range(5):
                await pilot.press("]")
        await pilot.pause()
        assert "node02" in screen_text(app)


async def test_probe_again(open_app: Any, desk: FakeDesk) -> None:
    """p asks this host."""
    async with open_app((120, 40)) as (app, pilot):
        await opened(app, pilot, desk)
        await pilot.press("p")
        await pilot.pause()
        assert ("probe", "node02") in desk.calls
