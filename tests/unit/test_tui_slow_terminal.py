"""A terminal that does not read holds nothing up but the painting."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator

import pytest
from textual.app import ComposeResult
from textual.widgets import Static

from distui.tui.terminal import slow_terminal
from distui.tui.terminal.slow_terminal import BEHIND, CAUGHT_UP, PacedApp, PacedDriver, Writer

MUCH = "x" * (1 << 20)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Stands for a terminal: it takes 64 KiB that nobody reads."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def read(fd: int, count: int) -> bytes:
    """Just so many bytes."""
    data = b""
    while len(data) < count:
        data += os.read(fd, count - len(data))
    return data


def test_writing_never_waits(pipe: tuple[int, int]) -> None:
    """All of it is counted as waiting, and told as taken once the terminal has read it, in order."""
    caught_up = threading.Event()
    writer = Writer(pipe[1], "utf-8", caught_up.set)
    writer.start()
    for part in (MUCH, "é", MUCH):
        writer.write(part)
    assert writer.waiting > BEHIND
    assert not caught_up.is_set()

    assert read(pipe[0], 2 * len(MUCH) + 2) == (MUCH + "é" + MUCH).encode()
    assert caught_up.wait(60)
    assert writer.waiting <= CAUGHT_UP
    writer.stop()
    assert not writer.is_alive()


def test_what_is_dropped_is_whole(pipe: tuple[int, int]) -> None:
    """The sequence that is half written is finished, those behind it are forgotten, what comes after is written."""
    writer = Writer(pipe[1], "utf-8", lambda: None)
    writer.start()
    writer.write(MUCH)
    begun = read(pipe[0], 1)
    for _ in range(5):
        writer.write("forgotten")
    writer.drop()
    writer.write("last words")

    assert begun + read(pipe[0], len(MUCH) - 1 + len("last words")) == (MUCH + "last words").encode()
    writer.stop()
    assert writer.waiting == 0


def test_a_terminal_that_never_reads_does_not_hold_up_the_end(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is given up; its thread dies with the process."""
    monkeypatch.setattr(slow_terminal, "LAST_WORDS_S", 0.01)
    writer = Writer(pipe[1], "utf-8", lambda: None)
    writer.start()
    writer.write(MUCH)
    writer.stop()
    assert writer.is_alive()
    read(pipe[0], len(MUCH))
    writer.join(60)
    assert not writer.is_alive()


def test_a_terminal_that_is_gone_takes_everything() -> None:
    """Nothing waits for it, and no thread dies with a traceback on the screen."""
    reading, writing = os.pipe()
    os.close(reading)
    writer = Writer(writing, "utf-8", lambda: None)
    writer.start()
    writer.write(MUCH)
    writer.stop()
    os.close(writing)

    assert not writer.is_alive()
    assert writer.waiting == 0


class Words(PacedApp):
    """One widget."""

    def compose(self) -> ComposeResult:
        """See textual."""
        yield Static("before")


def screen_text(app: PacedApp) -> str:
    """What was painted last."""
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


async def test_nothing_is_painted_while_the_terminal_is_behind() -> None:
    """What changed meanwhile is painted once, as it is then."""
    painted = []
    app = Words()
    async with app.run_test(size=(20, 2)) as pilot:
        app.post_display_hook = lambda: painted.append(screen_text(app))  # type: ignore[method-assign]
        app.hold()
        app.hold()
        for number in range(3):
            app.query_one(Static).update(f"after {number}")
            await pilot.pause()
        assert painted == []
        app.go_on()
        app.go_on()
        await pilot.pause()
        assert [text.split("\n")[0].rstrip() for text in painted][-1:] == ["after 2"]
        assert not any("after 0" in text or "after 1" in text for text in painted)


async def test_a_frame_thrown_away_is_painted_again() -> None:
    """A resize draws at once; when that falls into a hold, the whole screen is painted after it."""
    app = Words()
    async with app.run_test(size=(20, 2)) as pilot:
        app.hold()
        await pilot.resize_terminal(30, 4)
        async with asyncio.timeout(60):  # textual resizes a moment later
            while not app._missed:
                await pilot.pause()
        app.go_on()
        assert app.screen._repaint_required
        await pilot.pause()
        assert len(screen_text(app).split("\n")) == 4


def test_it_is_the_driver_of_the_app() -> None:
    """Whoever chose another driver keeps it."""
    assert Words().driver_class is PacedDriver
