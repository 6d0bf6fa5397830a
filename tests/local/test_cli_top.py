"""`distui top`: rows, CSV and JSON of hosts as values, and the verb over real ssh on loopback."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from distui.cli.actions.top import _Shower
from distui.cli.console import Console
from distui.cli.printing import toprows
from distui.facts.host import Gpu, GpuProcess, Gpus, HostDown, HostFacts, Trouble
from distui.monitor.board import Board
from distui.monitor.host_board import HostBoard
from distui.runs.hosts.uses import Use
from distui.runs.lines.events import GpuReading, HostSampled
from distui.spec.hosts.inventory import Host


@pytest.fixture
def hosts() -> list[HostBoard]:
    """A host with a busy GPU of a run and one of a stranger, one without GPUs, one that refuses the login."""
    board = Board([Host("n1"), Host("gw"), Host("n2")])
    stranger = GpuProcess(4242, "/opt/x/python a, b", 40_960, "GPU-1", user="alice")
    gpus = (Gpu(0, "GPU-0", "NVIDIA H100 80GB HBM3", memory_total_mib=81_559),
            Gpu(1, "GPU-1", "NVIDIA H100 80GB HBM3", memory_total_mib=81_559, processes=(stranger,)))  # fmt: skip
    board.probed("n1", HostFacts("n1", "n1", gpu=Gpus(gpus)), 1.0)
    board.probed("gw", HostFacts("gw", "gw"), 1.0)
    board.probed("n2", HostDown("n2", Trouble("auth", "n2: publickey refused", "ssh -v n2")), 1.0)
    busy = GpuReading(0, 97.0, 77_926, 81_559, 84.0, 641.2, 700.0, 1320, 3.1e9, 0.9e9, 0, 0x20, 87.0)
    board.sampled(HostSampled(2.0, "n1", (busy, GpuReading(1)), {"eth0": (2e9, 1e9)}))
    board.sampled(HostSampled(2.0, "gw", (), {"eth0": (10.0, 0.0)}, cpu_pct=12.3, load=0.4))
    board.used([Use("r1", "job", "n1", 0, (8,), {0: (8,)}, world_size=16)], 2.0)
    return list(board.hosts.values())


def test_a_row_per_gpu_and_one_for_a_host_without(hosts: list[HostBoard]) -> None:
    """What is unknown is empty; the host's traffic stands once; strangers have a mark."""
    rows = [dict(zip(toprows.HEADER[:13], row, strict=False)) | {"OWNER": row[-1]} for row in toprows.rows(hosts)]
    assert [(r["HOST"], r["GPU"], r["UTIL"], r["MEMORY"], r["OWNER"]) for r in rows] == [
        ("n1", "0", "97%", "76/80 GiB", "r1 r8"),
        ("n1", "1", "", "", "alice python!"),
        ("gw", "", "12%", "", ""),
    ]
    assert (rows[0]["SM"], rows[0]["TEMP"], rows[0]["ECC"], rows[1]["ECC"]) == ("1320 hot", "84C", "0", "")
    assert (rows[0]["NET IN"], rows[1]["NET IN"]) == ("2.0 GB/s", "")
    assert list(toprows.gone(hosts)) == ["n2  down: publickey refused"]
    assert [row[-1] for row in toprows.process_rows(hosts)] == ["of no run !"]


def test_json_has_numbers_and_null(hosts: list[HostBoard]) -> None:
    """And the remarks of the UI."""
    n1, gw, n2 = (toprows.host_json(host, 3.0) for host in hosts)
    gpus: Any = n1["gpus"]
    assert (gpus[0]["util_pct"], gpus[0]["slowdown_c"], gpus[0]["ranks"], gpus[0]["xid"]) == (97.0, 87.0, [8], None)
    assert gpus[0]["throttle"] == ["too hot (software slowdown)"]
    assert (gpus[1]["util_pct"], gpus[1]["throttle"], gpus[1]["processes"][0]["user"]) == (None, None, "alice")
    assert (n1["net"], n1["age_s"]) == ({"eth0": {"rx_bps": 2e9, "tx_bps": 1e9, "errors": None}}, 1.0)
    assert (gw["cpu_pct"], gw["gpus"], gw["gpu_mem_mib"]) == (12.3, [], None)
    assert (n2["state"], n2["error"]) == (
        "down", {"code": "auth", "message": "n2: publickey refused", "hint": "ssh -v n2"},
    )  # fmt: skip
    assert "GPU 0 at 84 °C, above 80 °C" in [r["text"] for r in n1["remarks"]]  # type: ignore[attr-defined]


