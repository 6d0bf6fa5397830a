"""The all-reduce smoke: two ranks on each pair of neighbours sum 8 MB, in the image a job names. What is run, between
whom, and what its answers say; the running is done by `runs/control/smoke.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distui.amounts import size_words
from distui.doctor.finding import Check, CheckRow, Finding
from distui.facts.host import HostFacts, ProbeResult
from distui.facts.values import loads
from distui.frozen import frozen
from distui.spec.job.job import Job, RankLayout
from distui.spec.job.job_checks import SET_FOR_EACH_RANK

GREETING = "DISTUI-SMOKE:"
NO_TORCH = "no torch in the image"
MEGABYTES = 8
SECONDS = 120.0
"""Limit of one pair, the start of its containers included."""

SMOKE = Check("smoke", "Network", f"all-reduce of {MEGABYTES} MB, 2 ranks a pair", "torch.distributed.all_reduce")

UNTRIED = "it could not be tried: nothing is known of the way between them"

PROGRAM = f"""
import json, os, sys, time

def say(**answer):
    print("{GREETING}" + json.dumps(answer), flush=True)
    sys.exit(0 if "error" not in answer else 1)

try:
    import torch
    import torch.distributed as dist
except ImportError as error:
    say(error="{NO_TORCH}: %s" % error)
from datetime import timedelta

backend = os.environ["DISTUI_BACKEND"]
device = torch.device("cuda", 0) if backend == "nccl" else torch.device("cpu")
dist.init_process_group(backend, timeout=timedelta(seconds=60))
rank, world = dist.get_rank(), dist.get_world_size()

def wait():
    if device.type == "cuda":
        torch.cuda.synchronize()

count = {MEGABYTES} * 1000 * 1000 // 4
times = []
for turn in range(7):
    data = torch.full((count,), float(rank + 1), device=device)
    dist.barrier()
    wait()
    begun = time.perf_counter()
    dist.all_reduce(data)
    wait()
    times.append(time.perf_counter() - begun)
right = bool((data == world * (world + 1) / 2).all())
dist.destroy_process_group()
if not right:
    say(error="the sum is wrong: the network or a GPU changes data")
say(seconds=sorted(times[2:])[2], backend=backend)
"""


@frozen
class PairResult:
    """What became of one pair: the median time of an all-reduce, or why there is none."""

    hosts: tuple[str, str]
    seconds: float | None = None
    backend: str = ""
    path: str = ""
    """Which network carried it, by the plan: `eth0 tcp`."""
    error: str = ""
    hint: str = ""
    untried: bool = False
    """Whether nothing was proved: no image, no torch, no plan."""

    @property
    def words(self) -> str:
        """`8 MB in 3.1 ms, 2.6 GB/s by gloo over eth0 tcp`. With two ranks each byte crosses once each way."""
        if self.seconds is None:
            return self.error or "no answer"
        speed = size_words(MEGABYTES * 1e6 / self.seconds)
        return f"{MEGABYTES} MB in {self.seconds * 1000:.1f} ms, {speed}/s by {self.backend} over {self.path}"


def rounds(hosts: Sequence[str]) -> tuple[tuple[tuple[str, str], ...], ...]:
    """Every host with its neighbour, around the ring, in rounds in which no host is asked twice. One host: no pair."""
    if len(hosts) < 2:
        return ()
    ring = list(zip(hosts, [*hosts[1:], *(hosts[:1] if len(hosts) > 2 else [])], strict=False))
    made: list[list[tuple[str, str]]] = []
    for pair in ring:
        free = next((r for r in made if not {h for p in r for h in p} & set(pair)), None)
        if free is None:
            made.append([pair])
        else:
            free.append(pair)
    return tuple(tuple(r) for r in made)


def smoke_job(job: Job, results: Mapping[str, ProbeResult], pair: Sequence[str]) -> Job:
    """The job's image, network and devices with our program; of its ranks, files and secrets nothing, nor what its
    environment says of them: a job with a launcher of its own has one RANK for each host.

    One GPU a rank where both hosts have one and the job wants GPUs. The image is not pulled for a test.
    """
    names = {*job.all_secrets, job.code.token if job.code is not None else None}
    names |= {*SET_FOR_EACH_RANK, "MASTER_ADDR", "MASTER_PORT"}
    counts = [len(found.gpu.gpus) for name in pair if isinstance(found := results.get(name), HostFacts)]
    wanted = int(bool(counts) and all(counts) and job.gpus_per_host != 0)
    return Job(
        name="smoke",
        image=job.image,
        ranks=RankLayout(per_host=1),
        gpus_per_host=wanted,
        backend=job.backend if job.backend in ("gloo", "nccl") and (wanted or job.backend != "nccl") else None,
        fabric=job.fabric,
        command=(_python(job), "-c", PROGRAM),
        env={name: value for name, value in job.env.items() if name not in names},
        user=job.user,
        entrypoint=job.entrypoint,
        network=job.network,
        ipc=job.ipc,
        shm_size=job.shm_size,
        ulimits=job.ulimits,
        devices=job.devices,
        cap_add=job.cap_add,
        docker_args=job.docker_args,
        pull="never",
        stop_grace=2.0,
        stall_after=SECONDS,
    )


def _python(job: Job) -> str:
    """The job's own Python where its command begins with one: a virtual environment has torch, the system's has not."""
    first = job.command[0] if job.command and not isinstance(job.command, str) else ""
    return first if first.rpartition("/")[2].startswith("python") else "python3"


def read_answer(lines: Sequence[str]) -> tuple[float | None, str, str]:
    """Seconds, backend and error from what the ranks printed; a rank's error wins."""
    answers = []
    for line in lines:
        _, mark, value = line.partition(GREETING)
        try:
            answer = loads(value) if mark else None
        except ValueError:
            continue
        if isinstance(answer, dict):
            answers.append(answer)
    error = next((str(a["error"]) for a in answers if "error" in a), "")
    times = [float(a["seconds"]) for a in answers if isinstance(a.get("seconds"), int | float)]
    backend = next((str(a["backend"]) for a in answers if "backend" in a), "")
    return (max(times) if times and not error else None), backend, error


def smoke_row(hosts: Sequence[str], pairs: Sequence[PairResult]) -> CheckRow:
    """One finding a host: its pairs in words; `fail` when one of them gave nothing."""
    return CheckRow(SMOKE, tuple(_finding(host, [p for p in pairs if host in p.hosts]) for host in hosts))


def _finding(host: str, pairs: Sequence[PairResult]) -> Finding:
    if not pairs:
        return Finding(SMOKE.id, host, "skip", "no neighbour to try it with")
    bad = [p for p in pairs if p.seconds is None]
    if bad and len({p.words for p in bad}) == 1 and all(p.untried for p in bad):
        message = bad[0].words
    else:
        message = "; ".join(f"with {_other(p, host)}: {p.words}" for p in bad or pairs)
    if bad:
        untried = all(p.untried for p in bad)
        means = UNTRIED if untried else "a training over these hosts would fail or hang in the same place"
        return Finding(SMOKE.id, host, "fail", message, means, bad[0].hint)
    return Finding(SMOKE.id, host, "ok", message)


def _other(pair: PairResult, host: str) -> str:
    return pair.hosts[1] if pair.hosts[0] == host else pair.hosts[0]
