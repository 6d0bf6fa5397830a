"""What the actions of the Metrics page do, and the way there (see `every_key.py`)."""

from __future__ import annotations

from collections.abc import AsyncIterator

from every_key import Case, effect
from measuring import measured
from pytest import approx

from distui.tui.metrics.screen import MetricsScreen
from distui.tui.metrics.window import Window

Steps = AsyncIterator[None]


def window(case: Case) -> Window:
    found: Window = case.screen.window
    return found


@effect("One run", "metrics")
async def metrics(case: Case) -> Steps:
    measured(case.live)
    yield
    await case.until(lambda: isinstance(case.screen, MetricsScreen) and "Step time" in case.text)


@effect("Metrics", "earlier", "later")
async def cursor(case: Case) -> Steps:
    if case.action == "later":
        await case.press(*["left"] * 3)
        before = window(case).at
        yield
        assert window(case).at > before
        await case.press("right", "right")
        assert window(case).cursor is None
        return
    yield
    assert window(case).cursor is not None and window(case).at < window(case).high


@effect("Metrics", "plot_down", "plot_up")
async def another_plot(case: Case) -> Steps:
    assert case.screen.panel.name == "loss"
    yield
    assert case.screen.panel.names == (("step_time",) if case.action == "plot_down" else ("net_rx", "net_tx"))


@effect("Metrics", "first")
async def first(case: Case) -> Steps:
    yield
    assert window(case).cursor == window(case).begin


@effect("Metrics", "newest")
async def newest(case: Case) -> Steps:
    await case.press("plus", "home")
    yield
    assert window(case).cursor is None and window(case).high == window(case).end


@effect("Metrics", "closer", "wider", "whole")
async def zoom(case: Case) -> Steps:
    await case.press(*([] if case.action == "closer" else ["plus", "plus"]))
    before = window(case).span
    yield
    factor = {"closer": 1 / 2, "wider": 2, "whole": 4}[case.action]
    assert window(case).span == approx(factor * before, rel=0.05), window(case)


@effect("Metrics", "pan_back", "pan_on")
async def pan(case: Case) -> Steps:
    await case.press("plus", "plus", *(["less_than_sign"] * 3 if case.action == "pan_on" else []))
    before = window(case)
    yield
    moved = window(case).low - before.low
    assert moved == approx(before.span / 2 if case.action == "pan_on" else -before.span / 2)
    assert window(case).span == approx(before.span)


@effect("Metrics", "alone")
async def alone(case: Case) -> Steps:
    assert "GPU load" in case.text
    yield
    assert "GPU load" not in case.text and "Loss" in case.text
    await case.press("escape")
    assert "GPU load" in case.text


@effect("Metrics", "ranks")
async def ranks(case: Case) -> Steps:
    assert "80% to 95%  88%" in case.text
    yield
    await case.until(lambda: "rank 0  80%" in case.text)


@effect("Metrics", "next_member", "last_member")
async def member(case: Case) -> Steps:
    await case.press("r")
    await case.until(lambda: "rank 0  80%" in case.text)
    await case.press("down", "down")
    yield
    await case.until(lambda: ("rank 1  81%" if case.action == "next_member" else "rank 15  95%") in case.text)


@effect("Metrics", "smooth")
async def smooth(case: Case) -> Steps:
    assert "smooth off" in case.text
    yield
    assert "smooth 2% of the width" in case.text


@effect("Metrics", "log_axis")
async def log_axis(case: Case) -> Steps:
    assert "log off" in case.text
    yield
    assert "log on" in case.text


@effect("Metrics", "times")
async def times(case: Case) -> Steps:
    yield
    assert "time since the begin" in case.text, case.text
    assert "4m" in case.text.split(), case.text


@effect("Metrics", "copy_values")
async def copy_values(case: Case) -> Steps:
    yield
    rows = [row.split("\t") for row in case.app.clipboard.splitlines()]
    assert rows[0] == ["series", "median", "lowest", "highest"]
    assert ["gpu_load", "88%", "80%", "95%"] in rows and rows[1][0] == "loss"


# Two runs compared.


@effect("Compare", "over")
async def over(case: Case) -> Steps:
    assert "Loss  over the steps" in case.text and " 1000" in case.text, case.text
    yield
    assert "Loss  over time" in case.text and "8m" in case.text.split(), case.text


@effect("Compare", "smooth", "log_axis")
async def other_curves(case: Case) -> Steps:
    before = case.text
    yield
    assert (case.screen.smooth, case.screen.powers) == ((1, False) if case.action == "smooth" else (0, True))
    assert case.action == "smooth" or case.text != before


@effect("Compare", "copy_all")
async def copy_compared(case: Case) -> Steps:
    yield
    rows = [row.split("\t") for row in case.app.clipboard.splitlines()]
    assert rows[0] == ["", "llm-7f2", "llm-7f3", ""]
    assert rows[1][:2] == ["loss at step 598", "0.4298"] and rows[1][3].startswith("+4")
    assert ["speed", "1 it/s", "2 it/s", "+100.0%"] in rows
    assert "\nPLAN\n--- llm-7f2\n+++ llm-7f3\n" in case.app.clipboard
