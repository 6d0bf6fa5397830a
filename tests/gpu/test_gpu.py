"""distui on a real GPU, beside what the driver itself says."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from typing import Any

from gpuhosts import SHARED, Cluster, Machine, burning, top, until

from distui.agent.gpu_query import FIELDS
from distui.agent.ranks import ras_talk
from distui.runs.insight.hang.ras.report import read_report

PROBED = (
    "index", "uuid", "name", "pci.bus_id", "memory.total", "memory.used", "utilization.gpu", "temperature.gpu",
    "power.draw", "driver_version", "mig.mode.current",
)  # fmt: skip
"""What a probe asks for."""
ALIVE = ("utilization.gpu", "memory.used", "power.draw", "clocks.sm", "clocks.max.sm")


def test_probe_says_what_the_driver_says(cluster: Cluster, machine: Machine, record: Any) -> None:
    """Name, uuid, memory, bus and driver of the GPU, on both hosts."""
    output = machine.query("index", "name", "uuid", "memory.total", "pci.bus_id", "driver_version")
    done = cluster.distui("probe", "-o", "json")
    record("probe.json", done.stdout)
    record("nvidia-smi.txt", subprocess.check_output([machine.smi], text=True))
    for name, fields in {"probe": PROBED, "sample": FIELDS}.items():
        argv = (machine.smi, f"--query-gpu={','.join(fields)}", "--format=csv")
        record(f"query-{name}.csv", subprocess.check_output(argv, text=True))
    record("topo.txt", subprocess.check_output([machine.smi, "topo", "-m"], text=True))
    record("nvidia-smi-q.txt", subprocess.check_output([machine.smi, "-q"], text=True))
    record("versions.txt", f"{machine.versions}\ndriver {output['driver_version']}\n{output['name']}\n")
    hosts = json.loads(done.stdout)["hosts"]

    assert done.returncode == 0, done.stderr
    for host in hosts:
        gpu = host["gpus"][0]
        assert (gpu["name"], gpu["uuid"]) == (output["name"], output["uuid"])
        assert (gpu["mem_mib"], gpu["driver"]) == (int(output["memory.total"]), output["driver_version"])


def test_top_agrees_with_the_driver_while_a_kernel_runs(cluster: Cluster, machine: Machine, record: Any) -> None:
    """Load, memory, power and clock between what nvidia-smi says before and after; then the same at rest."""
    with burning(machine):
        before, seen, after = machine.query(*ALIVE), top(cluster), machine.query(*ALIVE)
        argv = (machine.smi, f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits")
        record("sample-busy.csv", subprocess.check_output(argv, text=True))
    record("top-busy.json", json.dumps({"before": before, "top": seen, "after": after}, indent=1))
    memory = [int(part["memory.used"]) for part in (before, after)]
    powers = [float(part["power.draw"]) for part in (before, after)]

    assert seen["util_pct"] > 50
    assert min(memory) * 0.98 <= seen["mem_used_mib"] <= max(memory) * 1.02
    assert min(powers) * 0.7 <= seen["power_w"] <= max(powers) * 1.3
    assert 0 < seen["sm_mhz"] <= int(before["clocks.max.sm"])
    assert seen["throttle"] is not None

    until(lambda: float(machine.query("utilization.gpu")["utilization.gpu"]) == 0)
    assert top(cluster)["util_pct"] == 0


def test_a_process_of_nobody_s_run_is_named(cluster: Cluster, machine: Machine) -> None:
    """As far as the driver names processes at all, which it does not in every container."""
    with burning(machine) as pid:
        argv = (machine.smi, "--query-compute-apps=pid", "--format=csv,noheader")
        known = subprocess.check_output(argv, text=True).split()
        seen = [process["pid"] for process in top(cluster)["processes"]]
    assert seen == [int(p) for p in known]
    assert pid in seen or not known


def test_ddp_over_nccl(cluster: Cluster, record: Any) -> None:
    """One rank trains over NCCL, whose own lines are in its log."""
    cluster.job("nccl.py", "0", hosts="gpu1", backend="nccl", gpus_per_host=1, env={"NCCL_DEBUG": "INFO"})
    result, printed = cluster.run("--name", "ddp")
    log = (cluster.home / ".local/state/distui/runs/ddp/logs/rank-00000.log").read_text()
    record("nccl-info.log", log)

    assert (result["state"], result["leftovers"]) == ("succeeded", []), printed
    assert "backend nccl" in log
    assert re.search(r"NCCL version \d+\.\d+", log)


def test_nccl_s_status_port_answers_while_a_rank_runs(cluster: Cluster, record: Any) -> None:
    """RAS of NCCL (2.24 and later) at 127.0.0.1:28028, read only; the run goes on."""
    cluster.job("nccl.py", "12", hosts="gpu1", backend="nccl", gpus_per_host=1, env={"NCCL_DEBUG": "INFO"})
    program = cluster.start("run", "job.yaml", "--headless", "-y", "-o", "json", "--name", "ras")
    log = cluster.home / ".local/state/distui/runs/ras/logs/rank-00000.log"
    until(lambda: program.poll() is not None or (log.exists() and "step 20" in log.read_text()))
    assert program.poll() is None, program.communicate()
    with socket.create_connection(("127.0.0.1", 28028), timeout=10) as ras:
        ras.sendall(b"CLIENT PROTOCOL 2\nVERBOSE STATUS\n")
        ras.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: ras.recv(65536), b"")).decode()
    record("nccl-ras.txt", answer)
    out, err = program.communicate(timeout=120)

    assert "NCCL" in answer
    assert json.loads(out)["state"] == "succeeded", err


def test_why_while_a_kernel_spins(cluster: Cluster, machine: Machine, record: Any) -> None:
    """torch's flight recorder of NCCL names the collective that waits for a kernel, NCCL's RAS can be read, the driver
    calls the GPU busy meanwhile; asking leaves the run as it is.
    """
    cluster.job("spins.py", "30", hosts="gpu1", backend="nccl", gpus_per_host=1)
    program = cluster.start("run", "job.yaml", "--headless", "-y", "-o", "json", "--name", "spins")
    log = cluster.home / ".local/state/distui/runs/spins/logs/rank-00000.log"
    until(lambda: program.poll() is not None or (log.exists() and "spins" in log.read_text()))
    assert program.poll() is None, program.communicate()
    found: dict[str, Any] = {}

    def stands() -> bool:
        done = cluster.distui("why", "spins", "-o", "json")
        assert done.returncode == 0, done.stderr
        found.update(json.loads(done.stdout))
        return bool(found["kind"] == "hang") or program.poll() is not None

    until(stands)
    busy, samples = top(cluster), ras_talk.samples("127.0.0.1", 28028, 10)
    record("why-nccl.json", json.dumps(found, indent=1))
    record("nccl-ras-samples.json", json.dumps(samples, indent=1))
    out, err = program.communicate(timeout=180)

    assert (found["kind"], found["culprits"]) == ("hang", []), found
    words = "every rank has entered all_reduce #21 of 1000 Float in the default group"
    assert found["headline"].startswith(words) and "/spins.py:" in found["headline"], found["headline"]
    assert busy["util_pct"] > 50
    reports = [read_report(text) for _, text in samples]
    assert reports and all(one is not None and len(one.communicators) == 1 for one in reports), samples
    assert json.loads(out)["state"] == "succeeded", err
    assert "through" in log.read_text()


def test_two_ranks_share_the_gpu(cluster: Cluster) -> None:
    """One on each host, both on GPU 0, which is nobody's alone: gloo sums their CUDA tensors."""
    cluster.job("shared.py", **SHARED)
    result, printed = cluster.run("--name", "shared")

    assert (result["state"], result["leftovers"]) == ("succeeded", []), printed
    assert printed.count("sum 3 on cuda:0") == 2


