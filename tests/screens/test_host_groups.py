"""Folded groups on the Hosts screen: one row, one tank per host, marks and actions on all, trouble on the row."""

from __future__ import annotations

import time
from typing import Any

import pytest
from fakes import FakeBackend, sample, screen_text, settle, shot

from distui.monitor.figures import HostNews
from distui.tui.dialogs.text import TextScreen
from distui.tui.launch.screen import LaunchScreen

GROUPS = {
    "all": ("node01", "node02", "node03", "node04", "node05", "gw1"),
    "h100": ("node01", "node02", "node03", "node04", "node05"),
    "pair": ("node03", "node04"),
}


@pytest.fixture(autouse=True)
def groups(backend: FakeBackend) -> None:
    """Hosts in several groups, one of a group that is down."""
    backend.groups = dict(GROUPS)


def keys(app: Any) -> list[str]:
    """The rows, in order."""
    return [row.key for row in app.screen.table.rows]


def line(app: Any, key: str) -> str:
    """The row of a host or a group, as text."""
    return next(text for text in screen_text(app).splitlines() if f" {key} " in text)


async def test_a_group_folds_to_one_row_where_its_first_host_stands(open_app: Any) -> None:
    """A host of several groups folds into the smallest; the cursor stays on what it was on; enter opens it again."""
    async with open_app() as (app, pilot):
        await pilot.press("j", "j", "j", "z")
        assert keys(app) == ["node05", "node01", "node02", "@pair", "gw1"]
        assert app.screen.table.key == "@pair"
        await pilot.press("k", "z")
        assert keys(app) == ["@h100", "@pair", "gw1"]
        assert app.screen.table.key == "@h100"
        await pilot.press("enter")
        assert keys(app) == ["node05", "node01", "node02", "@pair", "gw1"]
        await pilot.press("Z")
        assert keys(app) == ["node05", "node01", "node02", "node03", "node04", "gw1"]
        await pilot.press("Z")
        assert keys(app) == ["@h100", "@pair", "@all"]
        app.screen.command_fold("@pair")
        assert keys(app) == ["@h100", "@all"]


async def test_a_group_of_which_nothing_is_known_is_not_said_to_have_no_gpu(
    open_app: Any, backend: FakeBackend
) -> None:
    """All of its hosts are down; one that answers and has none is."""
    backend.groups = {"gone": ("node05",), "plain": ("gw1", "node05")}
    async with open_app() as (app, _):
        app.screen.command_fold("@gone")
        assert "no GPU" not in line(app, "@gone")
        app.screen.command_fold("@plain")
        assert "no GPU" in line(app, "@plain")


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)])
async def test_its_row_has_one_tank_per_host_and_its_trouble(
    open_app: Any, backend: FakeBackend, size: tuple[int, int]
) -> None:
    """Sums and the highest heat of those that answer; who is down, how many have remarks, which runs are there."""
    backend.follow(backend.plan())
    async with open_app(size) as (app, pilot):
        names = ("node01", "node02", "node03", "node04")
        await backend.say(*(HostNews(n, "sample", sample=sample(n, time.time())) for n in names))
        app.take_uses()
        app.screen.command_fold("h100")
        await settle(pilot)
        app.screen._tick()
        await pilot.pause()
        text = screen_text(app)
        shot(app, f"hosts-group-{size[0]}")
        row = line(app, "@h100")
        assert row.replace(" ", "").count("▇") >= 4
        assert "96%" in row
        assert "1 down" in row
        assert ("31 of 32 !" if size[0] == 200 else "1 off !") in row
        assert size[0] < 200 or "1 down 1 ! llm-7f3" in row
        assert max(len(shown) for shown in text.splitlines()) <= size[0]
        assert "5 up   1 down" in text


async def test_the_preview_says_what_is_not_well_in_it(open_app: Any) -> None:
    """And shows its hosts, those with trouble first."""
    async with open_app((120, 40)) as (app, pilot):
        app.screen.command_fold("h100")
        await pilot.pause()
        text = screen_text(app)
        assert "node05  publickey refused" in text
        assert "mlx5_3 is DOWN" in text
        assert "4 of 5 up" in text
        assert text.index("node03  mlx5_3") < text.index("● node04")


async def test_marks_and_actions_are_of_all_its_hosts(open_app: Any, backend: FakeBackend) -> None:
    """Folding keeps marks; a row that is marked in part says so and counts only what is marked."""
    async with open_app() as (app, pilot):
        screen = app.screen
        await pilot.press("j", "j", "space", "z")
        assert screen.table.targets == ("node03",)
        assert "1 marked" in screen_text(app)
        assert "·" in line(app, "@pair")[:3]
        screen.table.go("@pair")
        await pilot.press("space")
        assert screen.table.marks == {"node03", "node04"}
        screen.table.go("@pair")
        await pilot.press("space")
        assert screen.table.marks == frozenset()
        screen.table.go("@pair")
        backend.calls.clear()
        await pilot.press("p")
        await settle(pilot)
        assert ("probe", "node03", "node04") in backend.calls
        await pilot.press("d")
        await pilot.pause()
        assert isinstance(app.screen, TextScreen)
        assert "node03 is up" in screen_text(app)
        await pilot.press("escape")
        await pilot.press("s")
        await pilot.pause()
        assert "a shell is opened on one host" in screen_text(app)
        await pilot.press("R")
        await pilot.pause()
        assert isinstance(app.screen, LaunchScreen)
        assert app.screen.draft.marked == ("node03", "node04")


async def test_a_filter_leaves_out_hosts_of_a_folded_group(open_app: Any) -> None:
    """What does not match is neither counted nor touched; `@group` and `group=` are filters, too."""
    async with open_app() as (app, pilot):
        app.screen.command_fold("h100")
        await pilot.press("slash", *"!state=down", "enter")
        await pilot.pause()
        assert app.screen.table.targets == ("node01", "node02", "node03", "node04")
        assert "down" not in line(app, "@h100")
        for text in ("@pair", "group=pair"):
            await pilot.press("slash", "ctrl+u", *text, "enter")
            await pilot.pause()
            assert app.screen.table.targets == ("node03", "node04")


async def test_without_groups_there_is_nothing_to_fold(open_app: Any, backend: FakeBackend) -> None:
    """It says so, and how to get some."""
    backend.groups = {}
    async with open_app() as (app, pilot):
        await pilot.press("z")
        await pilot.pause()
        assert "hosts.yaml has no groups" in screen_text(app)


async def test_64_hosts_in_one_row(open_app: Any, backend: FakeBackend) -> None:
    """More hosts than cells share one; a single dead host is still seen."""
    from fakes import facts

    from distui.facts.host import HostDown, Trouble
    from distui.spec.hosts.inventory import Host

    names = [f"h{i:03}" for i in range(64)]
    backend.hosts = tuple(Host(name) for name in names)
    backend.groups = {"rack": tuple(names)}
    backend.answers = {name: facts(name, i + 1) for i, name in enumerate(names)}
    backend.answers["h040"] = HostDown("h040", Trouble("timeout", "no answer in 10 s"))
    async with open_app((120, 36)) as (app, pilot):
        await pilot.press("Z")
        await settle(pilot)
        row = line(app, "@rack")
        shot(app, "hosts-rack")
        assert len(keys(app)) == 1
        assert "64" in row
        assert "×" in row[30:60]
        assert "1 down" in row
        assert len(app.screen.table.targets) == 64
