"""Problems: what is not well anywhere, the worst first, and the way there."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import pytest
from fakes import FakeBackend, FakeLive, failing, launching, sample, screen_text, settle, shot
from standing import stands

from distui.facts.host import Engine, HostDown, Trouble
from distui.monitor.figures import HostNews
from distui.runs.state.standstill import Standstill
from distui.tui.hosts.detail import HostDetailScreen
from distui.tui.problems.screen import ProblemsScreen
from distui.tui.run.screen import RunScreen

NO_DOCKER = Trouble("engine_missing", "docker is not installed", "install it, or set `docker: podman`")


def without_docker(backend: FakeBackend, *hosts: str) -> None:
    """These hosts have no engine."""
    for name in hosts:
        engine = Engine("docker", ("docker",), problem=NO_DOCKER)
        backend.answers[name] = dataclasses.replace(backend.answers[name], engine=engine)  # type: ignore[type-var]


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_all_that_is_wrong_is_listed_and_enter_goes_there(
    open_app: Any, backend: FakeBackend, size: tuple[int, int]
) -> None:
    """`!` from any view; the host that is down comes first; esc comes back to the list."""
    without_docker(backend, "node04")
    async with open_app(size, start="runs") as (app, pilot):
        await pilot.press("exclamation_mark")
        await settle(pilot)
        shot(app, f"problems-{size[0]}")
        assert isinstance(app.screen, ProblemsScreen)
        assert [one.name for one in app.screen.found][:2] == ["node05", "node04"]
        text = screen_text(app)
        for words in ("publickey refused", "docker is not installed", "mlx5_3 is DOWN", "ssh -v node05"):
            assert words in text
        await pilot.press("j", "enter")
        await settle(pilot)
        assert isinstance(app.screen, HostDetailScreen)
        assert app.screen.crumbs[-1] == "node04"


async def test_a_run_that_hangs_is_listed_and_opened(open_app: Any, backend: FakeBackend, live: FakeLive) -> None:
    """What its ranks told stands beside what is remarked of hosts."""
    await live.feed(*launching(live.plan, 1.0))
    async with open_app() as (app, pilot):
        await stands(live, 100.0)
        app.screen.open_command("problems")
        await pilot.pause()
        await pilot.press("enter")
        await settle(pilot)
        run = next(one for one in app.screen.found if one.kind == "run")
        assert run.level == "wrong"
        app.screen.rows.go(next(key for key, one in app.screen.by_key.items() if one.first == run))
        await pilot.press("enter")
        await settle(pilot)
        assert isinstance(app.screen, RunScreen)


async def test_a_run_that_failed_in_the_night_is_listed_until_it_was_opened(
    open_app: Any, backend: FakeBackend
) -> None:
    """From any view; enter shows why, and back in the list it is no problem any more."""
    made = backend.plan("llm-7f2")
    backend.record(made, [*launching(made, time.time() - 9000), *failing(made, time.time() - 8000)])
    backend.rows = [
        dataclasses.replace(row, started=time.time() - 9000) if row.run == "llm-7f2" else row for row in backend.rows
    ]
    async with open_app(start="jobs") as (app, pilot):
        await pilot.press("exclamation_mark")
        await settle(pilot)
        failed = next(one for one in app.screen.found if one.name == "llm-7f2")
        assert failed.level == "watch" and "failed 2h ago: r13 node02" in failed.text
        app.screen.rows.go(next(key for key, one in app.screen.by_key.items() if one.first == failed))
        await pilot.press("enter")
        await settle(pilot)
        assert isinstance(app.screen, RunScreen)
        app.screen._tick()
        await pilot.press("exclamation_mark")
        await settle(pilot)
        assert "llm-7f2" not in [one.name for one in app.screen.found]


async def test_runs_are_asked_for_while_problems_are_shown(
    open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once and again, also over Jobs and Doctor, which do not need them; not once it is closed there."""
    monkeypatch.setattr("distui.tui.app.RUNS_EVERY", 3600.0)  # the app's own timer does not ask in between
    async with open_app(start="jobs") as (app, pilot):
        await settle(pilot)
        before = backend.calls.count(("runs",))
        app._ask_runs_again()
        await settle(pilot)
        assert backend.calls.count(("runs",)) == before
        await pilot.press("exclamation_mark")
        await settle(pilot)
        assert backend.calls.count(("runs",)) == before + 1
        hangs = dataclasses.replace(backend.rows[1], stalled=Standstill(time.time() - 400, 22))
        backend.rows = [backend.rows[0], hangs, *backend.rows[2:]]
        app._ask_runs_again()
        await settle(pilot)
        app.screen._look()
        assert "stands still" in next(one.text for one in app.screen.found if one.name == hangs.run)
        await pilot.press("escape")
        await settle(pilot)
        asked = backend.calls.count(("runs",))
        app._ask_runs_again()
        await settle(pilot)
        assert backend.calls.count(("runs",)) == asked


async def test_the_same_problem_of_several_hosts_is_one_row(open_app: Any, backend: FakeBackend) -> None:
    """Enter opens it into one row a host, z folds it again."""
    without_docker(backend, "node01", "node02", "node03")
    async with open_app() as (app, pilot):
        await pilot.press("exclamation_mark")
        await settle(pilot)
        before = len(app.screen.rows.rows)
        key = next(key for key, one in app.screen.by_key.items() if one.name == "node[01-03]")
        app.screen.rows.go(key)
        await pilot.press("enter")
        await settle(pilot)
        assert len(app.screen.rows.rows) == before + 2
        await pilot.press("z")
        await settle(pilot)
        assert len(app.screen.rows.rows) == before


async def test_what_is_well_again_goes_by_itself(open_app: Any, backend: FakeBackend) -> None:
    """The list is of now; a second `!` comes back to it instead of opening another."""
    async with open_app() as (app, pilot):
        await pilot.press("exclamation_mark")
        await settle(pilot)
        await pilot.press("enter")
        await settle(pilot)
        await pilot.press("exclamation_mark")
        await settle(pilot)
        assert isinstance(app.screen, ProblemsScreen)
        assert sum(isinstance(screen, ProblemsScreen) for screen in app.screen_stack) == 1
        backend.answers = {name: found for name, found in backend.answers.items() if not isinstance(found, HostDown)}
        backend.answers |= {"node05": backend.answers["node04"]}
        await pilot.press("p")
        await settle(pilot)
        assert "node05" not in [one.name for one in app.screen.found]


async def test_ascii(open_app: Any, backend: FakeBackend) -> None:
    """With --ascii nothing else is drawn, in what to do as in what was seen."""
    async with open_app((120, 36), ascii=True) as (app, pilot):
        await pilot.press("exclamation_mark")
        await settle(pilot)
        assert isinstance(app.screen, ProblemsScreen)
        for second in (0, 90):
            seen = sample("node02", time.time() - 90 + second, count=1)
            hot = dataclasses.replace(seen.gpus[0], temperature_c=84.0, slowdown_c=87.0)
            await backend.say(HostNews("node02", "sample", sample=dataclasses.replace(seen, gpus=(hot,))))
        app.screen._look()
        await settle(pilot)
        text = screen_text(app)
        assert "GPU 0 at 84 C" in text
        assert "slowdown starts at 87 C" in text
        assert text.isascii()
