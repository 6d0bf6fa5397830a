"""Doctor: two findings are all one sees; each says saw, means, do."""

from __future__ import annotations

from typing import Any

from fakes import FakeDesk, screen_text, settle, shot


async def test_findings_are_told_with_what_to_do(open_app: Any, desk: FakeDesk) -> None:
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


async def test_probe_again_and_report(open_app: Any, desk: FakeDesk) -> None:
    """p asks all hosts again; y is every finding as text."""
    async with open_app(start="doctor") as (app, pilot):
        before = sum(c[0] == "probe" for c in desk.calls)
        await pilot.press("p")
        await settle(pilot)
        assert sum(c[0] == "probe" for c in desk.calls) == before + 1
        await pilot.press("y")
        await settle(pilot)
        assert "FAIL node05: ssh login: publickey refused" in screen_text(app)


async def test_many_hosts_keep_only_columns_with_findings(open_app: Any, desk: FakeDesk) -> None:
    """Above eight hosts a column stays only when something is found there; the others are counted."""
    import dataclasses

    from fakes import facts

    from distui.spec.inventory import Host

    names = [f"n{i:02d}" for i in range(40)]
    desk.hosts = tuple(Host(name) for name in names)
    desk.answers = {name: facts(name, i % 250 + 1) for i, name in enumerate(names)}
    desk.answers["n07"] = dataclasses.replace(desk.answers["n07"], clock_offset_ms=900.0)
    async with open_app(start="doctor") as (app, pilot):
        await settle(pilot)
        assert app.screen.columns[:1] == ("n07",) or "n07" in app.screen.columns
        assert "others" in screen_text(app)
