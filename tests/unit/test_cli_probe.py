"""`distui probe`: rows for eyes, JSON for programs, and hosts that are dead."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from distui.cli.actions.probe import _redraw
from distui.cli.console import Console
from distui.cli.printing.hostrows import Rows, gpu_name, gpus, ib, speed, warnings
from distui.errors import HostAuthError, HostUnreachable
from distui.facts.host import Address, Engine, Gpu, Gpus, HostDown, HostFacts, IbPort, Nic, Trouble
from distui.session import Completed

FACTS = HostFacts(
    "node01",
    "node01",
    rtt_ms=2.1,
    nics=(Nic("lo", "loopback", True), Nic("eno1", "ethernet", True, None, None, 10000, (Address("10.0.0.1", 24),))),
    ib=tuple(IbPort(f"mlx5_{i}", 1, "ACTIVE", "InfiniBand", 400.0, f"ib{i}") for i in range(8)),
    gpu=Gpus(tuple(Gpu(i, f"GPU-{i}", "NVIDIA H100 80GB HBM3", utilization_pct=96.0) for i in range(8))),
    engine=Engine("docker", ("docker",), server="27.3.1"),
)


def test_a_row_fits_80_columns() -> None:
    """A full host with eight GPUs and eight InfiniBand ports takes one line of 80 columns."""
    rows = Rows(["node01", "node02"])

    assert rows.header().split() == ["NAME", "STATE", "GPU", "NET", "IB", "ENGINE", "DISK"]
    (line,) = rows.of("node01", FACTS)
    assert line.split() == ["node01", "up", "2ms", "8xH100-80GB", "96%", "eno1", "10G", "8x400G", "docker", "27.3", "-"]
    assert len(line) <= 80


def test_a_dead_host_keeps_its_row_with_reason_and_hint() -> None:
    """What went wrong stands in the row, what to do below it."""
    down = HostDown("node02", Trouble("auth", "node02: publickey refused", "ssh -v node02"))

    assert Rows(["node01", "node02"]).of("node02", down) == [
        "node02  down      publickey refused",
        "        try: ssh -v node02",
    ]


def test_what_is_wrong_with_a_living_host_is_said_below_it() -> None:
    """Lost GPUs, dead ports, a clock that is off and a driver that does not answer are sentences."""
    lost = Gpu(5, "GPU-5", "H100", problem=Trouble("lost", "GPU is lost", "reboot"))
    facts = HostFacts(
        "n",
        "n",
        gpu=Gpus((lost,)),
        ib=(IbPort("mlx5_3", 1, "DOWN", "InfiniBand", None), IbPort("mlx5_4", 1, "DOWN", "Ethernet", None)),
        clock_offset_ms=-2500.0,
        engine=Engine("docker", problem=Trouble("denied", "permission denied", "usermod -aG docker")),
        warnings=("no ip command",),
    )

    assert list(warnings(facts)) == [
        "GPU 5: GPU is lost; try: reboot",
        "mlx5_3 port 1 is DOWN",
        "docker: permission denied; try: usermod -aG docker",
        "its clock is 2.50 s behind; run ntp or chrony there",
        "no ip command",
    ]
    assert gpus(facts) == "1xH100!"
    assert ib(facts.ib) == "0/1!"


def test_figures_are_short() -> None:
    """Speeds and model names in as few letters as tell them."""
    assert [speed(n) for n in (None, -1, 100, 2500, 100000)] == ["", "", "100M", "2.5G", "100G"]
    assert gpu_name(Gpu(0, "", "NVIDIA GeForce RTX 4090")) == "RTX-4090"
    assert gpu_name(Gpu(0, "", "AMD Instinct MI300X", vendor="amd")) == "MI300X"


def test_dead_hosts_exit_3(cli: Any, fake_hosts: Any) -> None:
    """Every host has its row, the summary counts them, and scripts see it in the exit code."""
    connector = fake_hosts(b=HostAuthError("b", "b refuses the key", hint="ssh-copy-id b"))
    done = cli("probe", "-H", "a,b")

    assert done.code == 3
    rows = done.out.splitlines()
    assert sorted(r.split()[:2] for r in rows if "down" in r) == [["a", "down"], ["b", "down"]]
    assert "      try: ssh-copy-id b" in rows
    assert "2 hosts, 0 up, 2 down, 0 GPUs" in done.err
    assert connector.closed


def test_dead_hosts_as_json(cli: Any, fake_hosts: Any) -> None:
    """JSON keeps dead hosts with code, message and hint; NDJSON has one object a host."""
    fake_hosts()
    value = json.loads(cli("probe", "-H", "a", "--json").out)
    assert value["schema"] == "distui/probe/v1"
    assert value["hosts"][0]["state"] == "down"
    assert value["hosts"][0]["error"] == {"code": "refused", "message": "a refuses connections", "hint": "ssh -v a"}

    lines = cli("probe", "-H", "a,b", "-o", "ndjson").out.splitlines()
    assert sorted(json.loads(line)["name"] for line in lines) == ["a", "b"]


def test_probe_asks_only_the_hosts_chosen(cli: Any, fake_hosts: Any) -> None:
    """SET, -H and -l choose hosts of the inventory; unknown names contact nobody."""
    Path("hosts.yaml").write_text(
        "version: 1\nhosts:\n  node[01-03]: {labels: {gpu: h100}}\n  gw: {}\ngroups:\n  g: node[01-02]\n"
    )
    connector = fake_hosts()
    cli("probe", "@g")
    assert sorted(connector.asked) == ["node01", "node02"]
    connector.asked.clear()
    cli("probe", "-l", "gpu=h100", "node03,gw")
    assert connector.asked == ["node03"]
    connector.asked.clear()
    done = cli("probe", "nod01")
    assert (done.code, connector.asked) == (2, [])
    assert "did you mean 'node01'" in done.err


def test_no_inventory_says_what_to_do(cli: Any, fake_hosts: Any) -> None:
    """Without hosts.yaml and -H nothing is contacted and the message names both ways out."""
    connector = fake_hosts()
    done = cli("probe")

    assert (done.code, connector.asked) == (2, [])
    assert "hosts.yaml" in done.err
    assert "-H" in done.err


@pytest.mark.parametrize("hosts", ["a", "a,b,c"])
@pytest.mark.parametrize("form", ["table", "ndjson"])
def test_rows_that_nobody_reads_any_more_end_quietly(
    cli: Any, fake_hosts: Any, home: Path, monkeypatch: pytest.MonkeyPatch, hosts: str, form: str
) -> None:
    """`distui probe | head -1`: the reader is gone when the hosts answer, side by side."""
    read, write = os.pipe()
    reader = os.fdopen(read)

    def answer(host: str, argv: Sequence[str]) -> Completed:
        reader.close()
        raise HostUnreachable(host, "gone")

    fake_hosts(answer)
    with os.fdopen(write, "w") as stdout, monkeypatch.context() as patch:
        patch.setattr("sys.stdout", stdout)
        done = cli("probe", "-H", hosts, "-o", form)

    assert (done.code, done.err) == (0, "")
    assert not (home / ".local/state/distui/crashes").exists()


def test_save_keeps_the_facts(cli: Any, fake_hosts: Any, home: Path) -> None:
    """--save writes the JSON document to the cache folder, private to the user."""
    fake_hosts()
    cli("probe", "-H", "a", "--save")

    path = home / ".cache/distui/facts.json"
    assert json.loads(path.read_text())["hosts"][0]["name"] == "a"
    assert path.stat().st_mode & 0o777 == 0o600


def test_rows_from_a_hostile_host_cannot_steer_the_terminal(cli: Any, fake_hosts: Any) -> None:
    """Escape sequences in what a host says are not passed on."""
    fake_hosts(a=HostAuthError("a", "a says \x1b]0;owned\x07\x1b[2Jhello"))
    assert "\x1b" not in cli("probe", "-H", "a").out


@pytest.mark.parametrize(("rows", "shown"), [(12, 7), (60, 40), (0, 40)])
def test_a_picture_is_no_longer_than_its_terminal(monkeypatch: pytest.MonkeyPatch, rows: int, shown: int) -> None:
    """With `--watch` each would scroll the one before away; of what is cut hosts that are down are the last."""
    down = HostDown("n40", Trouble("auth", "publickey refused"))
    results = {f"n{i}": HostFacts(f"n{i}", f"n{i}") for i in range(40)} | {"n40": down}
    out = Console(io.StringIO(), io.StringIO(), out_colour=False, err_colour=False, width=80, redraws=True)
    monkeypatch.setattr(Console, "size", lambda self: (80, rows))
    settings: Any = SimpleNamespace(output="table")
    _redraw(settings, out, results)
    text: str = out.out.getvalue()  # type: ignore[attr-defined]
    lines = text.splitlines()
    assert len([line for line in lines if " up " in line]) == shown - (rows == 12)
    assert not rows or len(lines) <= rows - 2
    assert "publickey refused" in text
    assert ("and 34 rows more, hosts that are down first" in text) == (rows == 12)


def test_a_picture_is_no_wider_than_its_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of hosts with long names took two rows of the terminal each, and scrolled the picture before away."""
    names = [f"gpu-node{i:02}" for i in range(16)]
    failed = HostDown("gpu-node16", Trouble("auth", "publickey refused " * 9, "ssh -v " + "x" * 99))
    results = {name: replace(FACTS, host=name) for name in names} | {"gpu-node16": failed}
    out = Console(io.StringIO(), io.StringIO(), out_colour=False, err_colour=False, width=80, redraws=True)
    monkeypatch.setattr(Console, "size", lambda self: (80, 24))
    settings: Any = SimpleNamespace(output="table")
    _redraw(settings, out, results)
    lines = out.out.getvalue().removeprefix("\x1b[H\x1b[2J").splitlines()  # type: ignore[attr-defined]
    assert max(map(len, lines)) == 80
    assert len(lines) <= 22 and all(any(name in line for line in lines) for name in names)
