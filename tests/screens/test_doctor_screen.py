"""Doctor: two findings are all one sees; each says saw, means, do."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeBackend, facts, screen_text, settle, shot
from textual.widgets import Button

from distui.spec.hosts.inventory import Host
from distui.tui.doctor.fixing import FixDialog
from distui.tui.widgets.rows import RowList


def written(folder: Path) -> list[str]:
    """The reports in a folder."""
    return [path.read_text() for path in folder.glob("distui-doctor-*.txt")]


async def test_findings_are_reported_with_what_to_do(open_app: Any, backend: FakeBackend) -> None:
    """n walks the findings, the grave ones with a filled cell; the panel explains the one under the cursor."""
    async with open_app(start="doctor") as (app, pilot):
        shot(app, "doctor")
        text = screen_text(app)
        assert text.count("FAIL") == 2
        assert "mlx5_3 is DOWN" in text
        for _ in range(4):
            await pilot.press("n")
        await settle(pilot)
        assert app.screen.finding.host == "node03"
        text = screen_text(app)
        assert "7 of 8 rails" in text
        assert "hcas: '^mlx5_3'" in text


async def test_images_of_jobs_are_asked_for(open_app: Any) -> None:
    """A missing image is a pull: neither good nor bad."""
    async with open_app(start="doctor") as (app, pilot):
        await settle(pilot)
        assert "1 to pull" in screen_text(app)


async def test_probe_again_and_report(open_app: Any, backend: FakeBackend) -> None:
    """p asks all hosts again; y is every finding as text."""
    async with open_app(start="doctor") as (app, pilot):
        before = sum(c[0] == "probe" for c in backend.calls)
        await pilot.press("p")
        await settle(pilot)
        assert sum(c[0] == "probe" for c in backend.calls) == before + 1
        await pilot.press("y")
        await settle(pilot)
        assert "FAIL  node05  ssh login: publickey refused" in screen_text(app)


async def test_who_reaches_whom(open_app: Any, backend: FakeBackend) -> None:
    """A wall between two hosts is a failure of the one that meets it; enter on the row shows every pair."""
    backend.walls = [("node01", "node04")]
    async with open_app(start="doctor") as (app, pilot):
        await settle(pilot)
        row = app.screen.by_key["reach"]
        assert [f.host for f in row.findings if f.verdict == "fail"] == ["node01"]
        app.screen.query_one(RowList).go("reach")
        await pilot.press("enter")
        await settle(pilot)
        shot(app, "doctor-reach")
        text = screen_text(app)
        assert "who reaches whom" in text
        assert re.search(r"1  node01 +\. +0\.2 +0\.2 +x", text)
        assert "x  node01: can't reach node04" in text


async def test_evidence_of_one_row(open_app: Any) -> None:
    """Every host's answer, equal ones once, and what was run."""
    async with open_app(start="doctor") as (app, pilot):
        await settle(pilot)
        app.screen.query_one(RowList).go("infiniband")
        await pilot.press("enter")
        await settle(pilot)
        text = screen_text(app)
        assert app.screen.crumbs == ("Doctor", "InfiniBand ports ACTIVE")
        assert "FAIL  node03  InfiniBand ports ACTIVE: mlx5_3 is DOWN" in text
        assert "ran   /sys/class/infiniband" in text


