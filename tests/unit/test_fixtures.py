"""Every recorded command output of ../shared/fixtures parses to what its expected.json says.

The recordings have owners and stay where they are; without that folder there is nothing to collect.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from distui.facts import engine, infiniband, network
from distui.facts.gpus import amd, gpu, gpu_list
from distui.facts.host import Gpu
from distui.facts.values import Reply, tree

FOLDER = Path(__file__).parents[2].parent / "shared" / "fixtures"
EXPECTED: dict[str, Any] = (
    json.loads((FOLDER / "expected.json").read_text()) if (FOLDER / "expected.json").exists() else {}
)
Check = Callable[[str, dict[str, Any]], None]


def gpu_table(text: str, want: dict[str, Any]) -> None:
    gpus = gpu.parse_query(text)
    assert len(gpus) == len(want["gpus"])
    for got, wanted in zip(gpus, want["gpus"], strict=True):
        for key, value in wanted.items():
            assert getattr(got, key) == value, key
    assert gpu.nvidia(Reply(text, 0)).problem is None


def gpu_error(text: str, want: dict[str, Any]) -> None:
    trouble = gpu.classify(text, want.get("rc", 9))
    assert trouble is not None and trouble.code == want["cls"]
    reply = Reply(text, want.get("rc", 9))
    whole = gpu.nvidia(reply)
    assert whole.gpus == ()
    assert (whole.problem is None) == (want["cls"] == "not_installed")


def gpu_processes(text: str, want: dict[str, Any]) -> None:
    processes = gpu.parse_apps(text)
    assert [p.pid for p in processes] == want["pids"]
    if processes:
        assert [p.memory_mib for p in processes] == [2296, 1272, 7484]
        assert processes[2].name == "./gpu_burn"


def gpu_listing(text: str, want: dict[str, Any]) -> None:
    listed = gpu_list.parse_list(text)
    if "mig" in want:
        assert len(listed) == want["gpus"]
        assert [m.profile for m in listed[0].mig] == want["mig"]
    else:
        assert [item.name for item in listed] == want["gpus"]


def amd_monitor(text: str, want: dict[str, Any]) -> None:
    ((index, row),) = amd.parse_monitor(text).items()
    gpu = amd.sampled(Gpu(index, "", "AMD"), row)
    assert (gpu.utilization_pct, gpu.memory_used_mib) == (want["util_pct"], want["vram_used_mb"])


def amd_static(text: str, want: dict[str, Any]) -> None:
    gpus = amd.parse_static(text)
    assert [g.name for g in gpus] == want["gpus"]
    assert gpus == amd.parse_static(json.dumps(json.loads(text)["gpu_data"])), "the older, bare shape"
    assert (gpus[0].memory_total_mib, gpus[0].uuid) == (65520, "")


def rocm(text: str, want: dict[str, Any]) -> None:
    gpus = amd.parse_rocm(text)
    assert set(want["cards"]) <= {f"card{g.index}" for g in gpus}
    assert "MI100" in gpus[0].name
    assert (gpus[0].utilization_pct, gpus[0].temperature_c, gpus[0].power_w) == (0, 55, 36)
    assert gpus[0].memory_total_mib == 34342961152 // 2**20


def engine_error(text: str, want: dict[str, Any]) -> None:
    trouble = engine.classify(text, want["rc"])
    assert trouble.code == want["cls"]


def info_down(text: str, want: dict[str, Any]) -> None:
    assert engine.read_info(text) == {}
    read = engine.read_engine("docker", ("docker",), Reply('{"Server":null}', 1), Reply(text, 1))
    assert (read.nvidia_runtime, read.server) == (None, None)


def info_up(text: str, want: dict[str, Any]) -> None:
    info = engine.read_info(text)
    assert engine.has_nvidia_runtime(info) is want["nvidia_runtime"]
    assert info.get("LoggingDriver") == want.get("logging", "json-file")
    if "server" in want:
        assert info["ServerVersion"] == want["server"]


def version(text: str, want: dict[str, Any]) -> None:
    assert engine.server_version(text) == want["server"]
    down = want["server"] is None
    read = engine.read_engine("docker", ("docker",), Reply(text, want["rc"]), Reply("", want["rc"]))
    assert read.client == "28.2.2"
    assert (read.problem.code if read.problem else None) == ("daemon_down" if down else None)


def no_infiniband(text: str, want: dict[str, Any]) -> None:
    assert len(infiniband.ports_from_tree(tree(text))) == want["devices"]


def hca_to_netdev(text: str, want: dict[str, Any]) -> None:
    ports = infiniband.ports_from_tree(tree(text))
    assert {p.hca: p.netdev for p in ports} == want["hca_to_netdev"]


def ip_addr(text: str, want: dict[str, Any]) -> None:
    nics = network.parse_ip_addr(text)
    assert nics is not None
    usable = {name: [a.ip for a in found] for name, found in network.usable_addresses(nics).items()}
    assert usable == want.get("ipv4", want.get("candidates"))
    assert not set(want.get("not_candidates", ())) & set(usable)


def ip_link(text: str, want: dict[str, Any]) -> None:
    nics = network.parse_ip_addr(text)
    assert nics is not None
    assert [n.name for n in nics] == want["ifs"]
    assert {n.kind for n in nics} == {want["link_type"]}
    assert {len((n.mac or "").split(":")) for n in nics} == {20}


CHECKS: dict[str, Check] = {
    "nvidia-smi/query_": gpu_table,
    "nvidia-smi/err_": gpu_error,
    "nvidia-smi/compute_apps_": gpu_processes,
    "nvidia-smi/list_": gpu_listing,
    "amd/amd_smi_monitor_": amd_monitor,
    "amd/amd_smi_static_": amd_static,
    "amd/rocm_smi_": rocm,
    "docker/err_": engine_error,
    "docker/daemon_down.stderr": engine_error,
    "docker/info_down": info_down,
    "docker/info_": info_up,
    "docker/version_": version,
    "infiniband/ls_": no_infiniband,
    "infiniband/sysfs_dgx": hca_to_netdev,
    "ip/ip_j_addr_": ip_addr,
    "ip/ip_j_link_": ip_link,
}


NOT_ASKED = (
    "nvidia-smi/q_", "nvidia-smi/xml_", "topo/", "docker/inspect_states", "infiniband/ibstat_", "infiniband/ibstatus_"
)  # fmt: skip
"""Recordings of commands that no host is asked."""


def check_for(name: str) -> Check | None:
    return next((check for prefix, check in CHECKS.items() if name.startswith(prefix)), None)


UNLISTED = sorted(
    str(path.relative_to(FOLDER)) for path in FOLDER.glob("*/*") if str(path.relative_to(FOLDER)) not in EXPECTED
)


def rx6700xt(text: str) -> None:
    (card,) = amd.parse_rocm(text)
    assert (card.name, card.driver) == ("Navi 22 [Radeon RX 6700/6700 XT / 6800M]", "6.3.6")
    assert (card.memory_total_mib, card.memory_used_mib) == (12272, 1499)


def h100_class_tree(text: str) -> None:
    ports = infiniband.ports_from_tree(tree(text))
    assert [p.hca for p in ports if p.link_layer == "InfiniBand"] == [f"mlx5_{i}" for i in (0, 1, 4, 5, 6, 7, 8, 9)]
    assert [(p.hca, p.rate_gbps) for p in ports if p.link_layer != "InfiniBand"] == [("mlx5_bond_0", 200)]


TABLE_ONLY: dict[str, Callable[[str], None]] = {
    "amd/rocm_smi_rx6700xt_rocm612.json": rx6700xt,
    "infiniband/sysfs_h100_class_infiniband.tsv": h100_class_tree,
}


if EXPECTED:

    @pytest.mark.parametrize("name", sorted(n for n in EXPECTED if not n.startswith(NOT_ASKED)))
    def test_recorded_output_parses_as_expected(name: str) -> None:
        """The parse of each recording has every value that expected.json names."""
        check = check_for(name)
        assert check is not None, "no test reads this recording"
        check((FOLDER / name).read_text(), EXPECTED[name])

    @pytest.mark.parametrize("name", UNLISTED)
    def test_recording_described_only_in_the_table(name: str) -> None:
        """Recordings that only the folder's README describes are read too; a new one needs a reader here."""
        TABLE_ONLY[name]((FOLDER / name).read_text())
