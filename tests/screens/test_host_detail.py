"""One host: its tabs, what the cursor chooses, the way to its run."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import FakeBackend, facts, gpu, sample, screen_text, settle, shot

from distui.errors import HostCommandError
from distui.facts.host import GpuProcess, Gpus
from distui.monitor.containers import HostContainer
from distui.monitor.figures import HostNews
from distui.monitor.processes import SeenProcess
from distui.plan.labels import TaskLabels
from distui.tui.dialogs.text import TextScreen
from distui.tui.frame.base import View
from distui.tui.hosts import detail as host_detail
from distui.tui.hosts.acts import HostActs
from distui.tui.hosts.container_log import KEPT, ContainerLogScreen
from distui.tui.hosts.detail import HostDetailScreen
from distui.tui.hosts.tabs import Process, process_row, processes, use_at


async def opened(
    app: Any, pilot: Any, backend: FakeBackend, name: str = "node02", seconds: int = 3
) -> HostDetailScreen:
    """The screen of a host that has sent some seconds."""
    now = time.time()
    await backend.say(*(HostNews(name, "sample", sample=sample(name, now - seconds + i)) for i in range(seconds)))
    app.open_host(name)
    await pilot.pause()
    await settle(pilot)
    app.screen._tick()
    await pilot.pause()
    assert isinstance(app.screen, HostDetailScreen)
    return app.screen


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_gpus_with_history(open_app: Any, backend: FakeBackend, size: tuple[int, int]) -> None:
    """Each GPU a row; below it the last five minutes of the one under the cursor."""
    async with open_app(size) as (app, pilot):
        screen = await opened(app, pilot, backend)
        await pilot.press("j", "j")
        await pilot.pause()
        text = screen_text(app)
        shot(app, f"host-{size[0]}")
        assert screen.gpu is not None
        assert screen.gpu.index == 2
        assert "GPU 2  utilisation" in text
        assert "72°C" in text
        assert max(len(line) for line in text.splitlines()) <= size[0]
        assert size[0] < 100 or "ib[0-7]  traffic" in text


async def test_links_with_errors_and_addresses(open_app: Any, backend: FakeBackend) -> None:
    """Ports and interfaces, a dead one in its own word."""
    async with open_app((120, 40)) as (app, pilot):
        screen = await opened(app, pilot, backend, "node03")
        await pilot.press("]")
        await pilot.pause()
        text = screen_text(app)
        shot(app, "host-net")
        assert screen.tab == "net"
        assert "DOWN !" in text
        assert "default route" in text
        assert "10.0.0.3/24" in text


async def test_processes_know_their_run(open_app: Any, backend: FakeBackend) -> None:
    """Those of no run are remarked."""
    async with open_app((120, 40)) as (app, pilot):
        screen = await opened(app, pilot, backend)
        await pilot.press("]", "]")
        await pilot.pause()
        assert screen.tab == "procs"
        assert "4005" in screen_text(app)
        assert "of no run !" in screen_text(app)


async def test_only_what_works_on_the_row_under_the_cursor_is_offered(open_app: Any, backend: FakeBackend) -> None:
    """No kill without a process, no log of a process without a container, no run of what is of none."""
    backend.answers["node02"] = facts("node02", 2, gpu=Gpus(tuple(gpu(i) for i in range(8))))
    async with open_app((120, 40)) as (app, pilot):
        screen = await opened(app, pilot, backend)
        await on_tab(pilot, screen, "procs")
        text = screen_text(app)
        assert "nvidia-smi names no process, though 8 GPUs are at work" in text
        assert not [words for words in ("kill process", "container log", "its run") if words in text]
        backend.answers["node02"] = facts("node02", 2, gpu=Gpus((gpu(0, owner="python"),)))
        await pilot.press("p")
        await until(pilot, lambda: "kill process" in screen_text(app))
        assert "container log" not in screen_text(app)
        await on_tab(pilot, screen, "containers")
        assert "no container is on this host" in screen_text(app)
        assert not [words for words in ("kill process", "container log") if words in screen_text(app)]


async def test_an_idle_host_has_no_process(open_app: Any, backend: FakeBackend) -> None:
    """Then nobody has to be wondered about."""
    backend.answers["node02"] = facts("node02", 2, gpu=Gpus((gpu(0),)))
    async with open_app((120, 40)) as (app, pilot):
        app.open_host("node02")
        await settle(pilot)
        await on_tab(pilot, app.screen, "procs")
        assert "no process is on its GPUs" in screen_text(app)


async def test_processes_are_asked_for_while_they_are_looked_at(open_app: Any, backend: FakeBackend) -> None:
    """When the tab is opened and again and again there; the cursor stays on its process when others come and go."""
    asked = ("gpu_processes", "node02")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host_detail, "LOOKED_EVERY", 0.05)
        async with open_app((120, 40)) as (app, pilot):
            screen = await opened(app, pilot, backend)
            assert asked not in backend.calls
            await on_tab(pilot, screen, "procs")
            await until(pilot, lambda: asked in backend.calls)
            await pilot.press("j", "j")
            await settle(pilot)
            assert screen.process.process.pid == 4002

            cards = [gpu(i, owner="python" if i > 1 else "") for i in range(8)]
            backend.answers["node02"] = facts("node02", 2, gpu=Gpus(tuple(cards)))
            await until(pilot, lambda: "4000" not in screen_text(app))
            assert screen.process.process.pid == 4002
            assert "as of " in screen_text(app)

            refused: list[str] = []

            async def refuse(host: str) -> Any:
                refused.append(host)
                raise HostCommandError(host, f"{host}: nvidia-smi does not tell its processes: no driver")

            patch.setattr(backend, "gpu_processes", refuse)
            await until(pilot, lambda: "no driver" in screen_text(app))
            assert "4002" in screen_text(app), "what was known stays"
            await on_tab(pilot, screen, "facts")
            before = len(refused)
            await pilot.pause(0.2)
            assert len(refused) == before


async def until(pilot: Any, holds: Callable[[], bool]) -> None:
    """Wait for something to be shown, ten seconds at most."""
    for _ in range(200):
        await settle(pilot)
        if holds():
            return
        await pilot.pause(0.05)
    raise AssertionError(screen_text(pilot.app))


def containers(now: float) -> tuple[HostContainer, ...]:
    """One of a run, one of somebody else, one that was killed for its memory."""
    labels = TaskLabels("llm-7f3", 1, tuple(range(8, 16)), "node02", "llm-pretrain", owner="alice@laptop")
    return (
        HostContainer("node02", "000000000001" + "a" * 52, "distui-llm-7f3-1", "nvcr.io/nvidia/pytorch:25.01-py3",
                      "running", True, since=now - 5760, task=labels),
        HostContainer("node02", "b" * 64, "jupyter", "jupyter/base", "running", True, since=now - 40),
        HostContainer("node02", "c" * 64, "old", "busybox", "exited", False, 137, oom=True, since=now - 90_000),
    )  # fmt: skip


async def on_tab(pilot: Any, screen: HostDetailScreen, tab: str) -> None:
    """Turn to a tab, and wait for what it asks for."""
    while screen.tab != tab:
        await pilot.press("]")
    await settle(pilot)


async def container_log(app: Any, pilot: Any, backend: FakeBackend) -> None:
    """Open the log of the second of a host's containers."""
    backend.known_containers["node02"] = containers(time.time())
    await on_tab(pilot, await opened(app, pilot, backend), "containers")
    await pilot.press("j", "l")
    await settle(pilot)


