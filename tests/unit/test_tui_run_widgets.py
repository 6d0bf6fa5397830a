"""Lines of the run view's parts as text: banner, strip, timeline, plot, comparison."""

from __future__ import annotations

import dataclasses
from array import array
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from distui.plan.model import HostNetwork
from distui.runs.lines.events import Failure, GpuReading, HostSampled, NetworkUsed
from distui.runs.report.aftermath import Moment
from distui.runs.report.rank_rows import RankRow
from distui.runs.state.progress import Point as Told
from distui.tui.logs.merged.groups import Group
from distui.tui.paint import figures
from distui.tui.paint.figures import gib
from distui.tui.paint.glyphs import ASCII, UNICODE
from distui.tui.paint.theme import DARK, Palette, palette, variables
from distui.tui.run import compare
from distui.tui.run.around import failure_banner, hang, loss_plot
from distui.tui.run.around import strip as run_strip
from distui.tui.run.around.strip import HostRow
from distui.tui.run.ranks import timeline
from fakehosts.runs import plan_for


@pytest.fixture(scope="module", name="palette")
def dark_palette() -> Palette:
    """The dark theme's styles."""
    return palette_of_tests()


@cache
def palette_of_tests() -> Palette:
    """The same for tests that can't have a fixture."""
    return palette(DARK, DARK.to_color_system().generate() | variables(DARK) | dict(DARK.variables))


NETWORK = HostNetwork("node01", "10.0.0.1", "eth0", "tcp", rdma_off=True)
SAMPLE = HostSampled(
    1.0, "node01", tuple(GpuReading(i, 96.0, 77_900, 81_559, 70.0 + i) for i in range(8)), {"eth0": (21.3e9, 21.0e9)}
)


USED = NetworkUsed(1.0, "begun", "eth0 98 % of 41 GB, ib0 2 %", (), ("40 GB went over eth0",))


def rows() -> list[HostRow]:
    """A healthy host and one that is lost."""
    return [
        HostRow("node01", "running", "00-07", [SAMPLE] * 30, NETWORK),
        HostRow("node02", "lost", "08-15", [], None, lost="no answer for 30 s"),
    ]


def test_the_banner(palette: Palette) -> None:
    """Who, what, cause, next; the error of the excerpt is the headline, whatever came after it."""
    failure = Failure(13, "node02", 1, "exit 1", "XID 94", "reset it", ("ValueError: bad", "some noise"))
    lines = failure_banner.banner_lines(palette, UNICODE, failure, 80, 4, gpus="GPU 5", again=True)
    assert [line.plain.rstrip() for line in lines] == [
        "▌ Rank 13 failed first   node02 GPU 5   exit 1" + " " * 16 + "enter to the line",
        "▌ ValueError: bad",
        "▌ cause  XID 94" + " " * 54 + "d evidence",
        "▌ next   reset it" + " " * 38 + "J its job   R  run again",
    ]
    assert failure_banner.banner_rows(failure) == 4
    assert failure_banner.banner_rows(None) == 0


def test_what_belongs_to_the_verdict_of_a_success(palette: Palette) -> None:
    """Each warning has a row; those without room are counted."""
    lines = failure_banner.warning_lines(palette, UNICODE, ("one", "two", "three"), 80, 2)
    assert [line.plain.rstrip() for line in lines] == [
        "▌ warn   one",
        "▌ warn   2 more warnings: see `distui show`",
    ]
    assert failure_banner.banner_rows(None, ("one", "two")) == 2


def test_a_run_that_failed_as_a_whole(palette: Palette) -> None:
    """No rank is blamed for it, and none came first."""
    failure = Failure(
        None, "", 0, "ended with exit 0, but it was over after 1.0 s", "`success` is not met", name="the run"
    )
    lines = failure_banner.banner_lines(palette, UNICODE, failure, 100, 4, gpus="", again=False)
    assert lines[0].plain.startswith("▌ The run failed")


def test_a_death_without_words(palette: Palette) -> None:
    """Killed from outside: its last line is called that, not an error."""
    failure = Failure(3, "h2", 137, "killed by SIGKILL", excerpt=("step 9 loss 2.1",))
    lines = failure_banner.banner_lines(palette, UNICODE, failure, 80, 4, gpus="", again=False)
    assert lines[1].plain.split("   ")[0] == "▌ last line  step 9 loss 2.1"


