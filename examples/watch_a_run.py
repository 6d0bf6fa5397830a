"""Run a job and show what happens, event by event: `python watch_a_run.py job.yaml`. Needs hosts.yaml beside you."""

from __future__ import annotations

import asyncio
import sys

import distui


async def main(job: str) -> int:
    """Ask the hosts, plan, start, and follow the run to its end; its exit code."""
    async with distui.Cluster.open("hosts.yaml") as cluster:
        plan = await cluster.prepare(job)
        async with cluster.launch(plan) as run:
            print(f"{run.name}: {run.plan.world_size} ranks on {len(run.plan.hosts)} hosts")
            async for event in run.events():
                show(event)
    assert run.result is not None  # events() ended with it
    return run.result.exit


def show(event: distui.Event) -> None:
    """One event as a line. All kinds of them are in `distui.Event`."""
    match event:
        case distui.PhaseBegun():
            print(f"-- {event.phase} {event.detail}".rstrip())
        case distui.LogLines():
            for line in event.lines:
                print(f"{event.rank} {event.host} | {line.text}")
        case distui.Progressed():
            print("progress", *(f"{name}={value}" for name, value in event.values.items()))
        case distui.RankChanged(state="exited"):
            print(f"rank {event.rank} on {event.host}: {event.words}")
        case distui.Notice():
            print(f"{event.level}: {event.text}")
        case distui.RunEnded():
            print(f"{event.outcome} after {event.took:.1f} s, logs in {event.log_dir}")
        case _:
            pass  # hosts, tasks, figures of GPUs ...


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        sys.exit(asyncio.run(main(sys.argv[1])))
    except distui.DistuiError as error:  # wrong files, hosts out of reach, no plan, a failed check
        print(f"not started: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
