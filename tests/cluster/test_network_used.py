"""Which interface carried how much: real gloo over the two networks of the hosts."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from lab.program import LIMIT
from lab.runs import ended_after, until

Distui = Callable[..., subprocess.CompletedProcess[str]]
Bytes = Mapping[tuple[str, str], tuple[int, int]]
"""(host, interface) -> received and sent."""

TALK = """
import os, time, torch, torch.distributed as dist
{before}
dist.init_process_group("gloo")
while not os.path.exists("/pytorch/counted"):
    time.sleep(0.05)
x, end, rounds = torch.ones(1000000), time.monotonic() + {seconds}, 0
while True:
    rounds += 1
    over = torch.tensor(float(time.monotonic() > end and rounds > {rounds} and os.path.exists("/pytorch/heard")))
    dist.all_reduce(over)
    dist.all_reduce(x.fill_(1))
    if over:
        break
    time.sleep(0.02)
"""


@pytest.fixture
def talk(lab: Any, home: Path, start: Any) -> Callable[..., str]:
    """A run of two hosts whose ranks exchange a few megabytes again and again over ib0, as planned; what it says. They
    begin when the counters of both hosts have been read once: what went before is counted by nobody. It goes on until
    it has said `first`, and `during` has come back; for some seconds, and rounds, at least.
    """

    def run(
        first: str,
        before: str = "",
        seconds: float = 0.0,
        rounds: int = 0,
        during: Callable[[], None] = lambda: None,
    ) -> str:
        (lab.share / "talk.py").write_text(TALK.format(before=before, seconds=seconds, rounds=rounds))
        keys = {"image": "lab/pytorch:1", "volumes": ["/mnt/pytorch:/pytorch:ro"], "fabric": {"ifname": "ib0"}}
        keys["command"] = ["python3", "/pytorch/talk.py"]
        go_on, begin = lab.share / "heard", lab.share / "counted"
        samples = home / ".local/state/distui/runs/talk/metrics.ndjson"
        if not first:
            go_on.touch()
        try:
            going = start("", "--name", "talk", job=keys)
            until(lambda: samples.exists() and all(f'"{host}"' in samples.read_text() for host in ("h1", "h2")))
            begin.touch()
            said = lines_to(going, first) if first else ""
            during()
            go_on.touch()
            return said + rest(going)
        finally:
            go_on.unlink(missing_ok=True)
            begin.unlink(missing_ok=True)

    return run


def lines_to(program: Any, words: str) -> str:
    """What it says on stderr, up to the line with these words; one that never says them is killed."""
    said = ""
    with ended_after(program, LIMIT):
        for line in program.stderr:
            said += line
            if words in line:
                return said
    raise AssertionError(said)


def rest(program: Any) -> str:
    """All else that it says there."""
    with ended_after(program, LIMIT):
        said = str(program.stderr.read())
    program.finish()
    return said


@pytest.fixture
def counters(lab: Any) -> Callable[[], Bytes]:
    """What the kernels of both hosts have counted by now."""

    def read() -> Bytes:
        return {(host, name): lab.host(host).bytes(name) for host in ("h1", "h2") for name in ("ib0", "eth0")}

    return read


def assert_whole(network: Mapping[str, Any], before: Bytes, after: Bytes, interface: str) -> int:
    """What is told of an interface is what the kernels say that it carried; bytes that all hosts sent over it."""
    for host in ("h1", "h2"):
        (reported,) = [one for one in network["interfaces"] if (one["host"], one["interface"]) == (host, interface)]
        counted = [now - then for now, then in zip(after[host, interface], before[host, interface], strict=True)]
        assert [reported["received"], reported["sent"]] == pytest.approx(counted, rel=0.03)
    return sum(after[host, interface][1] - before[host, interface][1] for host in ("h1", "h2"))


def kept(distui: Distui) -> dict[str, Any]:
    """What `show` has of it."""
    shown = distui("show", "talk", "-o", "json")
    assert shown.returncode == 0, shown.stderr
    return dict(json.loads(shown.stdout))


def test_the_planned_interface(talk: Callable[..., str], distui: Distui, counters: Callable[[], Bytes]) -> None:
    """Told when the ranks have begun, and at the end, in words and in figures, which are true; nothing is odd."""
    before = counters()
    said = talk("network so far: ")
    after = counters()

    assert "network so far: ib0 " in said and "  net    ib0 " in said, said
    assert "which the plan chose" not in said
    network = kept(distui)["network"]
    assert (network["moment"], network["warnings"]) == ("ended", [])
    assert_whole(network, before, after, "ib0")
    sent = {(one["host"], one["interface"]): one["sent"] for one in network["interfaces"]}
    assert sent["h1", "ib0"] > 10 * sent["h1", "eth0"] and sent["h2", "ib0"] > 50e6
    assert distui("show", "talk").stdout.count("\nnetwork  ib0 ") == 1


def test_another_interface(talk: Callable[..., str], distui: Distui) -> None:
    """A program that takes eth0 by itself: a warning when the ranks have begun, and in the result, with what to do; in
    what `why` says, too, while it goes on and when it has ended.
    """

    def asked() -> None:
        reported = ""

        def tells() -> bool:
            nonlocal reported
            reported = distui("why", "talk").stdout
            return "\nnetwork: eth0 " in reported

        until(tells)
        assert "went over eth0, hardly any over ib0" in reported and " (until " in reported, reported

    said = talk("network so far: ", 'os.environ["GLOO_SOCKET_IFNAME"] = "eth0"', during=asked)

    assert "network so far: eth0 " in said, said
    assert said.count("went over eth0, hardly any over ib0, which the plan chose; ") == 2, said
    (warning,) = kept(distui)["warnings"]
    assert warning.startswith("h[1-2]: ") and "GLOO_SOCKET_IFNAME" in warning
    ended = distui("why", "talk")
    assert ended.returncode == 0 and "\nnetwork: eth0 " in ended.stdout and f"\n  {warning}\n" in ended.stdout


def test_a_run_of_seconds(talk: Callable[..., str], distui: Distui, counters: Callable[[], Bytes]) -> None:
    """What went in its first and its last second is in its figures, and each byte once in the words."""
    before = counters()
    said = talk("", seconds=3.0, rounds=40)  # of less than 64 MB nothing is said
    after = counters()

    sent = assert_whole(kept(distui)["network"], before, after, "ib0")
    (words,) = [line.split() for line in said.splitlines() if line.startswith("  net ")]
    assert words[1] == "ib0" and words[-1] in ("MB", "GB"), words
    size = float(words[words.index("of") + 1]) * {"MB": 1e6, "GB": 1e9}[words[words.index("of") + 2].strip(",")]
    assert size == pytest.approx(sent, rel=0.05)


def test_a_run_too_short_to_say_anything(talk: Callable[..., str], distui: Distui) -> None:
    """Some megabytes tell nothing."""
    said = talk("")

    assert "  net    " not in said and "network so far" not in said
    assert kept(distui)["network"] is None


NCCL_BY_SOCKETS = """
h=$(hostname)
echo "$h:77:77 [0] NCCL INFO cudaDriverVersion 12020"
if [ "$RANK" = 1 ]; then
    echo "$h:77:131 [0] NCCL INFO NET/IB : No device found."
    echo "$h:77:131 [0] NCCL INFO NET/Socket : Using [0]ib0:10.78.0.12<0>"
    echo "$h:77:131 [0] NCCL INFO Using network Socket"
else
    echo "$h:77:131 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB ib0:10.78.0.11<0>"
    echo "$h:77:131 [0] NCCL INFO Using network IB"
fi
until [ -e /pytorch/heard ]; do sleep 0.1; done
"""


def test_nccl_says_that_it_uses_sockets(lab: Any, start: Any, distui: Distui) -> None:
    """The lab's InfiniBand is up by the probe, and one rank prints what NCCL prints where its container has no device:
    told while the run goes on, at its end and by `show`, with the host.
    """
    keys = {"backend": "nccl", "fabric": {"kind": "ib", "require": "any"}, "volumes": ["/mnt/pytorch:/pytorch:ro"]}
    going = start(NCCL_BY_SOCKETS, "--name", "talk", job=keys)
    words = "InfiniBand is up, but NCCL uses sockets on h2, where it found no device; "
    said = lines_to(going, words)
    (lab.share / "heard").touch()
    said += rest(going)
    (lab.share / "heard").unlink()

    assert said.count(words) == 2, said
    assert said.index(words) < said.index("exit 0"), said
    network = kept(distui)["network"]
    assert [one.startswith(words) for one in network["warnings"]] == [True]