def test_the_strip(palette: Palette) -> None:
    """Tanks, load, memory, heat, network; a lost host says why; hosts that do not fit are counted."""
    end = run_strip.Line().put("TCP over eth0")
    lines = run_strip.strip_lines(palette, UNICODE, rows(), 118, 3, end, full=True)
    text = [line.plain for line in lines]
    assert text[1].startswith(" node01 ▇▇ ▇▇ ▇▇ ▇▇ ▇▇ ▇▇ ▇▇ ▇▇   96%   609 / 637 GiB  77°C")
    assert text[1].rstrip().endswith("rx  21.3  tx  21.0 GB/s")
    assert text[2] == " node02 × lost: no answer for 30 s"
    short = run_strip.strip_lines(palette, UNICODE, rows() * 4, 118, 3, end, full=False)
    assert short[-1].plain == " 7 more hosts"
    assert "lost" in short[1].plain


def test_what_is_to_be_looked_at_has_a_place_in_the_strip(palette: Palette) -> None:
    """Where not all hosts fit: what is lost or wrong first, then a remark, such as of a rank that is behind."""
    quiet, lost = rows()
    late = dataclasses.replace(quiet, host="node07", sign="quiet", remark="17 behind")
    wrong = dataclasses.replace(quiet, host="node08", sign="failed", trouble=True, remark="20 exit 1")
    hosts = [quiet, quiet, quiet, late, wrong, lost]
    end = run_strip.Line()
    for lines in (
        run_strip.strip_lines(palette, UNICODE, hosts, 118, 5, end, full=False)[1:],
        run_strip.narrow_lines(palette, UNICODE, hosts, 80, 4),
    ):
        first = [line.plain.removeprefix(f" {sign} ").split()[0] for line, sign in zip(lines, "××◐", strict=False)]
        assert first == ["node08", "node02", "node07"] and lines[-1].plain == " 3 more hosts"
    narrow = run_strip.narrow_lines(palette, UNICODE, [quiet, quiet, late], 80, 2)
    assert "17 behind" in narrow[0].plain


def test_a_remark_hides_no_ranks_of_its_host_where_there_is_room(palette: Palette) -> None:
    """At 80 columns: not beside eight GPUs, and not of a host that has no other rank."""
    few = HostSampled(1.0, "h", gpus(10.0, 20.0), {"eth0": (9e6, 1e6)})
    row = HostRow("node07", "quiet", "4-5", [few], NETWORK, remark="5 quiet")
    (line,) = run_strip.narrow_lines(palette, UNICODE, [row], 80, 1)
    assert "5 quiet" in line.plain and "ranks 4-5" in line.plain and line.width <= 80
    for other in (replace(row, ranks="5"), replace(row, samples=[SAMPLE]), replace(row, remark="")):
        (line,) = run_strip.narrow_lines(palette, UNICODE, [other], 80, 1)
        assert "ranks" not in line.plain


@pytest.mark.parametrize("width", range(70, 90))
def test_no_narrow_row_cuts_a_figure(palette: Palette, width: int) -> None:
    """Beside eight GPUs at 80 columns there is room for all or the rate is left out: it had half a temperature."""
    for rate in (9.0, 9e6, 123e6):
        seen = HostSampled(1.0, "h", gpus(*([97.0] * 8)), {"eth0": (rate, rate)})
        for name in ("h1", "node07", "node-0007"):
            row = HostRow(name, "running", "0-7", [seen], NETWORK)
            (line,) = run_strip.narrow_lines(palette, UNICODE, [row], width, 1)
            assert "40°C" in line.plain and "…" not in line.plain and line.width <= width


def gpus(*loads: float, at: int = 0) -> tuple[GpuReading, ...]:
    """GPUs of these loads, numbered from `at` on."""
    return tuple(GpuReading(at + i, load, 1024, 2048, 40.0, 100.0 + i) for i, load in enumerate(loads))


def test_only_the_gpus_of_the_run(palette: Palette) -> None:
    """A cell a GPU, those of a rank side by side; figures are of these alone: median, lowest, highest, power."""
    seen = HostSampled(1.0, "h", gpus(10.0, 20.0, 90.0, 99.0), {"eth0": (9e6, 1e6)})
    row = HostRow("h", "running", "0-1", [seen], replace(NETWORK, speed_mbps=200_000), groups=[(1, 2), (3,)])
    assert [[gpu.index for gpu in group] for group in row.gpus()] == [[1, 2], [3]]
    text = run_strip.host_line(palette, UNICODE, row, 180, name=4, top=1.0, history=False).plain
    assert text.startswith(" h    ▂▇ ▇   90%  20-99  102 W   3.0 / 6.0 GiB")
    assert text.rstrip().endswith("<1 % of 200G  rx     9  tx     1 MB/s")
    none = run_strip.host_line(palette, UNICODE, replace(row, groups=[]), 180, name=4, top=1.0, history=False).plain
    assert "no GPU" in none and "90%" not in none


