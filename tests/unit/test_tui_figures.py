"""Figures, rows, filters and form fields of the app: pure, told with literals."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from distui.errors import Problem
from distui.facts.host import Gpu, HostDown, Trouble
from distui.monitor.board import Board, Totals
from distui.monitor.host_board import HostBoard
from distui.runs.hosts.uses import Use
from distui.runs.lines.events import GpuReading, HostSampled, Progressed, StopAsked
from distui.runs.state.reducer import RunState, apply
from distui.spec.hosts.inventory import Host
from distui.spec.job.job import HostChoice, Job
from distui.tui.hosts import group_rows, select
from distui.tui.hosts import lines as host_lines
from distui.tui.hosts import rows as host_rows
from distui.tui.hosts.gpu_rows import gpu_columns, gpu_row
from distui.tui.launch import plan_lines
from distui.tui.launch.form.job_form import FIELDS, changed, hosts_text
from distui.tui.paint import figures, theme
from distui.tui.paint.glyphs import ASCII, UNICODE
from distui.tui.paint.paint import Line
from distui.tui.plot.recent import recent_lines

LOOK = theme.palette(theme.DARK, {**theme.DARK.to_color_system().generate(), **theme.DARK.variables})


# numbers


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (figures.percent(95.6), "96%"),
        (figures.percent(None), "-"),
        (figures.gib(81_559), "80"),
        (figures.gib(4_200), "4.1"),
        (figures.gib(0), "0"),
        ([figures.short_rate(v) for v in (None, 0.0, 40e3, 9e6, 999e6)], ["-", "0", "<1M", "9M", "999M"]),
        ([figures.short_rate(v) for v in (0.9996e9, 2.66e9, 9.96e9, 213e9)], ["1.0G", "2.7G", "10G", "213G"]),
        (
            [figures.share(p, 200_000) for p in (0, 0.004, 0.08, 1.0)],
            ["0 % of 200G", "<1 % of 200G", "8 % of 200G", "100 % of 200G"],
        ),
        (figures.rates(12e6, 9.4e6), (["12", "9"], "MB/s")),
        (figures.rates(2.6e9, None), (["2.60", "-"], "GB/s")),
        (figures.rates(None, None), (["-", "-"], "B/s")),
        (figures.ago(240), "4m ago"),
    ],
)
def test_numbers_for_people(made: object, expected: object) -> None:
    """Three digits or so, the unit beside them, unknown is a dash."""
    assert made == expected


@pytest.mark.parametrize(
    ("name", "mib", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", 81_559, "H100 80"),
        ("NVIDIA A100-SXM4-40GB", 40_536, "A100 40"),
        ("NVIDIA GeForce RTX 4090", 24_564, "RTX 4090 24"),
        ("AMD Instinct MI300X", 196_592, "MI300X 192"),
    ],
)
def test_models_in_few_letters(name: str, mib: int, expected: str) -> None:
    """What tells a card, and its memory."""
    assert figures.models([Gpu(0, "u", name, memory_total_mib=mib)]) == expected


def test_bars() -> None:
    """Half steps, a track, a floor for nothing, a dot for unknown."""
    assert figures.level(Line(), LOOK, UNICODE, 0.45, 10).plain == "━━━━╸━━━━━"
    assert [p[0] for p in figures.level(Line(), LOOK, UNICODE, 0.0, 4).pieces] == ["━━━━"]
    assert figures.level(Line(), LOOK, ASCII, 0.5, 4).plain == "==--"
    assert figures.tank(Line(), LOOK, UNICODE, 0.0, 2).plain == "▁▁"
    assert figures.tank(Line(), LOOK, UNICODE, 100.0, 2).plain == "▇▇"
    assert figures.tank(Line(), LOOK, UNICODE, None, 2).plain == "··"


def test_resampling_keeps_now_at_the_right() -> None:
    """Time before the first sample is empty; cells are means."""
    assert figures.resampled([10.0, 20.0, 30.0, 50.0], 4, 8) == [None, None, 15.0, 40.0]
    assert figures.resampled([], 2, 10) == [None, None]
    assert figures.resampled([1.0, None, 3.0], 3, 3) == [1.0, None, 3.0]


def test_an_area_has_a_floor_and_a_top() -> None:
    """A full cell for each reached row, a thin floor for a known zero, labels at the left."""
    samples = [7.0, 0.0, 50.0, 100.0, None]
    lines = [line.plain for line in recent_lines(LOOK, UNICODE, samples, 11, 2, top=100.0, seconds=4)]
    assert lines[:2] == ["   100   █ ", "     0 ▁██ "]
    assert recent_lines(LOOK, UNICODE, samples, 40, 2)[-1].plain.split() == ["-5m", "now"]


# rows


def host() -> HostBoard:
    """One host with a GPU at work."""
    b = Board([Host("node01")])
    b.sampled(HostSampled(100.0, "node01", (GpuReading(0, 97.0, 40_000, 80_000, 71.0, 600.0),)))
    return b["node01"]


@pytest.mark.parametrize(
    ("width", "shown", "folded"),
    [
        (80, "HOST UTIL AVG GiB MAX IN OUT RUN", "RTT GPUS FABRIC ADDR DISK"),
        (120, "HOST RTT GPUS UTIL AVG MEM MAX OUT FABRIC RUN", "ADDR DISK LAST"),
        (200, "HOST ADDR RTT GPUS UTIL AVG LAST MEM MAX OUT FABRIC DISK RUN", ""),
    ],
)
def test_columns_fold_in_their_order(width: int, shown: str, folded: str) -> None:
    """What there is at three widths, and nothing is wider than the window."""
    at = host_rows.columns(width, ["node01"])
    head = host_rows.header(at, LOOK, UNICODE)

    words = head.plain.split()
    assert [w for w in shown.split() if w not in words] == []
    assert [w for w in folded.split() if w in words and width == 80 and w != "FABRIC"] == []
    assert head.width <= width


def test_a_remark_keeps_the_fabric_column() -> None:
    """It folds only while nothing is wrong with any fabric."""
    assert host_rows.columns(72, ["n"], remark=True).fabric > 0
    assert host_rows.columns(72, ["n"]).fabric == 0


def test_no_row_is_wider_than_the_window() -> None:
    """For every width from narrow to wide, whatever the host is."""
    down = Board([Host("node05")])
    down.probed("node05", HostDown("node05", Trouble("auth", "publickey refused: offered x", "ssh -v node05")), 1)
    for width in range(60, 220, 7):
        at = host_rows.columns(width, ["node01"], most_gpus=16)
        for shown in (host(), down["node05"], Board([Host("x" * 40)])["x" * 40]):
            assert host_rows.row(shown, at, LOOK, UNICODE, 101.0).cut(width).width <= width


def test_a_dead_host_says_why_in_words() -> None:
    """The reason where the numbers would be, without the host's name, and its last sign of life."""
    b = Board([Host("node05")])
    b.sampled(HostSampled(100.0, "node05"))
    b.probed("node05", HostDown("node05", Trouble("auth", "node05: publickey refused: offered ~/.ssh/id")), 200)

    text = host_rows.row(b["node05"], host_rows.columns(120, ["node05"]), LOOK, UNICODE, 340.0).plain

    assert "× node05" in text
    assert "publickey refused  offered ~/.ssh/id" in text
    assert text.rstrip().endswith("seen 4m ago")