def failed(cluster: Cluster, what: str) -> tuple[dict[str, Any], str]:
    """The result of a run of which rank 1 breaks in this way."""
    cluster.job("breaks.py", what, "1", **SHARED)
    result, printed = cluster.run("--name", what)
    assert (result["state"], result["exit"], result["leftovers"]) == ("failed", 1, []), printed
    return dict(result["first_failure"]), printed


def test_a_real_cuda_out_of_memory(cluster: Cluster, record: Any) -> None:
    """The rank, and that it was the GPU's memory."""
    first, _ = failed(cluster, "oom")
    record("cuda-oom.log", (cluster.home / ".local/state/distui/runs/oom/logs/rank-00001.log").read_text())
    assert (first["rank"], first["host"], first["exit"]) == (1, "gpu2", 1)
    assert "the GPU ran out of memory" in first["cause"]


def test_a_real_device_assert(cluster: Cluster, record: Any) -> None:
    """An index out of range on the GPU: named as such, with the variable that shows where."""
    first, _ = failed(cluster, "assert")
    record("cuda-assert.log", (cluster.home / ".local/state/distui/runs/assert/logs/rank-00001.log").read_text())
    assert (first["rank"], first["host"]) == (1, "gpu2")
    assert "device-side assert" in first["cause"] + " ".join(first["excerpt"])


