"""The Hosts screen: rows that fill in, live figures, marks, filters, order, preview, at three sizes."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from fakes import NOW, FakeBackend, facts, sample, screen_text, settle, shot
from training import until

from distui.facts.host import Engine, Gpus, HostDown, Trouble
from distui.monitor.figures import HostNews
from distui.monitor.problem_count import HOSTS, ProblemCount
from distui.monitor.problems import problems
from distui.spec.hosts.inventory import Host
from distui.tui.app import DistuiApp
from distui.tui.dialogs.text import TextScreen
from distui.tui.frame.keys import actions_here
from distui.tui.hosts.screen import HostsScreen
from distui.tui.launch.screen import LaunchScreen


async def say(backend: FakeBackend, pilot: Any, *hosts: str, busy: float = 96.0) -> None:
    """These hosts say one more second, and the screen shows it."""
    await backend.say(*(HostNews(h, "sample", sample=sample(h, time.time(), busy=busy)) for h in hosts))
    await pilot.pause()
    pilot.app.screen._tick()
    await pilot.pause()


def row(app: Any, name: str) -> str:
    """The row of a host, as text."""
    rows = screen_text(app).splitlines()[1:]
    return next(line for line in rows if line[:18].find(f" {name}") >= 0)


def names(app: Any) -> list[str]:
    """The hosts shown, in order."""
    return [r.key for r in app.screen.table.rows]


async def test_rows_fill_in_as_hosts_answer(open_app: Any) -> None:
    """Every host has a row: figures, no GPU, or the reason in words."""
    async with open_app() as (app, _):
        text = screen_text(app)
        shot(app, "hosts")
        assert app.board["node01"].status == "up"
        assert "8 × H100 80" in row(app, "node01")
        assert "7 of 8 !" in row(app, "node03")
        assert "publickey refused" in row(app, "node05")
        assert "never seen" in row(app, "node05")
        assert "no GPU" in row(app, "gw1")
        assert "5 up   1 down" in text


async def test_hosts_that_are_gone_come_first(open_app: Any, backend: FakeBackend) -> None:
    """Without being asked; the others stay as in the file, and `:sort file` has all of them so."""
    async with open_app() as (app, pilot):
        assert names(app) == ["node05", "node01", "node02", "node03", "node04", "gw1"]
        assert app.screen.host.name == "node01"  # the cursor stays on its host
        await backend.say(HostNews("node03", "lost", "no answer for 15 s"))
        await settle(pilot)
        assert names(app)[:3] == ["node03", "node05", "node01"]
        app.screen.command_sort("file")
        assert names(app) == ["node01", "node02", "node03", "node04", "node05", "gw1"]


@pytest.mark.parametrize("count", [6, 40])
async def test_the_key_to_the_problems_says_how_many_there_are(open_app: Any, backend: FakeBackend, count: int) -> None:
    """Of hosts and runs, as the list has them, also where not all hosts are looked at in one second."""
    async with open_app((120, 40)) as (app, pilot):
        hosts = tuple(app.board.hosts.values())
        backend.rows = []
        app.rows = ()
        found = ProblemCount()
        for _ in range(1 + count // HOSTS):
            found.look(hosts * (count // 6), {}, (), time.time(), ())
        app.screen._tick()
        await settle(pilot)
        want = problems(hosts, {}, app.rows, time.time(), app.looked_at)
        assert found.all == len(want) > 1 and found.wrong == sum(one.level == "wrong" for one in want)
        assert f"! {len(want)} problems" in screen_text(app)


UNKNOWN_KEY = (
    "is not in known_hosts; it shows the ssh-ed25519 key SHA256:nVIYFxDpjA441wL5qh2rMkqZpT0vXbQ9sYdEwCfGuHk",
    "compare the fingerprint with the host's administrator, then log in once: `ssh -p 2222 10.77.0.11`",
)


@pytest.mark.parametrize("shown", ["its page", "its facts", "described"])
async def test_why_a_host_is_down_is_whole_wherever_it_is_reported(
    open_app: Any, backend: FakeBackend, shown: str
) -> None:
    """At 80 columns: on its page, where its facts are, and in what `d` opens."""
    reason, hint = UNKNOWN_KEY
    backend.answers["node01"] = HostDown("node01", Trouble("host_key", f"node01 {reason}", hint))
    async with open_app((80, 24)) as (app, pilot):
        if shown == "described":
            app.screen.table.go("node01")
            await pilot.press("d")
        else:
            app.open_host("node01")
            await settle(pilot)
            if shown == "its facts":
                app.screen.action_show_tab("facts")
        await settle(pilot)
        text = " ".join(screen_text(app).split())
        shot(app, f"why-down-{shown.replace(' ', '-')}-80")
        assert reason in text and hint in text


NO_DOCKER = Trouble("engine_missing", "docker is not installed", "install it, or set `docker: podman`")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_host_without_docker_is_remarked_and_not_free(
    open_app: Any, backend: FakeBackend, size: tuple[int, int]
) -> None:
    """In its row, the headline and on its page, with words; its group is remarked, too."""
    backend.answers["node03"] = facts("node03", 3, engine=Engine("docker", problem=NO_DOCKER))
    backend.groups = {"h100": ("node03", "node04")}
    async with open_app(size) as (app, pilot):
        text = screen_text(app)
        shot(app, f"no-docker-{size[0]}")
        assert row(app, "node03").split()[0] == "!"
        assert "no docker" in row(app, "node03")
        assert "free" not in row(app, "node03")
        assert "5 up   1 down   1 no engine" in text
        app.open_host("node03")
        await settle(pilot)
        text = screen_text(app)
        shot(app, f"no-docker-host-{size[0]}")
        assert "node03  ! no docker" in text
        assert " Log" in text
        assert "docker is not installed" in text
        await pilot.press("escape")
        app.screen.command_fold("h100")
        await settle(pilot)
        group = next(line for line in screen_text(app).splitlines() if "@h100" in line)
        assert group.split()[0] == "!"
        assert "free" not in group


async def test_a_host_whose_tasks_are_processes_needs_no_docker(open_app: Any, backend: FakeBackend) -> None:
    """Nothing is said of an engine that is never asked for."""
    backend.answers["node03"] = facts("node03", 3, engine=Engine("docker", problem=NO_DOCKER))
    backend.hosts = tuple(Host(h.name, engine="process", engine_command=()) for h in backend.hosts)
    async with open_app() as (app, _):
        assert "free" in row(app, "node03")
        assert row(app, "node03").split()[0] == "●"
        assert "no engine" not in screen_text(app)


@pytest.mark.parametrize("probed", ["not yet", "none found", "driver silent"])
async def test_gpus_that_only_samples_name_are_gpus(open_app: Any, backend: FakeBackend, probed: str) -> None:
    """Never `no GPU` beside their load: figures may come before the probe, or name GPUs that the probe did not find."""
    problem = Trouble("driver", "nvidia-smi does not answer")
    if probed != "not yet":
        found = Gpus(problem=problem) if probed == "driver silent" else Gpus()
        backend.answers["node04"] = facts("node04", 4, gpu=found)
    else:
        del backend.answers["node04"]

        async def others(given: Any, on_result: Any) -> None:
            for name, result in backend.answers.items():
                on_result(name, result)

        backend.probe = others  # type: ignore[method-assign]
    async with open_app((120, 40)) as (app, pilot):
        await say(backend, pilot, "node04")
        assert "no GPU" not in row(app, "node04")
        assert "8 × GPU" in row(app, "node04")
        assert "96%" in row(app, "node04")
        assert "no GPU" in row(app, "gw1")


async def test_before_it_answers_a_host_is_asked(open_app: Any, backend: FakeBackend) -> None:
    """No blank rows, no zeros."""
    backend.answers.clear()
    backend.answers["node01"] = HostDown("node01", Trouble("timeout", "no answer in 10 s"))

    async def first_only(given: Any, on_result: Any) -> None:
        on_result("node01", backend.answers["node01"])

    backend.probe = first_only  # type: ignore[method-assign]
    async with open_app() as (app, _):
        assert app.board["node02"].status == "unknown"
        assert "asking" in row(app, "node02")
        assert "no answer in 10 s" in row(app, "node01")


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_live_figures_at_three_sizes(open_app: Any, backend: FakeBackend, size: tuple[int, int]) -> None:
    """Utilisation, memory, heat and traffic; nothing is wider than the window."""
    async with open_app(size) as (app, pilot):
        await say(backend, pilot, "node01", "node02")
        text = screen_text(app)
        shot(app, f"hosts-{size[0]}")
        assert app.board["node01"].average() == 96.0
        assert {"96%", "77°C", "21G"} <= set(row(app, "node01").split())
        assert "▇▇▇▇▇▇▇▇" in row(app, "node01").replace(" ", "")
        assert max(len(line) for line in text.splitlines()) <= size[0]
        assert ("10.0.0.1" in text) == (size[0] == 200)


async def test_a_lost_host_keeps_its_row(open_app: Any, backend: FakeBackend) -> None:
    """With why, and since when it is silent; it counts as down."""
    async with open_app() as (app, pilot):
        await say(backend, pilot, "node01")
        await backend.say(HostNews("node01", "lost", "no answer for 15 s"))
        await settle(pilot)
        app.screen._tick()
        await pilot.pause()
        assert app.board["node01"].status == "lost"
        assert "no answer for 15 s" in row(app, "node01")
        assert re.search(r"seen \ds ago", row(app, "node01"))
        assert "2 down" in screen_text(app)


async def test_the_run_that_uses_a_host_is_named(open_app: Any, backend: FakeBackend, live: Any) -> None:
    """With the ranks it has there; its GPUs are busy."""
    async with open_app() as (app, pilot):
        await settle(pilot)
        app.screen._tick()
        await pilot.pause()
        assert [use.run for use in app.board["node02"].uses][:1] == ["llm-7f3"]
        assert "llm-7f3 r8-15" in row(app, "node02")
        assert "free" in row(app, "node03")


async def test_a_host_whose_gpus_all_are_silent_is_not_free(open_app: Any, backend: FakeBackend) -> None:
    """Its driver hangs."""
    async with open_app() as (app, pilot):
        await settle(pilot)
        for second in range(40):
            app.board.sampled(sample("node03", NOW + second, busy=0.0, count=8 if second < 3 else 0))
        app.screen._tick()
        await pilot.pause()
        words = row(app, "node03")
        assert "silent" in words and "free" not in words


async def test_strangers_on_gpus_are_remarked(open_app: Any, backend: FakeBackend) -> None:
    """Processes that are of no run of distui."""
    async with open_app() as (app, _):
        assert "python !" in row(app, "node01")
        assert "of no run" in screen_text(app)


async def test_the_preview_follows_the_cursor(open_app: Any, backend: FakeBackend) -> None:
    """GPUs, links and remarks of the row; a dead host's reason and what to do."""
    async with open_app((120, 40)) as (app, pilot):
        await say(backend, pilot, "node02")
        await pilot.press("j")
        await pilot.pause()
        text = screen_text(app)
        assert app.screen.host.name == "node02"
        assert "driver 550.90" in text
        assert "ib[0-7]" in text
        await pilot.press("g")
        await pilot.pause()
        assert "try ssh -v node05" in screen_text(app)