def test_old_values_dim_with_their_age() -> None:
    """Muted after a few seconds, faint after more."""
    at = host_rows.columns(120, ["node01"])

    def ink(now: float) -> object:
        row = host_rows.row(host(), at, LOOK, UNICODE, now)
        return next(style for text, style in row.pieces if text.strip() == "97%")

    assert [ink(101), ink(106), ink(130)] == [LOOK.text, LOOK.muted, LOOK.faint]


def test_the_run_of_a_host() -> None:
    """Its ranks here; a GPU that works for nobody we see is in use; one that rests is free."""
    shown = host()
    at = host_rows.columns(120, ["node01"])
    used = host_rows.row(shown, at, LOOK, UNICODE, 101).plain
    shown.gpus[0].reading = GpuReading(0, 0.0)
    free = host_rows.row(shown, at, LOOK, UNICODE, 101).plain
    shown.uses = (Use("llm-7f3", "llm", "node01", 0, (0, 1, 2, 3), {0: (0, 1, 2, 3)}),)

    assert used.rstrip().endswith("in use")
    assert free.rstrip().endswith("free")
    assert host_rows.row(shown, at, LOOK, UNICODE, 101).plain.rstrip().endswith("llm-7f3 r0-3")


@pytest.mark.parametrize(("stops", "said"), [(False, "step 30 of 60   1m left"), (True, "last step 30 of 60")])
def test_a_run_that_is_stopped_has_no_time_left_on_its_host_either(stops: bool, said: str) -> None:
    shown = HostBoard(Host("node01"))
    shown.uses = (Use("llm-7f3", "llm", "node01", 0, (0,), {}),)
    state = apply(RunState(), Progressed(1.0, 0, "node01", {"step": 30.0, "total": 60.0}, {}, 2.0))
    state = apply(state, StopAsked(2.0, "user", 10.0)) if stops else state
    live = cast(Any, SimpleNamespace(plan=None, state=state))
    (line,) = host_lines.run_lines(shown, {"llm-7f3": live}, 120, LOOK, UNICODE, 3.0)
    assert said in line.plain and ("left" in line.plain) is not stops


