"""Which interface carried how much: real gloo over the two networks of the hosts."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

Distui = Callable[..., subprocess.CompletedProcess[str]]

TALK = """
import os, time, torch, torch.distributed as dist
{before}
dist.init_process_group("gloo")
x, end = torch.ones(1000000), time.monotonic() + {seconds}
while True:
    over = torch.tensor(float(time.monotonic() > end))
    dist.all_reduce(over)
    dist.all_reduce(x.fill_(1))
    if over:
        break
    time.sleep(0.02)
"""


@pytest.fixture
def talk(lab: Any, start: Any) -> Callable[..., str]:
    """A run of two hosts whose ranks exchange a few megabytes again and again over ib0, as planned; what it says."""

    def run(before: str = "", seconds: float = 20.0) -> str:
        (lab.share / "talk.py").write_text(TALK.format(before=before, seconds=seconds))
        keys = {"image": "lab/pytorch:1", "volumes": ["/mnt/pytorch:/pytorch:ro"], "fabric": {"ifname": "ib0"}}
        keys["command"] = ["python3", "/pytorch/talk.py"]
        going = start("", "--name", "talk", job=keys)
        return str(going.finish().stderr)

    return run


def kept(distui: Distui) -> dict[str, Any]:
    """What `show` has of it."""
    shown = distui("show", "talk", "-o", "json")
    assert shown.returncode == 0, shown.stderr
    return dict(json.loads(shown.stdout))


def test_the_planned_interface(talk: Callable[..., str], distui: Distui) -> None:
    """Told when the ranks have begun, and at the end, in words and in figures; nothing is odd."""
    said = talk()

    assert "network so far: ib0 " in said and "  net    ib0 " in said, said
    assert "which the plan chose" not in said
    network = kept(distui)["network"]
    assert (network["moment"], network["warnings"]) == ("ended", [])
    sent = {(one["host"], one["interface"]): one["sent"] for one in network["interfaces"]}
    assert sent["h1", "ib0"] > 10 * sent["h1", "eth0"] and sent["h2", "ib0"] > 50e6
    assert distui("show", "talk").stdout.count("\nnetwork  ib0 ") == 1


def test_another_interface(talk: Callable[..., str], distui: Distui) -> None:
    """A program that takes eth0 by itself: a warning when the ranks have begun, and in the result, with what to do."""
    said = talk('os.environ["GLOO_SOCKET_IFNAME"] = "eth0"')

    assert "network so far: eth0 " in said, said
    assert said.count("went over eth0, hardly any over ib0, which the plan chose; ") == 2, said
    (warning,) = kept(distui)["warnings"]
    assert warning.startswith("h[1-2]: ") and "GLOO_SOCKET_IFNAME" in warning


def test_a_run_too_short_to_say_anything(talk: Callable[..., str], distui: Distui) -> None:
    """Some megabytes tell nothing."""
    said = talk(seconds=0.0)

    assert "  net    " not in said and "network so far" not in said
    assert kept(distui)["network"] is None