async def test_the_report_is_saved_to_a_file(
    open_app: Any, backend: FakeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W writes all findings and who reaches whom, and names the file; the inventory's name stands there as it is."""
    monkeypatch.chdir(tmp_path)
    backend.title = "lab/50%Yes.yaml"
    async with open_app(start="doctor") as (_, pilot):
        await settle(pilot)
        await pilot.press("W")
        await settle(pilot)
    (text,) = written(tmp_path)
    assert text.startswith("lab/50%Yes.yaml, 2")
    assert "FAIL  node05  ssh login" in text
    assert "from row to column" in text


async def test_the_smoke_asks_and_tells_every_pair(open_app: Any, backend: FakeBackend) -> None:
    """N names image and hosts, Cancel has the focus; results are a row, what failed a finding."""
    backend.walls = [("node01", "node02")]
    async with open_app(start="doctor") as (app, pilot):
        await settle(pilot)
        assert "not tried yet: N starts" in app.screen.by_key["smoke"].findings[0].saw
        await pilot.press("N")
        await settle(pilot)
        shot(app, "doctor-smoke-question")
        text = screen_text(app)
        assert "Start 10 containers for an all-reduce?" in text
        assert "nvcr.io/nvidia/pytorch:25.01-py3, as job llm-pretrain" in text
        await pilot.press("enter")
        await settle(pilot)
        assert not [call for call in backend.calls if call[0] == "smoke"]
        await pilot.press("N")
        await settle(pilot)
        await pilot.press("right", "enter")
        await settle(pilot)
        shot(app, "doctor-smoke")
        assert ("smoke", "llm-pretrain") in backend.calls
        found = {f.host: f for f in app.screen.by_key["smoke"].findings}
        assert {host for host, f in found.items() if f.verdict == "fail"} == {"node01", "node02"}
        assert "with node04: 8 MB in 3.0 ms, 2.7 GB/s by gloo over eno1 tcp" in found["node03"].saw


async def fix_of(app: Any, pilot: Any, check: str) -> str:
    """Open the fix of a row; its dialog as text."""
    app.screen.query_one(RowList).go(check)
    await pilot.press("f")
    await settle(pilot)
    assert isinstance(app.screen, FixDialog)
    return screen_text(app)


async def test_a_fix_that_looks_is_run_after_a_question(open_app: Any, backend: FakeBackend) -> None:
    """Its command stands there to be copied; Close has the focus; what it printed is a text to read."""
    async with open_app(start="doctor") as (app, pilot):
        await settle(pilot)
        text = await fix_of(app, pilot, "infiniband")
        shot(app, "doctor-fix")
        assert "mlx5_3/ports/1/state" in text
        assert "on node03" in text
        await pilot.press("enter")
        await settle(pilot)
        assert not [call for call in backend.calls if call[0] == "command"]
        await fix_of(app, pilot, "infiniband")
        await pilot.press("right", "enter")
        await settle(pilot)
        assert app.clipboard.startswith("ssh node03 ")
        await fix_of(app, pilot, "infiniband")
        await pilot.press("right", "right", "enter")
        await settle(pilot)
        (call,) = [call for call in backend.calls if call[0] == "command"]
        assert call[1] == "node03"
        assert "said by node03" in screen_text(app)


async def test_a_missing_image_is_pulled(open_app: Any, backend: FakeBackend) -> None:
    """And the images are asked for again; one who may only look is not offered it."""
    async with open_app(start="doctor") as (app, pilot):
        await settle(pilot)
        check = next(key for key in app.screen.by_key if key.startswith("image:"))
        await fix_of(app, pilot, check)
        backend.image_ids = {}
        await pilot.press("right", "right", "enter")
        await settle(pilot)
        assert ("command", "node02", ("docker", "pull", "nvcr.io/nvidia/pytorch:25.01-py3")) in backend.calls
        assert "pull" not in {found.verdict for found in app.screen.by_key[check].findings}
        backend.image_ids, backend.readonly = {"node02": ""}, True
        await pilot.press("p")
        await settle(pilot)
        await fix_of(app, pilot, check)
        assert [button.id for button in app.screen.query(Button)] == ["cancel", "copy"]


async def test_a_fix_goes_on_while_another_is_looked_at(open_app: Any, backend: FakeBackend) -> None:
    """Pulls on several hosts, one after the other; what has ended meanwhile opens nothing where one is by then."""
    backend.held.clear()
    async with open_app(start="doctor") as (app, pilot):
        await settle(pilot)
        for _ in range(2):
            await fix_of(app, pilot, "infiniband")
            await pilot.press("right", "right", "enter")
            await settle(pilot)
        app.open_host("node01")
        await settle(pilot)
        there = app.screen
        backend.held.set()
        await settle(pilot)
        assert [call[0] for call in backend.calls if call[0] in ("command", "did")] == ["command"] * 2 + ["did"] * 2
        assert app.screen is there
        assert "on node03 has ended: said by node03" in str([notice.message for notice in app._notifications])


async def test_what_a_fix_says_opens_over_no_dialog(open_app: Any, backend: FakeBackend) -> None:
    """The next finding is looked at by then."""
    backend.held.clear()
    async with open_app(start="doctor") as (app, pilot):
        await settle(pilot)
        await fix_of(app, pilot, "infiniband")
        await pilot.press("right", "right", "enter")
        await settle(pilot)
        await fix_of(app, pilot, "infiniband")
        there = app.screen
        backend.held.set()
        await settle(pilot)
        assert app.screen is there
        assert "on node03 has ended: said by node03" in str([notice.message for notice in app._notifications])


async def test_what_needs_root_is_not_run(open_app: Any, backend: FakeBackend) -> None:
    """It can be copied; a row that is well has nothing to fix."""
    backend.answers["node04"] = facts("node04", 4, clock_offset_ms=900.0)
    async with open_app(start="doctor") as (app, pilot):
        await settle(pilot)
        assert "sudo timedatectl" in await fix_of(app, pilot, "clock")
        assert [button.id for button in app.screen.query(Button)] == ["cancel", "copy"]
        await pilot.press("escape")
        app.screen.query_one(RowList).go("memory")
        await pilot.press("f")
        await settle(pilot)
        assert not isinstance(app.screen, FixDialog)


async def test_the_pairs_that_were_tried_are_counted(open_app: Any, backend: FakeBackend) -> None:
    """In the row when all is well, and below the table."""
    async with open_app((200, 50), start="doctor") as (app, pilot):
        await settle(pilot)
        assert "20 pairs tried, all of them reach each other" in screen_text(app)


async def test_the_proof_waits_until_the_hosts_have_answered(open_app: Any, backend: FakeBackend) -> None:
    """It listens on the port that a probe looks at: what it does there itself is no warning."""
    async with open_app(start="doctor") as (_, pilot):
        await settle(pilot)
        silent, real = asyncio.Event(), backend.probe

        async def slow(names: Any, on_result: Any) -> None:
            await silent.wait()
            await real(names, on_result)

        backend.probe = slow  # type: ignore[method-assign]
        reached = backend.calls.count(("reach",))
        await pilot.press("p")
        await settle(pilot)
        assert backend.calls.count(("reach",)) == reached
        silent.set()
        await settle(pilot)
        await settle(pilot)
        assert backend.calls.count(("reach",)) == reached + 1


async def test_findings_that_are_old_when_doctor_is_first_opened_are_asked_for_before_the_proof(
    open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Probes first, then one proof: begun at once, it would be seen by the probes and proved a second time."""
    now = [time.time()]
    monkeypatch.setattr(time, "time", lambda: now[0])
    async with open_app() as (_, pilot):
        await settle(pilot)
        now[0] += 20
        before = len(backend.calls)
        await pilot.press("4")
        await settle(pilot)
        asked = [call[0] for call in backend.calls[before:] if call[0] in ("probe", "reach")]
        assert asked == ["probe", "reach"]


async def test_what_a_probe_saw_during_any_proof_is_no_warning(
    open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proof listens on the port that a probe looks at; a later proof does not make that a stranger's."""
    now = [time.time()]
    monkeypatch.setattr(time, "time", lambda: now[0])
    async with open_app(start="doctor") as (app, pilot):
        await settle(pilot)
        ended, real = asyncio.Event(), backend.reach

        async def slow() -> Any:
            await ended.wait()
            return await real()

        backend.reach = slow  # type: ignore[method-assign]
        backend.answers["node04"] = facts("node04", 4, ports_in_use=(29500,))
        now[0] += 60
        app.screen._ask()
        await settle(pilot)
        app.board.probed("node04", backend.answers["node04"], now[0])
        backend.found["node04"] = backend.answers["node04"]
        now[0] += 60
        app.screen._ask()
        ended.set()
        await settle(pilot)
        assert app.screen.by_key["port"].verdict == "skip"
        now[0] += 60
        await app.screen.backend.probe(["node04"], lambda name, result: app.board.probed(name, result, now[0]))
        app.screen._check()
        assert app.screen.by_key["port"].verdict == "warn"


async def test_a_smoke_is_not_asked_through(open_app: Any, backend: FakeBackend) -> None:
    """Its containers would be found on the GPUs."""
    async with open_app(start="doctor") as (app, pilot):
        await settle(pilot)
        probes = sum(call[0] == "probe" for call in backend.calls)
        app.screen.smoke.pairs = 2
        await pilot.press("p")
        await settle(pilot)
        assert sum(call[0] == "probe" for call in backend.calls) == probes


async def test_readonly_has_no_smoke(open_app: Any, backend: FakeBackend) -> None:
    """It starts containers."""
    backend.readonly = True
    async with open_app(start="doctor") as (app, pilot):
        await pilot.press("N")
        await settle(pilot)
        assert "all-reduce?" not in screen_text(app)


async def test_many_hosts_keep_only_columns_with_findings(open_app: Any, backend: FakeBackend) -> None:
    """Above eight hosts a column stays only when something is found there; the others are counted."""
    import dataclasses

    from distui.spec.hosts.inventory import Host

    names = [f"n{i:02d}" for i in range(40)]
    backend.hosts = tuple(Host(name) for name in names)
    backend.answers = {name: facts(name, i % 250 + 1) for i, name in enumerate(names)}
    backend.answers["n07"] = dataclasses.replace(backend.answers["n07"], clock_offset_ms=900.0)
    async with open_app(start="doctor") as (app, pilot):
        await settle(pilot)
        assert app.screen.columns[:1] == ("n07",) or "n07" in app.screen.columns
        assert "others" in screen_text(app)


async def test_findings_have_a_date_and_old_ones_are_asked_for_again(
    open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When and how long ago they were taken; opening the screen again asks the hosts where that was long ago."""
    start = time.time()
    clock = [start]
    monkeypatch.setattr(time, "time", lambda: clock[0])

    def probes() -> int:
        return sum(call[0] == "probe" for call in backend.calls)

    async with open_app((80, 24), start="doctor") as (app, pilot):
        asked = probes()
        assert f"{time.strftime('%H:%M:%S', time.localtime(start))}, 0s ago" in screen_text(app)
        clock[0] = start + 10
        await pilot.press("1", "4")
        await settle(pilot)
        assert "10s ago" in screen_text(app)
        assert probes() == asked
        clock[0] = start + 300
        app.screen.refresh_bars()
        await pilot.pause()
        shot(app, "doctor-old")
        assert "5m ago" in screen_text(app)
        await pilot.press("1", "4")
        await settle(pilot)
        assert probes() == asked + 1
        assert "0s ago" in screen_text(app)


ALIKE = ("trainer-07.rack7.example.com", "trainer-07.rack8.example.com", "trainer-08.rack8.example.com")


@pytest.mark.parametrize(
    ("size", "names"),
    [
        ((80, 24), ["…ner-07.rack7…", "…ner-07.rack8…", "…ner-08.rack8…"]),
        ((120, 36), ["…-07.rack7…", "…-07.rack8…", "…-08.rack8…"]),
        ((200, 50), ["trainer-07.rack7.…le.com", "trainer-07.rack8.…le.com", "trainer-08.rack8.…le.com"]),
    ],
)
async def test_hosts_with_long_names_are_told_apart(
    open_app: Any, backend: FakeBackend, size: tuple[int, int], names: list[str]
) -> None:
    """Over their columns, which are wider where there is room; what was found stands below its host."""
    backend.hosts = tuple(map(Host, ALIKE))
    backend.answers = {name: facts(name, number) for number, name in enumerate(ALIKE, 1)}
    async with open_app(size, start="doctor") as (app, _):
        lines = screen_text(app).splitlines()
        head = next(line for line in lines if "rack7" in line)
        assert head.replace("FINDING", "").split() == names
        first = next(line for line in lines if "ssh login" in line)
        for number, name in enumerate(names):
            middle = head.index(name) + len(name) // 2
            ok = [found.start() for found in re.finditer(r"\bok\b", first)][number]
            assert abs(ok - middle) <= 1


@pytest.mark.parametrize("over", ["y", "question_mark", "exclamation_mark", "f"])
async def test_nothing_is_asked_when_what_lay_over_it_is_closed(
    open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch, over: str
) -> None:
    """A text that was read for minutes, the help, a fix: findings stay, with their age, until the view is opened."""
    clock = [time.time()]
    monkeypatch.setattr(time, "time", lambda: clock[0])

    def asked() -> int:
        return sum(call[0] in ("probe", "reach", "images") for call in backend.calls)

    async with open_app(start="doctor") as (app, pilot):
        await settle(pilot)
        await pilot.press("n")
        before = asked()
        await pilot.press(over)
        await settle(pilot)
        assert len(app.screen_stack) == 2
        clock[0] += 60
        await pilot.press("escape")
        await settle(pilot)
        assert app.screen.VIEW == "doctor" and len(app.screen_stack) == 1
        assert asked() == before and "60s ago" in screen_text(app)
        await pilot.press(over, "1", "4", "escape")
        await settle(pilot)
        await pilot.press("escape")
        await settle(pilot)
        await pilot.press("1", "4")
        await settle(pilot)
        assert asked() > before
