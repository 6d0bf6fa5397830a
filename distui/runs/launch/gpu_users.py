"""Who has the GPUs of a plan now: runs that live, and launches that are under way. Asked before a start, so that
somebody can decide to share them; the launch itself looks again (`runs/launch/leases.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from distui.frozen import frozen
from distui.plan.model import RunPlan
from distui.runs.hosts.asking import ask_each
from distui.runs.hosts.claims import marks
from distui.runs.hosts.claims.claim_file import CLAIM
from distui.runs.hosts.claims.folder import STALE_MINUTES, who_claims
from distui.runs.hosts.claims.lease import PLACE, Resource, sharers
from distui.runs.hosts.discover import Runner
from distui.session import Connector, Session
from distui.spec.hosts.inventory import Host
from distui.spec.hosts.names import fold

# $1 place, $2 minutes, then GPUs. A directory that is stale holds nothing.
_TAKEN = (
    CLAIM
    + r"""
place=$1 minutes=$2; shift 2
for gpu do
  d=$place/distui-gpu-$gpu
  [ -d "$d" ] || continue
  ! aged "$d" "$minutes" || continue
  printf '%s\t%s\t%s\n' "$gpu" "$(claim_line "$d/launch" 1)" "$(claim_line "$d/launch" 2)"
done
"""
).strip()


@frozen
class GpuUser:
    """Somebody who has GPUs of a plan on one host."""

    host: str
    message: str
    """Which GPUs, and which run of whom has them."""


def user_lines(users: Sequence[GpuUser]) -> tuple[str, ...]:
    """In words, equal ones of several hosts once: `node[01-02]: GPU 0 is used by run r1 of ann@desk (job j)`."""
    hosts: dict[str, list[str]] = {}
    for user in users:
        hosts.setdefault(user.message, []).append(user.host)
    return tuple(f"{fold(names)}: {words}" for words, names in hosts.items())


async def gpu_users(connector: Connector, plan: RunPlan, hosts: Sequence[Host]) -> tuple[GpuUser, ...]:
    """Who has GPUs of the plan, host by host. A host that can't be asked tells nobody: the launch says why."""
    chosen = [host.name for host in hosts if plan.gpus_on(host.name)]

    async def ask(host: str, session: Session) -> list[GpuUser]:
        first, gpus = plan.tasks_on(host)[0], plan.gpus_on(host)
        tasks = await marks.tasks_on(session.run, host, first)
        runs = sharers(tasks, plan, [Resource("gpu", gpu) for gpu in gpus])
        messages = (*(conflict.message for conflict in runs), *await launches(session.run, gpus))
        return [GpuUser(host, words) for words in messages]

    found, _ = await ask_each(connector, chosen, ask)
    return tuple(chain(*found.values()))


async def launches(run_argv: Runner, gpus: Sequence[int], *, place: str = PLACE) -> tuple[str, ...]:
    """Launches that hold one of these GPUs of a host while they are under way, each in words."""
    done = await run_argv(("sh", "-c", _TAKEN, "distui-taken", place, str(STALE_MINUTES), *map(str, gpus)))
    rows = (line.replace("\t", "\n").partition("\n") for line in done.text.splitlines() if done.ok)
    return tuple(f"GPU {gpu} is being taken by a launch {who_claims(claim)}" for gpu, _, claim in rows)
