"""Long names: they never cut a number, no other text does, and names that share their beginning are told apart."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from distui.facts.host import Address, Engine, HostFacts, Nic, Trouble
from distui.monitor.host_board import HostBoard
from distui.plan.model import RunPlan
from distui.plan.plan import plan
from distui.runs.lines.events import GpuReading
from distui.runs.report.history import RunRow
from distui.runs.report.rank_rows import RankRow
from distui.spec.hosts.inventory import Host, HostPick, Inventory
from distui.spec.job.job import Job
from distui.tui.doctor.columns import HostColumns
from distui.tui.hosts import rows as host_rows
from distui.tui.launch.plan_table import plan_table
from distui.tui.paint.glyphs import UNICODE
from distui.tui.paint.paint import Line, cut, cut_host, cut_left, cut_name, names_apart
from distui.tui.run.ranks import rank_lines
from distui.tui.run.ranks.rank_lines import Columns, step_words
from distui.tui.runs.columns import RunColumns, longest_names, run_line
from tests.unit.test_tui_figures import LOOK

LONG = ("averyverylonghostname-node0001", "averyverylonghostname-node0002")


@pytest.mark.parametrize(
    ("name", "width", "shown"),
    [
        ("node01", 8, "node01"),
        ("averyverylonghostname-node0001", 8, "ave…0001"),
        ("averyverylonghostname-node0001", 12, "averyve…0001"),
        ("llm-pretraining-8ff4", 16, "llm-pretrai…8ff4"),
        ("node01.cluster.example.com", 12, "node01…"),
        ("node-a.rack7.example.com", 7, "node-a…"),
        ("averyverylonghostname-node0001.cluster.example.com", 12, "averyve…0001"),
        ("gpu-12345678.example.com", 8, "gpu…5678"),
        ("10.20.30.40", 8, "10.…0.40"),
        ("node01", 1, "n"),
        ("node01", 0, ""),
    ],
)
def test_both_ends_of_a_name_are_kept(name: str, width: int, shown: str) -> None:
    """And of a host's full name the first label, whose domain others have, too."""
    assert cut_host(name, width) == shown


@pytest.mark.parametrize(
    ("name", "width", "shown"),
    [
        ("resnet.imagenet.base", 16, "resnet.imag…base"),
        ("resnet.imagenet.ablate", 16, "resnet.imag…late"),
        ("job.v1.final", 8, "job…inal"),
        ("node01.cluster.example.com", 26, "node01.cluster.example.com"),
    ],
)
def test_a_name_with_dots_has_no_domain(name: str, width: int, shown: str) -> None:
    """Of a job, a container, a file."""
    assert cut_name(name, width) == shown


@given(st.text("abc0-.", max_size=40), st.integers(0, 30))
def test_a_name_is_never_wider_than_asked(name: str, width: int) -> None:
    """Whatever it is."""
    assert cell_len(cut_name(name, width)) <= width
    assert cell_len(cut_host(name, width)) <= width


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("no ssh server listens on port 20001", 35, "no ssh server listens on port 20001"),
        ("no ssh server listens on port 20001", 34, "no ssh server listens on port…"),
        ("port 20001: nothing listens", 11, "port 20001…"),
        ("port 20001: nothing listens", 10, "port…"),
        ("a loss of 12.75 at step 9", 14, "a loss of…"),
        ("1,234,567 lines", 6, "…"),
        ("lr 1.5e-05 is set", 8, "lr…"),
        ("took 12ms there", 8, "took…"),
        ("took 12ms there", 10, "took 12ms…"),
        ("97% of 12GiB are used", 11, "97% of…"),
        ("n1 (10.0.0.12:2001) refuses", 16, "n1 (10.0.0.12:…"),
        ("n1 (10.0.0.12:2001) refuses", 12, "n1 (…"),
        ("node0012 is down", 8, "node…"),
        ("20001", 1, "…"),
        ("20001", 0, ""),
        ("a word", 1, "a"),
        ("日本 20001", 8, "日本…"),
        ("日本", 3, "日…"),
    ],
)
def test_a_number_is_never_cut(text: str, width: int, shown: str) -> None:
    """It would read as another one; the words before it stay."""
    assert cut(text, width) == shown


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("/data/run-20001/x.yaml", 12, "…/x.yaml"),
        ("/data/run-20001/x.yaml", 13, "…20001/x.yaml"),
        ("10.0.0.12:29500", 9, "…:29500"),
        ("step 12.75s", 5, "…"),
    ],
)
def test_nor_from_its_left(text: str, width: int, shown: str) -> None:
    """Of paths and addresses the end is kept."""
    assert cut_left(text, width) == shown


