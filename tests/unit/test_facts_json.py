"""The JSON document of a probe, spelled out."""

from __future__ import annotations

import json

from distui.facts.host import (
    Address,
    Disk,
    Engine,
    Gpu,
    GpuProcess,
    Gpus,
    HostDown,
    HostFacts,
    IbPort,
    MigDevice,
    Nic,
    Trouble,
)
from distui.facts.render_json import probe_json


def test_the_whole_document() -> None:
    """Every key of distui/probe/v1, for a host that is up and one that is not."""
    up = HostFacts(
        host="node01",
        hostname="n1",
        clock_offset_ms=3.0,
        rtt_ms=2.1,
        cpus=8,
        disks=(Disk("/", 5, 10),),
        nics=(
            Nic("lo", "loopback", True, addresses=(Address("127.0.0.1", 8, "host"),)),
            Nic("eno1", "ethernet", True, 1500, "aa", 10000, (Address("10.0.0.1", 24), Address("fe80::1", 64, "link"))),
        ),
        ib=(IbPort("mlx5_0", 1, "ACTIVE", "InfiniBand", 400.0, "ib0"),),
        gpu=Gpus(
            (
                Gpu(
                    0, "GPU-a", "H100", memory_total_mib=81559, driver="560.35", mig=True,
                    processes=(GpuProcess(7, "python", 12, "GPU-a", "c" * 64, "alice"),),
                    mig_devices=(MigDevice(0, "3g.40gb", "MIG-1"),),
                ),
            )
        ),
        engine=Engine("docker", ("docker",), "27.3", "27.3", True),
        ports_in_use=frozenset({443, 22}),
    )  # fmt: skip
    down = HostDown("node04", Trouble("auth", "publickey refused", "ssh -v node04"))
    document = json.loads(json.dumps(probe_json({"node01": up, "node04": down})))
    assert document["schema"] == "distui/probe/v1"
    first, second = document["hosts"]
    assert second == {
        "name": "node04",
        "state": "down",
        "error": {"code": "auth", "message": "publickey refused", "hint": "ssh -v node04"},
    }
    assert (first["name"], first["state"], first["rtt_ms"], first["addrs"]) == ("node01", "up", 2.1, ["10.0.0.1"])
    assert first["clock_offset_ms"] == 3
    assert first["docker"]["version"] == "27.3" and first["docker"]["nvidia_runtime"] is True
    assert first["docker"]["problem"] is None and first["docker"]["engine"] == "docker"
    gpu = first["gpus"][0]
    assert {k: gpu[k] for k in ("index", "uuid", "name", "mem_mib", "driver", "util_pct", "problem")} == {
        "index": 0, "uuid": "GPU-a", "name": "H100", "mem_mib": 81559, "driver": "560.35", "util_pct": None,
        "problem": None,
    }  # fmt: skip
    assert gpu["processes"] == [{"pid": 7, "name": "python", "mem_mib": 12, "container": "c" * 64, "user": "alice"}]
    assert gpu["mig_devices"] == [{"index": 0, "profile": "3g.40gb", "uuid": "MIG-1"}]
    assert first["nics"][1] == {
        "name": "eno1", "kind": "ethernet", "up": True, "ipv4": ["10.0.0.1/24"], "ipv6": ["fe80::1/64"],
        "mbps": 10000, "mtu": 1500, "mac": "aa", "rx_bytes": None, "tx_bytes": None,
    }  # fmt: skip
    assert first["ib"] == [
        {"hca": "mlx5_0", "port": 1, "state": "ACTIVE", "gbps": 400.0, "link_layer": "InfiniBand", "netdev": "ib0"}
    ]
    assert (first["disks"], first["ports_in_use"]) == ([{"path": "/", "free": 5, "total": 10}], [22, 443])


def test_a_host_without_engine_has_null() -> None:
    """`docker: process` hosts have no engine to speak of."""
    (host,) = probe_json({"n": HostFacts("n", "n")})["hosts"]  # type: ignore[misc]
    assert host["docker"] is None