async def test_marks_and_what_they_are_for(open_app: Any) -> None:
    """space marks, V marks a range, U forgets; R opens the launch screen on them."""
    async with open_app() as (app, pilot):
        screen = app.screen
        await pilot.press("j", "space", "j", "V")
        assert screen.table.targets == ("node02", "node03", "node04")
        assert "3 marked" in screen_text(app)
        await pilot.press("U")
        assert screen.table.targets == ("node04",)
        await pilot.press("space", "R")
        await pilot.pause()
        assert isinstance(app.screen, LaunchScreen)
        assert app.screen.draft.marked == ("node04",)


async def test_nothing_is_to_run_on_hosts_that_are_down(open_app: Any) -> None:
    """The key row offers it where a host of those that are meant is there."""
    async with open_app((120, 40)) as (app, pilot):
        await settle(pilot)
        app.screen.table.go("node05")
        await pilot.pause()
        assert app.screen.host.status == "down"
        assert "run here" not in screen_text(app)
        await pilot.press("space")
        app.screen.table.go("node01")
        await pilot.press("space")
        await pilot.pause()
        assert app.screen.table.targets == ("node05", "node01")
        assert "run here" in screen_text(app)


async def test_the_filter_is_kept_and_undone_with_esc(open_app: Any) -> None:
    """Typing filters; the crumbs say so; esc undoes the filter, then the marks, and never quits."""
    async with open_app() as (app, pilot):
        await pilot.press("space", "slash", *"!node", "enter")
        await pilot.pause()
        assert names(app) == ["gw1"]
        assert "/!node" in screen_text(app)
        await pilot.press("escape")
        assert len(names(app)) == 6
        assert app.screen.table.marks == {"node01"}
        await pilot.press("escape")
        assert app.screen.table.marks == frozenset()
        await pilot.press("escape")
        assert isinstance(app.screen, HostsScreen)