@example("0e0.1", 2)
@given(st.text("ab 0123.,%e-日", max_size=40), st.integers(0, 30))
def test_what_is_left_of_a_text_has_its_numbers(text: str, width: int) -> None:
    """Whatever it is, and in a row of pieces."""
    numbers = set(re.findall(r"[0-9]+(?:[.,][0-9]+)*", text))
    for shown in (cut(text, width), cut_left(text, max(1, width)), Line().put(text).cut(width).plain):
        assert cell_len(shown) <= max(1, width)
        assert numbers.issuperset(re.findall(r"[0-9]+(?:[.,][0-9]+)*", shown))


@pytest.mark.parametrize("width", range(60, 140))
def test_the_port_of_a_host_that_is_down_is_whole(width: int) -> None:
    """Or not there, in its row: at every width."""
    host = HostBoard(Host("n1"))
    host.trouble = Trouble("refused", "n1 (127.0.0.1:20001) refuses connections: no ssh server listens on port 20001")
    shown = host_rows.row(host, host_rows.columns(width, ["n1"]), LOOK, UNICODE, 0.0).plain
    assert "refuses" in shown
    assert set(re.findall(r"(?:port |:)(\d+)", shown)) <= {"20001"}


@given(st.integers(0, 10**14), st.integers(4, 6))
def test_a_step_keeps_its_unit(step: int, room: int) -> None:
    """In a narrow column it has fewer digits, and is about what it was."""
    shown = step_words(float(step), room)
    factor = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}.get(shown[-1], 1)
    assert len(shown) <= room
    assert float(shown.rstrip("kMGT")) * factor == pytest.approx(step, rel=0.06)


@pytest.mark.parametrize(
    ("names", "width", "shown"),
    [
        (("node01", "node02"), 8, ("node01", "node02")),
        (LONG, 8, ("ave…0001", "ave…0002")),
        (("gpu1.rack7.example.com", "gpu2.rack7.example.com"), 8, ("gpu1…", "gpu2…")),
        (("gpu1.rack7.example.com", "gpu1.rack8.example.com"), 8, ("….rack7…", "….rack8…")),
        (("trainer-a-of-the-lab-0001", "trainer-b-of-the-lab-0001"), 8, ("…iner-a…", "…iner-b…")),
        (("rack12-node07-ib0", "rack12-node08-ib0"), 8, ("…e07-ib0", "…e08-ib0")),
        (("alpha-of-the-cluster-0001", "bravo-of-the-cluster-0001"), 8, ("alp…0001", "bra…0001")),
        (("averyverylonghostname-node0001",), 8, ("ave…0001",)),
        (("a-long-beginning-7-a-long-end-1-x", "a-long-beginning-8-a-long-end-2-x"), 4, ("…1-x", "…2-x")),
        ((), 8, ()),
    ],
)
def test_hosts_beside_each_other_are_told_apart(names: tuple[str, ...], width: int, shown: tuple[str, ...]) -> None:
    """By both ends where that tells them; else by the part in which they differ."""
    assert names_apart(names, width) == dict(zip(names, shown, strict=True))


@given(st.lists(st.text("ab1-.", min_size=1, max_size=30), max_size=6, unique=True), st.integers(1, 30))
def test_names_that_are_told_apart_have_their_width(names: list[str], width: int) -> None:
    """Whatever they are; those that fit are whole."""
    found = names_apart(names, width)
    assert all(cell_len(name) <= width for name in found.values())
    if all(len(name) <= width for name in names):
        assert found == dict(zip(names, names, strict=True))