def test_ascii_rows_are_ascii() -> None:
    """Every sign has its stand-in."""
    shown = host()
    at = host_rows.columns(120, ["node01"])

    assert host_rows.row(shown, at, LOOK, ASCII, 101).plain.isascii()
    assert gpu_row(shown, shown.gpus[0], gpu_columns(120), LOOK, ASCII, bold=False).plain.isascii()
    assert host_rows.totals(Totals(1, 1, 1, 8, 4, 1), LOOK, ASCII).plain.isascii()


# which rows


def test_filters() -> None:
    """Text, regex, inverse, label, and regex that is none."""
    b = Board([Host("gw1", labels={"rack": "r7"}), Host("node01"), Host("node10")])
    b.probed("node10", HostDown("node10", Trouble("timeout", "no answer")), 1)

    def names(text: str) -> list[str]:
        return [h.name for h in select.chosen(b.hosts.values(), select.Filter(text))]

    assert names("node") == ["node01", "node10"]
    assert names("^(gw|node01)") == ["gw1", "node01"]
    assert names("!node") == ["gw1"]
    assert names("rack=r7") == ["gw1"]
    assert names("rack=r8") == []
    assert names("state=down") == ["node10"]
    assert names("no answer") == ["node10"]
    assert names("(") == []
    assert names("") == ["gw1", "node01", "node10"]


def test_orders() -> None:
    """Numbers in names count as numbers; the busiest first; unknown last, also when reversed."""
    b = Board([Host("n10"), Host("n9"), Host("n11")])
    b.sampled(HostSampled(1.0, "n10", (GpuReading(0, 10.0),)))
    b.sampled(HostSampled(1.0, "n9", (GpuReading(0, 90.0),)))

    def names(sort: str, reverse: bool = False) -> list[str]:
        return [h.name for h in select.chosen(b.hosts.values(), select.Filter(), sort, reverse=reverse)]

    assert names("file") == ["n10", "n9", "n11"]
    assert names("host") == ["n9", "n10", "n11"]
    assert names("util") == ["n9", "n10", "n11"]
    assert names("util", True) == ["n10", "n9", "n11"]
    assert all(sorted(names(sort)) == ["n10", "n11", "n9"] for sort in select.SORTS)


def test_marks() -> None:
    """A range is marked whichever end comes first."""
    names = ["a", "b", "c", "d"]

    assert select.span(names, "c", "a") == {"a", "b", "c"}
    assert select.span(names, "gone", "b") == {"b"}
    assert select.toggled(frozenset({"a", "b"}), ["a"]) == {"b"}
    assert select.toggled(frozenset({"a"}), ["a", "b"]) == {"a", "b"}


# the form