async def test_all_containers_of_the_host(open_app: Any, backend: FakeBackend, live: Any) -> None:
    """Those of runs with rank and owner, others plainly; enter opens the run of one."""
    backend.known_containers["node02"] = containers(time.time())
    async with open_app((120, 40)) as (app, pilot):
        followed: list[str] = []
        app.follow_run = followed.append
        screen = await opened(app, pilot, backend)
        await on_tab(pilot, screen, "containers")
        await said(pilot, "alice@laptop")
        text = screen_text(app)
        shot(app, "host-containers")
        assert "llm-7f3 rank 8-15  alice@laptop" in text
        assert "nvidia/pytorch:25.01-py3" in text
        assert "jupyter" in text
        assert "not distui's" in text
        assert "OOM" in text
        assert "96m" in text
        await pilot.press("enter")
        await pilot.press("j", "enter")
        await pilot.pause()
        assert followed == ["llm-7f3"]


async def test_an_engine_that_does_not_answer_says_why(
    open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the place of the rows."""

    async def silent(host: str) -> Any:
        raise HostCommandError(host, "the docker daemon is not running")

    monkeypatch.setattr(backend, "containers", silent)  # however often it is asked meanwhile
    async with open_app((120, 40)) as (app, pilot):
        screen = await opened(app, pilot, backend)
        await on_tab(pilot, screen, "containers")
        assert "the docker daemon is not running" in screen_text(app)


async def test_the_cursor_stays_on_its_container(open_app: Any, backend: FakeBackend) -> None:
    """Newer ones come in above it: `l` and `s` must not be about another one than a moment ago."""
    now = time.time()
    backend.known_containers["node02"] = containers(now)
    async with open_app((120, 40)) as (app, pilot):
        screen = await opened(app, pilot, backend)
        await on_tab(pilot, screen, "containers")
        await said(pilot, "jupyter")
        await pilot.press("j")
        new = HostContainer("node02", "d" * 64, "newer", "busybox", "running", True, since=now)
        backend.known_containers["node02"] = (new, *containers(now))
        await pilot.press("p")
        await said(pilot, "newer")
        assert screen.container is not None
        assert screen.container.name == "jupyter"


async def test_an_engine_that_is_slow_is_waited_for(
    open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked again every few seconds it would never have answered."""
    asked: list[str] = []
    answers = asyncio.Event()

    async def slow(host: str) -> tuple[HostContainer, ...]:
        asked.append(host)
        await answers.wait()
        return containers(time.time())

    monkeypatch.setattr(backend, "containers", slow)
    async with open_app((120, 40)) as (app, pilot):
        screen = await opened(app, pilot, backend)
        await on_tab(pilot, screen, "containers")
        for _ in range(3):
            screen._ask_tab()
        await settle(pilot)
        answers.set()
        await said(pilot, "jupyter")
        assert asked == ["node02"]


async def test_the_log_of_a_container(open_app: Any, backend: FakeBackend) -> None:
    """Its lines as they come, safe to show; moving up pauses, F follows, and its end is said."""
    async with open_app((120, 24)) as (app, pilot):
        await container_log(app, pilot, backend)
        assert backend.calls[-1] == ("container_log", "b" * 64)
        backend.log_parts.put_nowait(b"".join(b"line %d\n" % i for i in range(50)) + b"\x1b[2J\x1b]0;x\x07evil\nha")
        await said(pilot, "evil")
        assert "\x1b" not in screen_text(app)
        assert "line 49" in screen_text(app)
        assert "follow" in screen_text(app)
        await pilot.press("g")
        backend.log_parts.put_nowait(b"lf\nERROR: broken\n")
        await said(pilot, "paused, 2 new")
        assert "line 0" in screen_text(app)
        await pilot.press("e")
        assert app.screen.rows.key == "52"
        await pilot.press("F")
        backend.log_parts.put_nowait(b"")
        await said(pilot, "end of log")
        assert "half" in screen_text(app)
        await pilot.press("slash", *"broken", "enter")
        await said(pilot, "/broken")
        assert "half" not in screen_text(app)
        await pilot.press("escape", "escape")
        await pilot.pause()
        assert isinstance(app.screen, HostDetailScreen)


async def test_a_process_on_a_gpu_that_is_gone_is_still_painted(open_app: Any, backend: FakeBackend) -> None:
    """Its row stays until the tab is made anew, as when one comes back to it; the app ended with a traceback."""
    busy = replace(gpu(3), processes=(GpuProcess(77, "python", 1, "GPU-3", user="ann"),))
    async with open_app((120, 24)) as (app, pilot):
        await settle(pilot)
        there = facts("node02", 2, gpus=4)
        app.board.probed("node02", replace(there, gpu=Gpus((*there.gpu.gpus[:3], busy))), 1.0)
        (found,) = (p for p in processes(app.board["node02"]).values() if p.process.pid == 77)
        app.board.probed("node02", facts("node02", 2, gpus=3), 2.0)
        host = app.board["node02"]
        assert 3 not in host.gpus
        assert use_at(host, found) is None
        assert "ann" in process_row(host, found, app.palette, bold=False).plain


@pytest.mark.parametrize(("here", "shown"), [(True, ["jupyter"]), (False, [])])
async def test_the_log_is_of_what_the_cursor_was_on(here: bool, shown: list[str]) -> None:
    """The host answers later: the cursor has moved on by then, or one is elsewhere and typing."""
    at = SimpleNamespace(container=None, gpu=None, host=SimpleNamespace(name="node02"))
    opened: list[str] = []

    async def answer(host: str) -> tuple[HostContainer, ...]:
        at.process = Process(0, GpuProcess(2, "b", 1, container="0" * 11 + "1"))
        return containers(1.0)

    async def push(screen: ContainerLogScreen) -> None:
        opened.append(screen.container.name)

    at.process = Process(0, GpuProcess(1, "a", 1, container="b" * 12))
    app = SimpleNamespace(push_screen=push)
    view: Any = SimpleNamespace(is_active=here, app=app, backend=SimpleNamespace(containers=answer))
    await HostActs(view, at)._open_log()
    assert opened == shown


async def test_a_log_opens_over_no_question(
    open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host answers while one reads whether a process is to be ended."""
    answers = asyncio.Event()

    async def answer(host: str) -> tuple[HostContainer, ...]:
        await answers.wait()
        return containers(1.0)

    async with open_app((120, 24)) as (app, pilot):
        screen = await opened(app, pilot, backend)
        acts = next(part for part in screen.parts if isinstance(part, HostActs))
        monkeypatch.setattr(backend, "containers", answer)
        monkeypatch.setattr(HostActs, "_wanted", lambda self: "b" * 12)
        acts.action_container_log()
        await settle(pilot)
        await pilot.press("question_mark")
        await settle(pilot)
        there = app.screen
        assert there is not screen
        answers.set()
        await settle(pilot)
        assert app.screen is there


async def test_a_cursor_that_is_moved_before_the_list_is_laid_out_is_seen(open_app: Any, backend: FakeBackend) -> None:
    """The list has no scrollbar yet: it is scrolled all the same."""
    async with open_app((120, 24)) as (app, pilot):
        await container_log(app, pilot, backend)
        app.screen._take([f"line {i}" for i in range(50)])
        app.screen._show()
        app.screen.rows.action_last()
        app.screen._left_on = None
        await said(pilot, "line 49")


async def test_sideways_ends_where_the_lines_of_a_container_do(open_app: Any, backend: FakeBackend) -> None:
    """A key that was held left an empty screen, and as many steps back."""
    async with open_app((120, 24)) as (app, pilot):
        await container_log(app, pilot, backend)
        app.screen._take(["short", "x" * 200])
        app.screen._show()
        await said(pilot, "short")
        for _ in range(60):
            app.screen.action_side_right()
        assert 192 <= app.screen.left < 200


@pytest.mark.parametrize("more", [100, KEPT + 100])
async def test_the_log_of_a_container_is_followed_under_load(open_app: Any, backend: FakeBackend, more: int) -> None:
    """Lines that come twice before one refresh, so that the oldest go, pause nothing; a key does."""
    async with open_app((120, 24)) as (app, pilot):
        await container_log(app, pilot, backend)
        backend.log_parts.put_nowait(b"".join(b"line %d\n" % i for i in range(KEPT)))
        await said(pilot, f"line {KEPT - 1}")
        log = app.screen
        for part in "ab":
            log._take([f"{part} {i}" for i in range(more)])
            log._show()
        painted = asyncio.Event()
        log.call_after_refresh(painted.set)
        await painted.wait()
        await said(pilot, f"b {more - 1}")
        assert (log.rows.follows, "paused" in screen_text(app)) == (True, False)
        log._take(["one"])
        log._show()
        log.rows.action_up()
        log._take(["two"])
        log._show()
        await said(pilot, "paused, 1 new")
        assert not log.rows.follows
        log.rows.go(log.rows.rows[-3].key)
        log._take(["three"])
        log._show()
        await said(pilot, "paused, 2 new")


@pytest.mark.parametrize("letter", ["x", "\N{ROCKET}"])
async def test_a_log_of_endless_lines_is_kept_in_part(open_app: Any, backend: FakeBackend, letter: str) -> None:
    """A stranger's container prints what it likes, a rocket takes four bytes: the memory of this machine is not its
    own. That a line is cut is seen.
    """
    async with open_app((120, 24)) as (app, pilot):
        await container_log(app, pilot, backend)
        log, line = app.screen, letter * (1 << 20)
        for number in range(300):
            log._take([f"{number} {line}"])
        assert sum(map(sys.getsizeof, log.lines)) <= 64 << 20
        assert log.first + len(log.lines) == 300
        assert log.lines[-1].startswith(f"299 {letter}") and log.lines[-1].endswith("…")


async def said(pilot: Any, words: str) -> None:
    """Until these words are on the screen."""
    deadline = time.monotonic() + 30
    while words not in screen_text(pilot.app):
        assert time.monotonic() < deadline, f"{words!r} never came:\n{screen_text(pilot.app)}"
        await pilot.pause(0.02)


async def test_a_shell_in_a_container(open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """s on its row; elsewhere s is a shell on the host; one that has ended has none."""
    ran: list[Any] = []

    async def outside(app: Any, argv: tuple[str, ...]) -> int:
        ran.append(argv)
        return 0

    monkeypatch.setattr("distui.tui.terminal.shell.outside", outside)
    backend.known_containers["node02"] = containers(time.time())
    async with open_app((120, 40)) as (app, pilot):
        screen = await opened(app, pilot, backend)
        await pilot.press("s")
        await on_tab(pilot, screen, "containers")
        await pilot.press("j", "s")
        await pilot.press("j", "s")
        await pilot.pause()
        assert ran == [("ssh", "node02"), ("ssh", "-t", "node02", "docker", "exec", "b" * 64)]
        assert "old does not run" in screen_text(app)


async def test_a_process_is_ended_after_a_question(open_app: Any, backend: FakeBackend) -> None:
    """It shows pid, command, user and host; Cancel has the focus; what became of it is said."""
    async with open_app((120, 40)) as (app, pilot):
        screen = await opened(app, pilot, backend)
        await pilot.press("K")
        assert "no process is under the cursor" in screen_text(app)
        await on_tab(pilot, screen, "procs")
        await pilot.press("j", "K")
        await pilot.pause()
        text = screen_text(app)
        shot(app, "host-kill")
        assert "End process 4001 on node02?" in text
        assert "/usr/bin/python train.py" in text
        assert "\x1b" not in text
        assert "bob (we are ubuntu)" in text
        await pilot.press("enter")
        await pilot.pause()
        assert not [call for call in backend.calls if call[0] == "signal"]
        for outcome, keys, words in (
            ("lives", ("right", "enter"), "still lives 3 s after SIGTERM"),
            ("refused", ("right", "right", "enter"), "ubuntu may not signal process 4001"),
        ):
            backend.outcome = outcome  # type: ignore[assignment]
            await pilot.press("K")
            await pilot.pause()
            await pilot.press(*keys)
            await settle(pilot)
            await said(pilot, words)
        signals = [call for call in backend.calls if call[0] == "signal"]
        assert signals == [("signal", "node02", 4001, "4711", "TERM"), ("signal", "node02", 4001, "4711", "KILL")]


async def test_read_only_ends_no_process(open_app: Any, backend: FakeBackend) -> None:
    """Without a question."""
    backend.readonly = True
    async with open_app((120, 40)) as (app, pilot):
        screen = await opened(app, pilot, backend)
        await on_tab(pilot, screen, "procs")
        await pilot.press("K")
        await pilot.pause()
        assert "refused" in screen_text(app)
        assert app.screen is screen


async def test_what_happened_while_we_looked(open_app: Any, backend: FakeBackend) -> None:
    """The newest first."""
    async with open_app((120, 40)) as (app, pilot):
        screen = await opened(app, pilot, backend)
        await backend.say(HostNews("node02", "lost", "no answer for 15 s"), HostNews("node02", "back"))
        await on_tab(pilot, screen, "log")
        lines = [line for line in screen_text(app).splitlines() if " ago  " in line]
        shot(app, "host-log")
        assert ["the connection is back" in lines[0], "no answer for 15 s" in lines[1]] == [True, True]
        assert "answers a probe: Ubuntu 24.04, 8 GPUs" in lines[-1]


async def test_facts_can_be_filtered(open_app: Any, backend: FakeBackend) -> None:
    """Everything in words, and only what is looked for; esc undoes the filter first."""
    async with open_app((120, 40)) as (app, pilot):
        screen = await opened(app, pilot, backend)
        await pilot.press("[", "[")
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


async def test_raw_json(open_app: Any, backend: FakeBackend) -> None:
    """y shows the document that `probe --json` prints for the host."""
    async with open_app((120, 40)) as (app, pilot):
        await opened(app, pilot, backend)
        await pilot.press("y")
        await pilot.pause()
        assert isinstance(app.screen, TextScreen)
        assert '"state": "up"' in screen_text(app)


async def test_a_dead_host_says_why(open_app: Any, backend: FakeBackend) -> None:
    """On every tab; its raw JSON has the error."""
    async with open_app((120, 40)) as (app, pilot):
        app.open_host("node05")
        await settle(pilot)
        assert "publickey refused" in screen_text(app)
        await pilot.press("y")
        await pilot.pause()
        assert '"code": "auth"' in screen_text(app)


async def test_a_host_without_gpus_opens_on_its_links(open_app: Any, backend: FakeBackend) -> None:
    """There is nothing to see on the first tab."""
    async with open_app((120, 40)) as (app, pilot):
        app.open_host("gw1")
        await settle(pilot)
        assert app.screen.tab == "net"
        assert "eno1" in screen_text(app)


async def test_a_tiny_window(open_app: Any, backend: FakeBackend) -> None:
    """20x5 and back breaks nothing."""
    async with open_app((120, 40)) as (app, pilot):
        await opened(app, pilot, backend)
        for size in ((20, 5), (200, 50), (80, 24)):
            await pilot.resize_terminal(*size)
            for _ in range(5):
                await pilot.press("]")
        await pilot.pause()
        assert "node02" in screen_text(app)


async def test_probe_again(open_app: Any, backend: FakeBackend) -> None:
    """p asks this host."""
    async with open_app((120, 40)) as (app, pilot):
        await opened(app, pilot, backend)
        await pilot.press("p")
        await pilot.pause()
        assert ("probe", "node02") in backend.calls


async def test_rows_in_another_order(open_app: Any, backend: FakeBackend) -> None:
    """o goes through the orders of the tab, O turns them round; each tab keeps its own."""
    async with open_app((120, 40)) as (app, pilot):
        screen = await opened(app, pilot, backend)
        await pilot.press("o", "o", "o")
        assert [row.key for row in screen.rows.rows] == list("76543210")
        assert "by temp" in screen_text(app)
        await pilot.press("O")
        assert [row.key for row in screen.rows.rows] == list("01234567")
        await pilot.press("O", "]")
        assert [row.key for row in screen.rows.rows] == list("012345678")


async def test_graphs_large_and_none(open_app: Any, backend: FakeBackend) -> None:
    """Large ones take the network's room; without them it is told alone."""
    async with open_app((120, 40)) as (app, pilot):
        await opened(app, pilot, backend)
        shown = []
        for _ in range(3):
            await pilot.press("v")
            await pilot.pause()
            text = screen_text(app)
            shown.append(("utilisation" in text, "8 of 8 InfiniBand" in text))
        assert shown == [(True, False), (False, True), (True, True)]


@pytest.mark.parametrize("elsewhere", ["3", "slash"])
async def test_whether_a_process_is_ended_is_not_asked_elsewhere(
    open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch, elsewhere: str
) -> None:
    """The host answers when one has gone on, or types: the next keys would answer the question."""
    answers, look = asyncio.Event(), backend.process

    async def late(host: str, pid: int) -> SeenProcess:
        await answers.wait()
        return await look(host, pid)

    monkeypatch.setattr(backend, "process", late)
    async with open_app((120, 40)) as (app, pilot):
        screen = await opened(app, pilot, backend)
        await on_tab(pilot, screen, "procs")
        await pilot.press("j", "K", elsewhere)
        await settle(pilot)
        answers.set()
        await said(pilot, "process 4001 on node02 is left alone: K asks again")
        assert isinstance(app.screen, View)