@pytest.mark.parametrize(
    ("names", "known", "room", "tells", "cell", "fit"),
    [
        (("node01",) * 5, 5, 76, True, 8, 5),
        (LONG, 2, 76, True, 17, 2),
        (LONG, 2, 156, True, 24, 2),
        (LONG * 4, 8, 156, True, 13, 8),
        (LONG * 4, 8, 76, True, 8, 5),
        (("node01",) * 64, 64, 86, True, 8, 6),
        (LONG * 2, 4, 45, False, 10, 4),
        (LONG * 2, 64, 45, False, 8, 3),
        (LONG * 3, 6, 45, False, 8, 3),
        ((), 0, 45, False, 8, 0),
    ],
)
def test_columns_of_hosts_are_as_wide_as_there_is_room(
    names: tuple[str, ...], known: int, room: int, tells: bool, cell: int, fit: int
) -> None:
    """And no wider than a name; the finding keeps its room, and so does what says how many more there are."""
    columns = HostColumns(names, known, room, tells)
    assert (columns.cell, columns.fit) == (cell, fit)
    assert (columns.cell + 1) * min(fit, len(names)) <= room


def ranks(name: str = "") -> list[RankRow]:
    """One that is quiet and behind, and one that works."""
    quiet: dict[str, Any] = {"word": "quiet", "tone": "watch", "age": 39.0, "step": 35.0, "lag": 69.0, "name": name}
    busy: dict[str, Any] = {"word": "ok", "tone": "", "util": 97.0, "age": 2.0, "step": 104.0, "lag": 0.0, "name": name}
    return [RankRow(13, "h", (), "quiet", **quiet), RankRow(14, "h", (), "running", **busy)]


@pytest.mark.parametrize("width", [24, 25, 26, 36, 37, 38])
@pytest.mark.parametrize("name", ["", "ps/0", "worker/12"])
def test_the_lag_is_apart_from_the_number_of_a_pane(width: int, name: str) -> None:
    """With a scroll bar beside it and without, below its head, whatever ranks are called."""
    rows = ranks(name)
    at = Columns.of(rows, width)
    number = max(2, len(name))
    quiet, busy = (
        rank_lines.rank_line(LOOK, UNICODE, row, at, width, number=number, here=False, pane="1").plain for row in rows
    )
    head = Line().ends_with(at.heads(LOOK), width - rank_lines.PANE, gap=0).plain
    assert len(quiet) == len(busy) == width
    if at.steps:
        assert (quiet.split()[-3:], busy.split()[-3:]) == (["35", "69", "1"], ["104", "0", "1"])
        assert head.endswith("LAG") and quiet[len(head) - 2 : len(head) + 2] == "69 1"
    else:
        assert (quiet.split()[-2:], busy.split()[-2:]) == (["39s", "1"], ["2s", "1"])


@pytest.mark.parametrize(
    ("after", "shown"),
    [
        (0.0, "0.0 s"), (2.94, "+2.9 s"), (-9.94, "-9.9 s"), (9.96, "+10 s"), (39.2, "+39 s"), (-120.4, "-120 s"),
        (999.4, "+999 s"), (3599.0, "+59m"), (-7300.0, "-2h"), (4e6, "+46d"),
    ],
)  # fmt: skip
def test_when_a_rank_ended_is_never_cut(after: float, shown: str) -> None:
    """After the first failure, or before; with fewer digits when that is long."""
    row = RankRow(4, "h", (), "stopped", "stopped", "muted", after=after)
    at = Columns.of([row], 36)
    line = rank_lines.rank_line(LOOK, UNICODE, row, at, 36, number=2, here=False, pane="1").plain
    assert line.split("stopped")[1].rstrip("1").strip() == shown


def test_hosts_of_a_rank_list_are_told_apart() -> None:
    """Open and folded."""
    for name, end in zip(LONG, ("0001", "0002"), strict=True):
        folded = rank_lines.folded_line(LOOK, UNICODE, ranks(), (), name, Columns.of(ranks(), 26), 26).plain
        assert f"…{end}" in folded or f"e{end}" in folded
        heads = Columns(steps=False, others=True, load=True).heads(LOOK)
        assert end in rank_lines.host_line(LOOK, ranks(), name, 25, heads).plain