@pytest.mark.parametrize(
    ("name", "typed", "line"),
    [
        ("hosts", "node[01-04]", 'hosts: "node[01-04]"'),
        ("hosts", "@h100 x4", "hosts: {group: h100, count: 4}"),
        ("hosts", "gpu=h100", "hosts: {label: {gpu: h100}}"),
        ("gpus", "8", "gpus_per_host: 8"),
        ("gpus", "0-2,5", "gpus_per_host: [0, 1, 2, 5]"),
        ("gpus", "all", "gpus_per_host: all"),
        ("fabric", "ib", "fabric: {kind: ib}"),
        ("backend", "nccl", "backend: nccl"),
        ("rendezvous", "file", "rendezvous: {file: /rendezvous}"),
        ("command", "python train.py --lr '1 2'", 'command: [python, train.py, --lr, "1 2"]'),
        ("command", "echo 'open", 'command: "echo \'open"'),
    ],
)
def test_a_field_writes_the_job_file(name: str, typed: str, line: str) -> None:
    """In the spelling a person would use."""
    chosen = next(f for f in FIELDS if f.id == name)

    assert changed("name: a\n", chosen, typed, None) == f"name: a\n{line}\n"


def test_an_emptied_field_leaves_the_file() -> None:
    """And `auto` is what holds without the key."""
    backend = next(f for f in FIELDS if f.id == "backend")

    assert changed("name: a\nbackend: nccl\n", backend, "auto", None) == "name: a\n"


def test_hosts_as_one_types_them() -> None:
    """Names folded, groups with their @, labels, counts."""
    assert hosts_text(Job("j", HostChoice(names=("n1", "n2")))) == "n[1-2]"
    assert hosts_text(Job("j", HostChoice(names=("node[01-04]",)))) == "node[01-04]"
    assert hosts_text(Job("j", HostChoice(group="h100", count=4))) == "@h100 x4"
    assert hosts_text(Job("j")) == ""


# the plan's rows


def test_warnings_alike_are_one() -> None:
    """Eight busy GPUs are one remark."""
    warnings = [f"node01: GPU {i} is busy" for i in range(8)] + ["something else"]

    assert plan_lines.folded_warnings(warnings) == [
        ("node01: GPU 0 is busy", "and 7 more like it"), ("something else", ""),
    ]  # fmt: skip


def test_problems_lead_to_their_lines() -> None:
    """A problem's rows know the line of the job file."""
    shown = plan_lines.Preview(problems=(Problem("job.yaml", 3, 1, "imagee", "unknown key, did you mean 'image'?"),))

    rows = plan_lines.plan_rows(shown, 60, LOOK, UNICODE)

    assert [r.line.plain.strip() for r in rows if r.place == 3] == [
        "▌ line 3  imagee", "▌ unknown key, did you mean 'image'?",
    ]  # fmt: skip
    assert "1 error" in rows[0].line.plain


@pytest.mark.parametrize(("hosts", "width", "shown"), [(8, 23, 16), (8, 22, 8), (4, 7, 4), (4, 6, 4), (9, 6, 6)])
def test_a_group_has_its_last_tank_where_they_just_fit(hosts: int, width: int, shown: int) -> None:
    """A column of just their width has no ellipsis in it."""
    line = Line()
    group_rows._tanks(
        line, [HostBoard(Host(f"h{i}"), trouble=Trouble("dns", "")) for i in range(hosts)], width, LOOK, UNICODE
    )
    assert (line.width, line.plain.count(UNICODE.bad), "…" in line.plain) == (width + 2, shown, False)


def test_why_a_host_is_down_is_whole_on_a_narrow_window() -> None:
    """The fingerprint is what a newcomer is to compare, and the end of the advice says how to go on."""
    reason = "is not in known_hosts; it shows the ssh-ed25519 key SHA256:nVIYFxDpjA441wL5qh2rMkqZpT0vXbQ9sYdEwCfGuHk"
    hint = "compare the fingerprint with the host's administrator, then log in once: `ssh -p 2222 10.77.0.11`"
    host = HostBoard(Host("h1"), trouble=Trouble("host_key", f"h1 {reason}", hint))
    shown = host_lines.preview(host, {}, 80, 20, LOOK, UNICODE, 0.0)
    assert max(line.width for line in shown) < 80
    text = " ".join(" ".join(line.plain for line in shown).split())
    assert reason in text and hint in text
