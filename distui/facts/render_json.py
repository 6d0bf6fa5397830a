"""Probe results as the versioned JSON document `distui/probe/v1`; keys are only ever added to it."""

from __future__ import annotations

from collections.abc import Mapping

from distui.facts.host import Disk, Engine, Gpu, GpuProcess, HostDown, HostFacts, IbPort, Nic, ProbeResult, Trouble
from distui.facts.network import usable_addresses

SCHEMA = "distui/probe/v1"

Json = dict[str, object]


def probe_json(results: Mapping[str, ProbeResult]) -> Json:
    """The whole document, hosts in the order of `results`."""
    return {"schema": SCHEMA, "hosts": [host_json(name, result) for name, result in results.items()]}


def host_json(name: str, result: ProbeResult) -> Json:
    """One host: `state` is `up` with its facts, or `down` with its error."""
    match result:
        case HostDown(error=error):
            return {"name": name, "state": "down", "error": trouble_json(error)}
        case HostFacts():
            return {"name": name, "state": "up", **_facts(result)}


def _facts(facts: HostFacts) -> Json:
    return {
        "hostname": facts.hostname,
        "rtt_ms": facts.rtt_ms,
        "connect_ms": facts.connect_ms,
        "addrs": [a.ip for addresses in usable_addresses(facts.nics).values() for a in addresses],
        "clock_offset_ms": facts.clock_offset_ms,
        "gpus": [_gpu(gpu) for gpu in facts.gpu.gpus],
        "gpu_problem": trouble_json(facts.gpu.problem),
        "nics": [_nic(nic) for nic in facts.nics],
        "default_route_nic": facts.default_route_nic,
        "ib": [_port(port) for port in facts.ib],
        "docker": _engine(facts.engine),
        **_machine(facts),
        "warnings": list(facts.warnings),
    }


def _machine(facts: HostFacts) -> Json:
    return {
        "os": facts.os,
        "kernel": facts.kernel,
        "arch": facts.arch,
        "cpus": facts.cpus,
        "cpu_model": facts.cpu_model,
        "memory_mib": facts.memory_total_mib,
        "memory_available_mib": facts.memory_available_mib,
        "disks": [_disk(disk) for disk in facts.disks],
        "user": facts.user,
        "uid": facts.uid,
        "home": facts.home,
        "machine_id": facts.machine_id,
        "boot_id": facts.boot_id,
        "python3": facts.python3,
        "memlock_kib": facts.memlock_kib,
        "rdma_devices": facts.rdma_devices,
        "name_is_loopback": facts.name_is_loopback,
        "ports_in_use": sorted(facts.ports_in_use),
        "ephemeral_ports": list(facts.ephemeral_ports),
    }


def trouble_json(trouble: Trouble | None) -> Json | None:
    """A trouble as {code, message, hint}; null for none."""
    if trouble is None:
        return None
    return {"code": trouble.code, "message": trouble.message, "hint": trouble.hint}


def _gpu(gpu: Gpu) -> Json:
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "name": gpu.name,
        "vendor": gpu.vendor,
        "mem_mib": gpu.memory_total_mib,
        "mem_used_mib": gpu.memory_used_mib,
        "util_pct": gpu.utilization_pct,
        "temp_c": gpu.temperature_c,
        "power_w": gpu.power_w,
        "driver": gpu.driver,
        "mig": gpu.mig,
        "mig_devices": [{"index": m.index, "profile": m.profile, "uuid": m.uuid} for m in gpu.mig_devices],
        "pci": gpu.pci,
        "processes": [_process(process) for process in gpu.processes],
        "problem": trouble_json(gpu.problem),
    }


def _process(process: GpuProcess) -> Json:
    return {
        "pid": process.pid,
        "name": process.name,
        "mem_mib": process.memory_mib,
        "container": process.container,
        "user": process.user,
    }


def _nic(nic: Nic) -> Json:
    return {
        "name": nic.name,
        "kind": nic.kind,
        "up": nic.up,
        "ipv4": [f"{a.ip}/{a.prefix}" for a in nic.addresses if a.family == 4],
        "ipv6": [f"{a.ip}/{a.prefix}" for a in nic.addresses if a.family == 6],
        "mbps": nic.speed_mbps,
        "mtu": nic.mtu,
        "mac": nic.mac,
        "rx_bytes": nic.rx_bytes,
        "tx_bytes": nic.tx_bytes,
    }


def _port(port: IbPort) -> Json:
    return {
        "hca": port.hca,
        "port": port.port,
        "state": port.state,
        "gbps": port.rate_gbps,
        "link_layer": port.link_layer,
        "netdev": port.netdev,
    }


def _engine(engine: Engine) -> Json | None:
    if engine.kind == "none":
        return None
    return {
        "engine": engine.kind,
        "command": list(engine.command),
        "version": engine.server,
        "client": engine.client,
        "nvidia_runtime": engine.nvidia_runtime,
        "socket": engine.socket,
        "live_restore": engine.live_restore,
        "problem": trouble_json(engine.problem),
    }


def _disk(disk: Disk) -> Json:
    return {"path": disk.path, "free": disk.free, "total": disk.total}