def test_a_write_to_nowhere_and_the_driver_s_own_number_for_it(cluster: Cluster, machine: Machine, record: Any) -> None:
    """A kernel crashes: the rank is named, and the XID that the driver wrote to the kernel's log is the GPU's."""
    first, _ = failed(cluster, "illegal")
    record("cuda-illegal.log", (cluster.home / ".local/state/distui/runs/illegal/logs/rank-00001.log").read_text())
    seen = top(cluster)
    record("top-xid.json", json.dumps(seen, indent=1))
    log = shutil.which("dmesg")
    known = XID.findall(subprocess.run([log], capture_output=True, text=True, check=False).stdout) if log else []

    assert (first["rank"], first["host"]) == (1, "gpu2")
    assert "a GPU kernel crashed" in first["cause"]
    assert not known or seen["xid"] == int(known[-1])


XID = re.compile(r"NVRM: Xid \(PCI:[^)]*\): (\d+)")

REFUSING = """#!{python}
# Asks the real driver, by a name that it does not know in the place of one field, which its answer then names.
import subprocess, sys
argv = [word.replace("temperature.gpu", "temperature.nonsense") for word in sys.argv[1:]]
with subprocess.Popen(["{smi}", *argv], stdout=subprocess.PIPE, text=True) as asked:
    for line in asked.stdout:
        print(line.replace("temperature.nonsense", "temperature.gpu"), end="", flush=True)
sys.exit(asked.returncode)
"""


def test_a_field_that_the_driver_refuses_costs_only_that_field(cluster: Cluster, machine: Machine, record: Any) -> None:
    """The driver's own refusal of a field: the GPU is there, with all other figures."""
    wrapper = cluster.first / "nvidia-smi"
    wrapper.write_text(REFUSING.format(smi=machine.smi, python=sys.executable))
    wrapper.chmod(0o755)
    asked = subprocess.run([machine.smi, "--query-gpu=temperature.nonsense", "--format=csv"], capture_output=True)
    record("refused-field.txt", f"exit {asked.returncode}\n{asked.stdout.decode()}{asked.stderr.decode()}")
    seen = top(cluster)

    assert asked.returncode != 0
    assert seen["mem_mib"] == int(machine.query("memory.total")["memory.total"])
    assert seen["util_pct"] is not None
    assert seen["temp_c"] is None


def test_ctrl_c_frees_the_gpu(cluster: Cluster, machine: Machine, record: Any) -> None:
    """A run that uses the GPU, which is named as its rank's, is stopped: its memory is free and nothing is left."""
    cluster.job("burn.py", hosts="gpu1", gpus_per_host=1)
    idle = int(machine.query("memory.used")["memory.used"])
    program = cluster.start("run", "job.yaml", "--headless", "-y", "--name", "burn")
    log = cluster.home / ".local/state/distui/runs/burn/logs/rank-00000.log"
    until(lambda: program.poll() is not None or (log.exists() and "warm" in log.read_text()))
    assert program.poll() is None, program.communicate()
    assert int(machine.query("memory.used")["memory.used"]) > idle
    seen = top(cluster)
    record("top-run.json", json.dumps(seen, indent=1))
    assert (seen["run"], seen["ranks"]) == ("burn", [0])
    os.kill(program.pid, signal.SIGINT)
    _, err = program.communicate(timeout=120)

    assert program.returncode == 130, err
    until(lambda: int(machine.query("memory.used")["memory.used"]) <= idle + 16, 30)