async def test_marks_that_a_filter_hides_are_told(open_app: Any) -> None:
    """No action is for them: it is for the other marks, or, where all are hidden, for the row under the cursor."""
    async with open_app() as (app, pilot):
        await pilot.press("space", "space")
        assert "2 marked" in screen_text(app) and "hidden" not in screen_text(app)
        await pilot.press("slash", *"!node01", "enter")
        await pilot.pause()
        assert app.screen.table.targets == ("node02",)
        assert "2 marked, 1 hidden" in screen_text(app)
        await pilot.press("slash", "ctrl+u", *"!node", "enter")
        await pilot.pause()
        assert app.screen.table.targets == ("gw1",)
        assert "2 marked, 2 hidden" in screen_text(app)
        await pilot.press("escape")
        assert "hidden" not in screen_text(app)


async def test_a_filter_without_matches_says_so(open_app: Any) -> None:
    """And how to get out of it."""
    async with open_app() as (app, pilot):
        await pilot.press("slash", *"zzz", "enter")
        await pilot.pause()
        assert "no host matches" in screen_text(app)


async def test_order(open_app: Any, backend: FakeBackend) -> None:
    """o goes through the orders, O reverses, `:sort` names one; the cursor stays on its host."""
    async with open_app() as (app, pilot):
        await say(backend, pilot, "node04", busy=100.0)
        await pilot.press("j")
        app.screen.command_sort("util")
        await pilot.pause()
        assert names(app)[0] == "node04"
        assert app.screen.table.key == "node02"
        await pilot.press("O")
        assert names(app)[0] == "node03"
        assert "by util, reversed" in screen_text(app)


