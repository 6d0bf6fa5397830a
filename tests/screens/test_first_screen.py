"""The first start: hosts are picked by keys, hosts.yaml is written, the demo is one key away."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from fakes import FakeBackend, FakeFirst, screen_text, settle, shot
from training import until

from distui.cluster.hosts.first_hosts import FirstHost
from distui.errors import UsageError
from distui.spec.imports.imported import ImportedHost
from distui.tui.first.app import FirstApp
from distui.tui.launch.screen import LaunchScreen
from distui.tui.launch.template_choice import TemplateChoice


@asynccontextmanager
async def first(
    backend: FakeBackend, start: FakeFirst, size: tuple[int, int] = (120, 36), **more: Any
) -> AsyncIterator[tuple[FirstApp, Any]]:
    """The app of the first start."""
    backend.hosts = ()
    app = FirstApp(backend, start, **more)
    async with app.run_test(size=size, notifications=True) as pilot:
        await settle(pilot)
        yield app, pilot


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_hosts_are_picked_and_written(backend: FakeBackend, size: tuple[int, int]) -> None:
    """What was tried is said; without a pick enter writes nothing."""
    start = FakeFirst()
    async with first(backend, start, size) as (app, pilot):
        shot(app, f"first-{size[0]}")
        text = screen_text(app)
        for words in (
            "gw1",
            "~/.ssh/config",
            "answers in 3 ms",
            "refuses connections",
            "nobody logs in",
            "d opens the demo",
        ):
            assert words in text
        await pilot.press("enter")
        await settle(pilot)
        assert start.written == []
        assert app.outcome is None
        await pilot.press("space", "down", "space", "enter")
        await settle(pilot)
        assert start.written == [["gw1", "n2"]]
        assert app.outcome == "hosts"


async def test_where_nothing_is_found_hosts_are_added_by_name(backend: FakeBackend) -> None:
    """`a` opens the row for it; what is wrong there stays to be corrected."""
    start = FakeFirst(hosts=())
    async with first(backend, start) as (app, pilot):
        assert "a adds hosts by name" in screen_text(app)
        await pilot.press("a", *"n[1-2", "enter")
        await settle(pilot)
        assert start.found.hosts == ()
        await pilot.press("right_square_bracket", "enter")
        await settle(pilot)
        assert app.screen.picked == {"n1", "n2"}
        assert "These hosts were added by name." in screen_text(app)
        assert start.asked[-1] == ["n1", "n2"]
        await pilot.press("space", "a", *"n3", "enter")
        await settle(pilot)
        assert app.screen.picked == {"n2", "n3"}  # n1 was unpicked, and stays so
        await pilot.press("enter")
        await settle(pilot)
        assert sorted(start.written[0]) == ["n2", "n3"]


async def test_the_footer_has_what_works(backend: FakeBackend) -> None:
    """Without a host only what adds some; enter, once one is picked. The other views say what is to be done first."""
    async with first(backend, FakeFirst(hosts=()), (80, 24)) as (app, pilot):
        assert _keys(app) == "a add by name   d demo   ? help"
        await pilot.press("2")
        await settle(pilot)
        assert "first add hosts by name with a" in _told(app)
        await pilot.press("a", *"n1", "enter")
        await settle(pilot)
        assert _keys(app).startswith("enter write hosts.yaml   space pick   A pick all   a add by name")
    async with first(backend, FakeFirst()) as (app, pilot):
        assert _keys(app) == "space pick   A pick all   a add by name   d demo   / filter   ? help"
        await pilot.press("3", "space")
        await settle(pilot)
        assert "first pick hosts" in _told(app)
        assert _keys(app).startswith("enter write hosts.yaml")


def _told(app: Any) -> str:
    """What stands in the corner."""
    return " ".join(notice.message for notice in app._notifications)


def _keys(app: Any) -> str:
    """The last row."""
    return screen_text(app).rstrip("\n").splitlines()[-1].strip()


async def test_what_was_looked_for_is_said_in_full_on_a_narrow_window(backend: FakeBackend) -> None:
    """On as many rows as it needs, above the keys."""
    async with first(backend, FakeFirst(hosts=()), (80, 24)) as (app, pilot):
        wanted = "There is no hosts.yaml yet, and no host in ~/.ssh/config, an Ansible inventory or a hostfile here."
        assert f"{wanted} a adds hosts by name" in " ".join(screen_text(app).split())
        await pilot.resize_terminal(120, 36)
        await settle(pilot)
        assert f" {wanted}\n a adds hosts by name" in screen_text(app)


async def test_why_a_host_was_left_out_is_said_in_full_on_a_narrow_window(backend: FakeBackend) -> None:
    """What may stand in a name is at the end of it."""
    start = FakeFirst()
    reason = (
        "~/.ssh/config: left out: 'bad;name' is not a host name: letters, digits, '.', '_' and '-', no '-' in front"
    )
    start.found = replace(start.found, remarks=(reason, reason.replace("bad", "odd")))
    async with first(backend, start, (80, 24)) as (app, pilot):
        assert f"{reason} ~/.ssh/config: left out: 'odd;name'" in " ".join(screen_text(app).split())
        await pilot.resize_terminal(120, 36)
        await settle(pilot)
        assert f" {reason}\n" in screen_text(app).replace("  ", "").replace(" \n", "\n")


async def test_all_that_answer_are_picked_at_once(backend: FakeBackend) -> None:
    """And those behind a jump host, which are not tried; those that do not, not. The same key takes it back."""
    async with first(backend, FakeFirst(("n0", "n1", "n2"))) as (app, pilot):
        await pilot.press("A")
        assert app.screen.picked == {"n0", "n1"}
        await pilot.press("A")
        assert app.screen.picked == frozenset()


async def test_where_none_answers_the_key_for_all_says_so(backend: FakeBackend) -> None:
    """It did nothing, without a word."""
    async with first(backend, FakeFirst(("n2",))) as (app, pilot):
        await pilot.press("A")
        assert app.screen.picked == frozenset()
        assert "none of these answers; space picks" in "\n".join(str(note.message) for note in app._notifications)


async def test_what_is_hardly_a_host_to_run_on_is_picked_by_hand_only(backend: FakeBackend) -> None:
    """github.com and jump hosts answer, and it is said what they are: `A` leaves them out."""
    start = FakeFirst(("n1", "n2"))
    aside = {"gw1": "the way to other hosts", "github.com": "its login is git"}
    more = tuple(FirstHost(ImportedHost(name, aside=why), "~/.ssh/config") for name, why in aside.items())
    start.found = replace(start.found, hosts=(*start.found.hosts, *more))
    async with first(backend, start) as (app, pilot):
        assert "answers in 3 ms, its login is git" in screen_text(app)
        await pilot.press("A")
        assert app.screen.picked == {"n1"}
        await pilot.press("A", "down", "down", "space")
        assert app.screen.picked == {"gw1"}


async def test_a_file_that_can_t_be_written_is_reported(backend: FakeBackend) -> None:
    """The picks stay."""
    start = FakeFirst()
    start.error = UsageError("hosts.yaml can't be written: read-only file system")
    async with first(backend, start) as (app, pilot):
        await pilot.press("space", "enter")
        await settle(pilot)
        assert "can't be written" in "\n".join(str(note.message) for note in app._notifications)
        assert app.outcome is None
        assert app.screen.picked == {"gw1"}


async def test_other_views_need_hosts(backend: FakeBackend) -> None:
    """They say so; q leaves, d is the demo."""
    async with first(backend, FakeFirst()) as (app, pilot):
        for key in ("2", "3", "4", "exclamation_mark"):
            await pilot.press(key)
            await settle(pilot)
            assert app.screen.crumbs == ("Hosts", "first start")
        await pilot.press("d")
        await settle(pilot)
        assert app.outcome == "demo"


async def test_a_new_job_for_the_hosts_comes_next(open_app: Any, backend: FakeBackend) -> None:
    """From which template, then the launch form, on all hosts of the new file."""
    async with open_app(start="new job") as (app, pilot):
        await until(pilot, lambda: isinstance(app.screen, TemplateChoice))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
        assert app.screen.draft.marked == tuple(host.name for host in backend.hosts)