def test_another_interface_is_amber(palette: Palette) -> None:
    """In the place of the share of the link that the plan chose."""
    row = HostRow("h", "running", "0", [SAMPLE], replace(NETWORK, speed_mbps=200_000), other="eno1")
    for line in (
        run_strip.host_line(palette, UNICODE, row, 120, name=4, top=1.0, history=True),
        run_strip.narrow_line(palette, UNICODE, row, 90, 4, 5),
    ):
        assert [style for words, style in line.pieces if "eno1" in words] == [palette.watch]
        assert "of 200G" not in line.plain


@pytest.mark.parametrize("other", ["", "eno1"])
def test_figures_of_a_run_that_has_ended_are_not_of_now(palette: Palette, other: str) -> None:
    """All faint, and the title says so: nothing of the run is there any more. What failed stays as loud as it is."""
    row = HostRow("h", "failed", "0", [SAMPLE] * 30, NETWORK, trouble=True, remark="0 exit 1", other=other, over=True)
    wide = run_strip.host_line(palette, UNICODE, row, 200, name=4, top=1.0, history=True)
    narrow = run_strip.narrow_line(palette, UNICODE, row, 90, 4, 8)
    for line, head in ((wide, "h"), (narrow, "0 exit 1")):
        at = next(i for i, (words, _) in enumerate(line.pieces) if words.strip() == head)
        shown = [(words, style) for words, style in line.pieces[at + 1 :] if words.strip()]
        assert shown and {style for _, style in shown} == {palette.faint} and "96%" in line.plain
    assert palette.wrong in [style for words, style in narrow.pieces if words.strip() == "0 exit 1"]

    def title(row: HostRow) -> str:
        return run_strip.strip_title(palette, UNICODE, [row], 120, run_strip.Line()).plain

    assert title(row).startswith(" GPUs and network  as measured last ")
    end = run_strip.Line().put("nothing of this run is left on either host")
    narrow = run_strip.strip_title(palette, UNICODE, [row], 70, end)
    assert "…" not in narrow.plain and "measured" not in narrow.plain
    assert "measured" not in title(replace(row, over=False)) and "measured" not in title(replace(row, samples=[]))


@given(st.text(min_size=1, max_size=60), st.integers(100, 240), st.integers(1, 16), st.floats(1e3, 5e10))
def test_a_long_name_never_cuts_a_number(name: str, width: int, count: int, rate: float) -> None:
    """Whatever a host is called, load, memory, temperature and rates stand there in whole."""
    look = palette_of_tests()
    seen = HostSampled(1.0, name, gpus(*([97.0] * count)), {"eth0": (rate, rate / 2)})
    row = HostRow(name, "running", "0", [seen] * 3, replace(NETWORK, speed_mbps=400_000))
    lines = run_strip.strip_lines(look, UNICODE, [row], width, 2, run_strip.Line(), full=True)
    words, unit = figures.rates(rate, rate / 2)
    shown = lines[1].plain
    for figure in ("97%", f"{gib(count * 1024)} / {gib(count * 2048)} GiB", "40°C", words[0], words[1], unit):
        assert figure in shown
    assert lines[1].width <= width


def test_which_interface_carried_how_much(palette: Palette) -> None:
    """Beside the strip's title where there is room; what is odd in any case, and louder."""
    end = run_strip.Line().put("TCP over ib0")
    well = NetworkUsed(1.0, "begun", "ib0 98 % of 41 GB, eth0 2 %", ())

    def title(used: NetworkUsed | None, width: int) -> tuple[str, list[Style]]:
        line = run_strip.strip_lines(palette, UNICODE, rows(), width, 3, end, full=True, used=used)[0]
        return line.plain, [style for words, style in line.pieces if "98 %" in words]

    text, styles = title(well, 118)
    assert text.startswith(" GPUs and network   ib0 98 % of 41 GB, eth0 2 % ─") and text.rstrip().endswith(
        " TCP over ib0"
    )
    assert styles == [palette.muted]
    assert title(USED, 118)[1] == [palette.watch]
    assert "41 GB" not in title(well, 50)[0] and " eth0 98 %" in title(USED, 50)[0]
    assert "GB" not in title(None, 118)[0]


@pytest.mark.parametrize("width", [20, 40, 59, 60, 80, 99, 100, 120, 200])
def test_nothing_is_wider_than_the_screen(palette: Palette, width: int) -> None:
    """Whatever the width, cut lines keep to it, in Unicode and in ASCII."""
    for glyphs in (UNICODE, ASCII):
        made = [
            *run_strip.narrow_lines(palette, glyphs, rows(), width, 4),
            *run_strip.strip_lines(palette, glyphs, rows(), width, 4, run_strip.Line(), full=True, used=USED),
        ]
        assert all(line.cut(width).width <= width for line in made)