async def test_probe_again(open_app: Any, backend: FakeBackend) -> None:
    """p asks the marked hosts, and only those."""
    async with open_app() as (_, pilot):
        await pilot.press("space", "space", "p")
        await pilot.pause()
        assert backend.calls[-1] == ("probe", "node01", "node02")


async def test_describe(open_app: Any) -> None:
    """d tells everything about a host in words."""
    async with open_app() as (app, pilot):
        await pilot.press("g", "d")
        await pilot.pause()
        assert isinstance(app.screen, TextScreen)
        assert "node05 is down: publickey refused" in screen_text(app)
        assert "try: ssh -v node05" in screen_text(app)


async def test_raw_json(open_app: Any) -> None:
    """y shows what the probe found, or why it failed."""
    async with open_app() as (app, pilot):
        await pilot.press("g", "y")
        await pilot.pause()
        assert '"code": "auth"' in screen_text(app)


def runs(ran: list[Any], status: int = 0) -> Any:
    """Instead of a program with the terminal: what would have run."""

    async def outside(app: Any, argv: tuple[str, ...]) -> int:
        ran.append(argv)
        return status

    return outside


async def test_the_inventory_in_an_editor(open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """e opens the file, where there is one."""
    ran: list[Any] = []
    monkeypatch.setattr("distui.tui.terminal.shell.outside", runs(ran))
    monkeypatch.setenv("VISUAL", "vim")
    async with open_app() as (_, pilot):
        await pilot.press("e")
        assert ran == []
        backend.title = __file__
        await pilot.press("e")
        await pilot.pause()
        assert ran == [("vim", __file__)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version: 1\nhosts: {node01: {}}\n", "distui reads hosts.yaml when it starts"),
        ("version: 1\nhosts: {node01: {prot: 22}}\n", "unknown key, did you mean 'port'?"),
        ("version: 1\nhosts: [[[ {\x00", "until that is mended distui does not start with it"),
    ],
)
async def test_what_was_written_into_the_inventory_is_checked(
    open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, said: str
) -> None:
    """Whoever makes a mistake there hears of it now, not at the next start."""
    monkeypatch.setattr("distui.tui.terminal.shell.outside", runs([]))
    path = tmp_path / "hosts.yaml"
    path.write_text(text)
    backend.title = str(path)
    async with open_app() as (app, pilot):
        await pilot.press("e")
        await until(pilot, lambda: any(said in str(n.message) for n in app._notifications))


async def test_enter_opens_the_host(open_app: Any) -> None:
    """And esc comes back to the same row."""
    async with open_app() as (app, pilot):
        await pilot.press("j", "enter")
        await pilot.pause()
        assert app.screen.host_name == "node02"
        await pilot.press("escape")
        await pilot.pause()
        assert isinstance(app.screen, HostsScreen)
        assert app.screen.table.key == "node02"