@pytest.mark.parametrize("width", [24, 26, 36, 38, 50])
@pytest.mark.parametrize("count", [1, 8])
def test_a_folded_host_has_step_and_lag_of_its_slowest_rank(width: int, count: int) -> None:
    """Below their heads, whatever is left beside them for its name and its GPUs."""
    rows = [replace(row, gpus=(index,)) for index, row in enumerate(ranks() * 4)][:count]
    gpus = [GpuReading(index, 50.0, 0, 1) for index in range(count)]
    at = Columns.of(rows, width)
    folded = rank_lines.folded_line(LOOK, UNICODE, rows, gpus, "node-0042", at, width).plain
    head = Line().ends_with(at.heads(LOOK), width - rank_lines.PANE, gap=0).plain
    assert len(folded) == len(head) and folded.split()[-2:] == ["35", "69"]
    assert "0042" in folded
    none = [replace(row, step=None, lag=None) for row in rows]
    assert rank_lines.folded_line(LOOK, UNICODE, none, gpus, "node-0042", at, width).plain.split()[-2:] == ["-", "-"]


def test_a_folded_host_without_gpus_counts_its_ranks() -> None:
    """In the singular, too."""
    at = Columns(steps=False, others=True, load=False)
    for rows, words in ((ranks()[:1], "1 rank"), (ranks(), "2 ranks")):
        assert rank_lines.folded_line(LOOK, UNICODE, rows, (), "h1", at, 30).plain.endswith(words)


@pytest.mark.parametrize("width", [60, 79, 99, 119, 199])
def test_hosts_are_told_apart(width: int) -> None:
    """In their list, at every width; where there is room they are whole."""
    at = host_rows.columns(width, LONG)
    shown = [host_rows.row(HostBoard(Host(name)), at, LOOK, UNICODE, 0.0).plain for name in LONG]
    assert shown[0] != shown[1]
    assert host_rows.columns(199, LONG).host == 20


def planned(*names: str, **job: Any) -> RunPlan:
    """A job on these hosts."""
    nics = {
        name: (Nic("enp1s0f0np0", "ethernet", True, addresses=(Address(f"10.100.200.{i + 1}", 24),)),)
        for i, name in enumerate(names)
    }
    facts = {n: HostFacts(host=n, hostname=n, home="/u", nics=nics[n], engine=Engine("docker")) for n in names}
    made = plan(
        Job("j", image="i", command=("p",), launcher="torchrun", **job), Inventory(tuple(map(Host, names))),
        [HostPick(name) for name in names], facts, run_id="r", owner="o", version="v",
    )  # fmt: skip
    assert isinstance(made, RunPlan), made
    return made


@pytest.mark.parametrize("width", [48, 58, 64, 79, 119])
@pytest.mark.parametrize("names", [("demo1", "demo2"), LONG])
def test_where_ranks_meet_is_never_cut(names: tuple[str, str], width: int) -> None:
    """Its port is whole beside long names and the text of the job; and hosts are told apart."""
    made = planned(*names)
    head, first, second = (line.plain for line in plan_table(made, width, LOOK))
    assert head.endswith("RENDEZVOUS") or head.rstrip().endswith("RENDEZVOUS")
    assert first.endswith(f"here :{made.master_port}") and second.endswith("node 0")
    assert max(map(len, (head, first, second))) < width
    assert first.split()[1 if "NODE" in head else 0] != second.split()[1 if "NODE" in head else 0]


def test_jobs_with_dots_are_told_apart_and_hosts_lose_their_domain() -> None:
    """In the same row of Runs."""
    jobs = ("resnet.imagenet.base", "resnet.imagenet.ablate")
    runs = [RunRow(f"r-{i}", job, "failed", ("node01.cluster.example.com",), 2) for i, job in enumerate(jobs)]
    at = RunColumns.of(119, longest_names(runs))
    lines = [run_line(r, at, 119, LOOK, UNICODE, marked=False, here=False).plain for r in runs]
    assert "…base" in lines[0] and "…late" in lines[1]
    assert "node01… " in lines[0] or "node01.cluster.example.com" in lines[0]


def test_a_run_keeps_the_end_of_its_name() -> None:
    """And has the room that is left, where there is some."""
    runs = [RunRow(f"averylongjobname-of-somebody-{end}", "averylongjobname-of-somebody", "failed", ("h1",), 2)
            for end in ("8ff4", "a1c0")]  # fmt: skip
    for width, shown in ((79, "averylongjo…8ff4"), (119, "averylongjo…8ff4"), (199, runs[0].run)):
        at = RunColumns.of(width, longest_names(runs))
        lines = [run_line(r, at, width, LOOK, UNICODE, marked=False, here=False).plain for r in runs]
        assert shown in lines[0] and shown not in lines[1]
    assert RunColumns.of(199, (60, 60)).job == 15