def test_the_timeline(palette: Palette) -> None:
    """Signed seconds; when rows are short the failure and the end stay, and the rest is counted."""
    moments = [
        Moment(-0.4, "h1", "warning", "Xid", "watch"),
        Moment(0.0, "13", "exit 1", "boom", "wrong"),
        Moment(2.4, "00-12", "stopped"),
        Moment(4.0, "distui", "cleaned up", "nothing is left", "good"),
    ]
    lines = [line.plain for line in timeline.timeline_lines(palette, UNICODE, moments, 60, 9, "3 ranks ended")]
    assert lines[0].startswith(" What followed  3 ranks ended ──")
    assert lines[1].split() == ["-", "0.4", "s", "h1", "warning", "Xid"]
    assert lines[2].split() == ["0.0", "s", "13", "exit", "1", "boom"]
    few = [line.plain for line in timeline.timeline_lines(palette, UNICODE, moments, 60, 3, "")]
    assert few[1].split()[2:] == ["13", "exit", "1", "boom"]
    assert few[2].split()[3:] == ["distui", "cleaned", "up", "nothing", "is", "left"]
    assert few[0].rstrip().endswith("─ 2 more")


def test_the_loss_stands_on_its_real_zero(palette: Palette) -> None:
    """With its scale and the steps it goes over; nan is said, not drawn; too little room shows nothing."""

    def lines(values: list[float], newest: float | None = None, width: int = 19, height: int = 6) -> list[str]:
        reported = [Told({"step": 10.0 * i, "loss": v}, {}, None) for i, v in enumerate(values)]
        made = loss_plot.loss_lines(palette, UNICODE, "loss", reported, newest, width, height)
        return [line.plain.rstrip() for line in made]

    assert lines([4.0, 3.0, 2.0, 1.0]) == [
        " Loss ─────── 1.000",
        "     4 █▆▄▂",
        "       █████▆▄▂",
        "       █████████▅▃",
        "     0 ████████████",
        "       0         30",
    ]
    assert lines([4.0, 3.9], newest=3.8)[0].endswith(" 3.800")
    assert lines([2.0, float("nan")])[0].endswith(" nan")
    assert lines([3.0], height=1) == lines([], height=6) == []
    few = [Told({"loss": v}, {}, None) for v in (2.0, 1.0)]
    assert loss_plot.loss_lines(palette, UNICODE, "loss", few, None, 19, 6)[-1].plain.split() == ["0", "1"]


def group(text: str, *times: float) -> Group:
    """A row that ranks 0, 1, ... said at these times."""
    made = Group(min(times), max(times), text)
    made.ranks, made.lines, made.times = array("I", range(len(times))), array("Q", [0] * len(times)), array("d", times)
    return made


def test_ranks_side_by_side(palette: Palette) -> None:
    """Seconds after the first; who came late in a row of its own is counted there, too."""
    folded, late = group("step 5 loss 2.0", 10.0, 10.004), group("step 5 loss 2.1", 12.9)
    late.ranks[0], late.shift = 2, 2.9
    assert compare.moments_of([folded, late], folded) == {0: 0.0, 1: pytest.approx(0.004), 2: pytest.approx(2.9)}
    lines = compare.compare_lines(palette, UNICODE, [folded, late], folded, [0, 1, 2, 3], 100, 9)
    text = [line.plain for line in lines]
    assert "2 of 4 ranks within 4 ms, rank 2 came 2.9 s late" in text[0]
    assert "2.900" in text[4] and "said nothing" in text[5]
    alone = group("saved", 10.0)
    assert "only rank 0 said it" in compare.compare_lines(palette, UNICODE, [alone], alone, [0, 1], 100, 9)[0].plain


def test_who_is_behind_has_its_name_where_it_has_one() -> None:
    """Before its ranks were asked, in the banner of a run that stands still."""
    plan = plan_for("h1", "h2")
    rows = [RankRow(rank, f"h{rank + 1}", (), "", "behind", lag=3) for rank in (0, 1)]
    assert [hang._who(rows[:count], plan) for count in (1, 2)] == ["rank 0 is 3 steps", "ranks 0-1 are 3 steps"]
    named = tuple(replace(t, name=f"worker/{t.index}", labels={**t.labels, "distui.name": "x"}) for t in plan.tasks)
    with_names = replace(plan, tasks=named)
    assert [hang._who(rows[:count], with_names) for count in (1, 2)] == [
        "worker/0 is 3 steps",
        "worker/[0-1] are 3 steps",
    ]