async def test_the_shell_gets_the_terminal(open_app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """s runs ssh with the app out of the way."""
    ran: list[Any] = []
    monkeypatch.setattr("distui.tui.terminal.shell.outside", runs(ran))
    async with open_app() as (_, pilot):
        await pilot.press("s")
        await pilot.pause()
        assert ran == [("ssh", "node01")]


async def test_a_browser_has_no_terminal_to_lend(open_app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys for that are not shown in a page of `distui serve`; pressed all the same they say where to do it."""
    monkeypatch.setattr(DistuiApp, "is_web", True)
    async with open_app() as (app, pilot):
        assert not {"shell", "edit_hosts"} & {action.id for action in actions_here(app.screen)}
        await pilot.press("s")
        await settle(pilot)
        assert any("no terminal for ssh" in note.message for note in app._notifications)


async def test_a_shell_that_can_not_connect_says_so(open_app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ssh said is gone with its screen: the words stay, and the command to try."""
    monkeypatch.setattr("distui.tui.terminal.shell.outside", runs([], 255))
    async with open_app() as (app, pilot):
        await pilot.press("s")
        await settle(pilot)
        assert "could not connect" in screen_text(app)
        assert "try: ssh node01" in screen_text(app)


@pytest.mark.parametrize("size", [(120, 36), (200, 50), (80, 24), (20, 5)])
async def test_many_hosts(open_app: Any, backend: FakeBackend, size: tuple[int, int]) -> None:
    """64 hosts fill the list, in a wide window in two columns over the preview; tiny windows do not break."""
    from distui.spec.hosts.inventory import Host

    many = [f"h{i:03d}" for i in range(64)]
    backend.hosts = tuple(Host(name) for name in many)
    backend.answers = {name: facts(name, i + 1) for i, name in enumerate(many)}
    async with open_app(size) as (app, pilot):
        await pilot.press("G")
        await pilot.pause()
        preview = app.screen.query_one("#preview")
        assert app.screen.table.key == "h063"
        assert preview.display == (size[0] == 200)
        text = screen_text(app)
        shot(app, f"hosts-64-{size[0]}")
        assert size[0] < 80 or "h063" in text
        if size[0] == 200:
            assert all(name in text for name in many)
            pair = next(line for line in text.splitlines() if " h005 " in line)
            assert pair.count("8 × 400") == 2
            assert "h037" in pair
            await pilot.press("left")
            assert app.screen.table.key == "h031"
            await pilot.press("right", "k", "h")
            assert app.screen.table.key == "h030"
            await pilot.click(app.screen.table, offset=(150, 3))
            assert app.screen.table.key == "h035"


async def test_more_hosts_than_two_columns_have_rows_scroll(open_app: Any, backend: FakeBackend) -> None:
    """Both columns together; the cursor is always seen, and goes through all of them in their order."""
    many = [f"h{i:03d}" for i in range(200)]
    backend.hosts = tuple(Host(name) for name in many)
    backend.answers = {name: facts(name, i % 250 + 1) for i, name in enumerate(many)}
    async with open_app((200, 50)) as (app, pilot):
        seen = []
        for keys in (["g"], ["ctrl+d"], ["l"], ["G"], ["ctrl+u"], ["h"], ["g"]):
            await pilot.press(*keys)
            await pilot.pause()
            seen.append(app.screen.table.key)
            assert f" {app.screen.table.key} " in screen_text(app)
        half = app.screen.table.size.height // 2
        assert seen == ["h000", many[half], many[100 + half], "h199", many[199 - half], many[99 - half], "h000"]


async def test_ascii(open_app: Any, backend: FakeBackend) -> None:
    """With --ascii nothing else is drawn."""
    async with open_app((120, 40), ascii=True) as (app, pilot):
        await say(backend, pilot, "node01")
        text = screen_text(app)
        shot(app, "hosts-ascii")
        assert {c for c in text if not c.isascii()} == set()


@pytest.mark.parametrize("theme", ["light", "ansi"])
async def test_themes(open_app: Any, backend: FakeBackend, theme: str) -> None:
    """The same words in every theme."""
    async with open_app((120, 36), theme=theme) as (app, pilot):
        await say(backend, pilot, "node01")
        shot(app, f"hosts-{theme}")
        assert "96%" in row(app, "node01")
