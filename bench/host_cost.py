"""What the probe's script costs a host: CPU of every process that it starts, also of those it does not wait for."""

from __future__ import annotations

import json
import statistics

from bench.cluster import Cluster
from bench.report import limit, note, title
from distui.facts.probe import script
from distui.spec.hosts.inventory import Host

LIMIT_MS = 50.0

COUNTING = """
import ctypes, json, os, resource, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
text, taken = sys.stdin.buffer.read(), []
def spent():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
for _ in range(int(sys.argv[1])):
    began = spent()
    subprocess.run(("sh",), input=text, stdout=subprocess.DEVNULL)
    try:
        while True:
            os.wait()
    except ChildProcessError:
        taken.append(spent() - began)
print(json.dumps(taken))
"""
"""Runs the script some times; what its shell leaves behind becomes a child of this program (PR_SET_CHILD_SUBREAPER)."""

NO_GPUS = 'n=$(mktemp) && chmod 600 "$n" && mount --bind "$n" "$(command -v nvidia-smi)" && rm "$n"; exec "$@"'
"""In a mount namespace of its own: the lab's stand-in for nvidia-smi, a shell script, costs more than the real one."""


def measure(cluster: Cluster, *, quick: bool) -> None:
    """With Docker and without an engine, without a GPU; what starting Docker's client takes stands beside it."""
    title("probe: CPU of a host for one probe, all processes that its script starts, no GPU")
    rounds = 5 if quick else 15
    process = Host("h1", engine="process", engine_command=())
    for name, text in (
        ("with Docker", script("0" * 24, Host("h1"))),
        ("without an engine", script("0" * 24, process)),
        ("docker version", "docker version --format '{{json .}}'"),
        ("python3 -c pass", "python3 -I -S -c pass"),
    ):
        taken = _taken(cluster, text, rounds)
        words = f"{1000 * min(taken):.0f} to {1000 * max(taken):.0f} ms"
        if text.startswith(("docker", "python3")):
            note(f"{name}: {1000 * statistics.median(taken):.0f} ms, {words}")
        else:
            limit(name, 1000 * statistics.median(taken), f"ms, {words}", LIMIT_MS)


def _taken(cluster: Cluster, text: str, rounds: int) -> list[float]:
    """Seconds of CPU, once a round."""
    argv = ("unshare", "-m", "sh", "-c", NO_GPUS, "sh", "python3", "-c", COUNTING, str(rounds))
    said = cluster.lab.host("h1").exec(*argv, input=text, timeout=120).stdout
    return [float(seconds) for seconds in json.loads(said)]