def test_csv_is_read_back_by_its_heads(hosts: list[HostBoard]) -> None:
    """Commas and lists stay in their cell; a host without a GPU has a row."""
    rows = list(csv.DictReader(io.StringIO(toprows.csv_lines(hosts, procs=False, header=True))))
    assert [(r["host"], r["state"], r["index"]) for r in rows] == [
        ("n1", "up", "0"), ("n1", "up", "1"), ("gw", "up", ""), ("n2", "down", ""),
    ]  # fmt: skip
    assert (rows[0]["ranks"], rows[0]["run"], rows[1]["util_pct"]) == ("8", "r1", "")
    (process,) = csv.DictReader(io.StringIO(toprows.csv_lines(hosts, procs=True, header=True)))
    assert (process["host"], process["index"], process["name"]) == ("n1", "1", "/opt/x/python a, b")
    assert not toprows.csv_lines(hosts, procs=False, header=False).startswith("host,")


@pytest.mark.parametrize(("rows", "shown"), [(50, 40), (12, 7), (3, 0), (0, 40)])
def test_a_picture_is_no_longer_than_its_terminal(monkeypatch: pytest.MonkeyPatch, rows: int, shown: int) -> None:
    """Else each one would scroll the one before away. Hosts that are gone are seen, and that there are more rows."""
    board = Board([Host(f"n{i}") for i in range(5)] + [Host("gone")])
    for i in range(5):
        gpus = tuple(Gpu(g, f"GPU-{i}{g}", "NVIDIA H100") for g in range(8))
        board.probed(f"n{i}", HostFacts(f"n{i}", f"n{i}", gpu=Gpus(gpus)), 1.0)
    board.probed("gone", HostDown("gone", Trouble("auth", "gone: publickey refused")), 1.0)
    out = Console(io.StringIO(), io.StringIO(), out_colour=False, err_colour=False, width=80, redraws=True)
    monkeypatch.setattr(Console, "size", lambda self: (80, rows))
    settings: Any = SimpleNamespace(output="table")
    _Shower(settings, out, procs=False, once=False).show(list(board.hosts.values()))
    text: str = out.out.getvalue()  # type: ignore[attr-defined]
    lines = text.replace("\x1b[K", "").split("\n")
    assert len([line for line in lines if "H100" in line]) == shown
    assert not rows or len(lines) <= max(rows, 3)
    assert ("gone  down: publickey refused" in text) == (rows != 3)
    assert ("and 33 rows more" in text) == (rows == 12)


def test_once_over_ssh(cli: Any, demo_home: Path) -> None:
    """Rates are there, since the second sample is waited for."""
    done = cli("top", "--once", "--json", "-H", "demo1,demo2")
    assert done.code == 0, done.err
    reply = json.loads(done.out)
    assert (reply["schema"], [h["name"] for h in reply["hosts"]]) == ("distui/top/v1", ["demo1", "demo2"])
    assert all(h["state"] == "up" and h["net"] and h["cpu_pct"] is not None for h in reply["hosts"])
    assert "demo1" in cli("top", "--once", "demo1", "-H", "demo1").out


def test_a_host_that_does_not_answer_is_exit_3(cli: Any, fake_hosts: Any) -> None:
    """With the reason on its line; an interval that makes no sense is refused."""
    fake_hosts()
    done = cli("top", "--once", "-H", "n1")
    assert (done.code, done.out) == (3, "n1  down: refuses connections\n")
    assert cli("top", "--interval", "0", "-H", "n1").code == 2
