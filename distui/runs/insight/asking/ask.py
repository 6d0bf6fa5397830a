"""Asks a run's hosts where its ranks are, over the connections that are there: one command a host, bounded in time."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any

from distui.agent.bundle import bundle, take
from distui.agent.ranks.ras import NAMES
from distui.errors import DistuiError, HostError, SessionLost
from distui.facts.values import loads
from distui.framing import Behind
from distui.plan.command.insight import folder_of
from distui.plan.command.process import task_folder
from distui.runs.hosts.link import HostLink
from distui.runs.insight.seen.answers import HostAnswer, host_answer
from distui.runs.task.host_access import HostAccess

SECONDS = 30.0
"""How long one host may take to answer; with nothing in the way it takes one."""
CONNECT_SECONDS = 5.0
ANSWER_BYTES = 16 << 20
MOST_COLLECTIVES = 400
"""Of one group that a rank answers; a step of a large model has some hundred."""
MOST_RAS = 4
"""Hosts of a run on which NCCL's RAS is asked."""

_RANKS = ("processes", "recorded", "long_answers", "hooked", "ras_talk", "ras", "connections", "sockets")
MODULES = (*(f"ranks.{name}" for name in _RANKS), "gpu_query", "metrics", "ranks.gpu_state", "ranks.insight")
"""Of the program that is sent there, in the order of their imports."""

MARK = b"DISTUI-INSIGHT:"


async def ask_hosts(
    hosts: Sequence[HostAccess],
    ids: Mapping[int, str],
    *,
    stacks: bool = False,
    left: bool = False,
    ras: float = 0,
    gpus: float = 0,
) -> dict[str, HostAnswer]:
    """What all hosts say at once; `ids` has the engine's id of each task that was started. Never raises DistuiError.

    `ras` and `gpus`: how many seconds NCCL's RAS threads may take, and drivers of the GPUs that the run has; 0 for not
    asking them.

    `left` asks for what ranks that have ended left behind, in place of those that run.

    `stacks` sends each process a signal that it handles. Compiled code that sleeps may be woken by that, as by any
    other signal, so whoever has no need of stacks leaves them. With them comes what waits in the connections of the
    processes: both are for what stands still.
    """
    some = {access.host for access in _spread(hosts)} if ras else set[str]()
    seconds = [ras if access.host in some else 0 for access in hosts]
    asked = zip(hosts, seconds, strict=True)
    answers = await asyncio.gather(
        *(ask_host(host, ids, stacks=stacks, left=left, ras=each, gpus=gpus) for host, each in asked)
    )
    return {answer.host: answer for answer in answers}


def _spread(hosts: Sequence[HostAccess]) -> Sequence[HostAccess]:
    """Those where NCCL's RAS is asked: each answers for all ranks that it reaches, at length where there are many."""
    count = min(len(hosts), MOST_RAS)
    return [hosts[number * len(hosts) // count] for number in range(count)]


async def ask_host(
    access: HostAccess, ids: Mapping[int, str], *, stacks: bool, left: bool, ras: float, gpus: float
) -> HostAnswer:
    """What one host says of its tasks, or why it says nothing."""
    try:
        asked = await request(access, ids, most=MOST_COLLECTIVES, stacks=stacks) | {"left": left}
        if ras:
            asked |= {"ras": ras, "ras_talk": _talk()}
        if any(task.gpus or any(task.rank_gpus) for task in access.tasks):
            asked |= {"gpus": gpus}
        begun = time.time()
        text = await _answer(access.link, json.dumps(asked).encode() + b"\n")
        return _on_our_clock(host_answer(access.host, loads(text)), begun, time.time())
    except DistuiError as exc:
        return HostAnswer(access.host, why_not=f"host {access.host} can't be asked: {exc.message}", late=is_late(exc))
    except ValueError as exc:
        return HostAnswer(access.host, why_not=unread(access.host, str(exc)))


def unread(host: str, said: str) -> str:
    """Why a host's answer is none, where `said` is what it complained of: most often it lacks what asks there."""
    if "python3" in said and "not found" in said:
        return f"host {host} has no python3, which would ask its ranks"
    return f"what host {host} answered can't be read"


def is_late(error: DistuiError) -> bool:
    """Whether a host was too slow, or its connection broke meanwhile. One out of reach was waited for already."""
    return isinstance(error, SessionLost) or (isinstance(error, HostError) and error.code == "command_timeout")


async def request(access: HostAccess, ids: Mapping[int, str], *, most: int, stacks: bool) -> dict[str, Any]:
    """What the program on a host is asked. Raises HostError."""
    run_dir = await access.run_dir()
    first = access.first
    tasks = [
        {
            "task": task.index,
            "id": ids.get(task.index, "") if first.engine != "process" else "",
            "folder": task_folder(run_dir, task.index),
            "hook": folder_of(run_dir, task.index),
            "env": {name: task.env[name] for name in NAMES if name in task.env},
        }
        for task in access.tasks
        if task.index in ids
    ]
    return {"tasks": tasks, "engine": first.engine_command, "most": most, "stacks": stacks}


async def _answer(link: HostLink, asked: bytes) -> bytes:
    """The answer's line. Raises HostError, ValueError when there is none."""
    program = bundle(*MODULES)
    done = await link.run(
        take(program), input=program + asked, timeout=SECONDS, limit=ANSWER_BYTES, give_up=CONNECT_SECONDS
    )
    found = Behind(MARK).feed(done.stdout)
    if found is None:
        raise ValueError(done.error_text or "no answer")
    return found.partition(b"\n")[0]


@cache
def _talk() -> str:
    """What asks NCCL's RAS in a container with a network of its own."""
    return resources.files("distui.agent.ranks").joinpath("ras_talk.py").read_text("utf-8")


def _on_our_clock(answer: HostAnswer, begun: float, ended: float) -> HostAnswer:
    """The answer with how far the host's clock is off, as far as that is beyond doubt: it was read in between."""
    ahead = min(0.0, answer.at - begun) or max(0.0, answer.at - ended)
    return replace(answer, ahead=ahead, doubt=ended - begun)
