"""Stop runs of yours that take too long, and say how far each was: `python stop_long_runs.py HOURS [hosts.yaml]`."""

from __future__ import annotations

import asyncio
import sys
import time

import distui


async def main(hours: str, inventory: str = "hosts.yaml") -> int:
    """Ask all hosts for runs, and stop those that began too long ago; 1 when something could not be stopped."""
    failed = False
    async with distui.Cluster.open(inventory) as cluster:
        found = await cluster.runs()
        for host, trouble in found.unreachable.items():
            print(f"{host} was not asked: {trouble.message}")
        for run in found:
            took = time.time() - (run.started or time.time())
            if not run.goes_on or took < float(hours) * 3600:
                continue
            try:
                said = await last_line(cluster, run.run)
                print(f"{run.run} has taken {took / 3600:.1f} h; its first rank said last: {said}")
                left = await cluster.stop(run.run)
            except distui.DistuiError as error:  # somebody else's, or a host is out of reach
                left = (str(error),)
            failed = failed or bool(left)
            print("\n".join(left) or f"{run.run} is stopped")
    return int(failed)


async def last_line(cluster: distui.Cluster, run: str) -> str:
    """What the first rank has said last."""
    last = ""
    async for found in cluster.logs(run, ranks=[0], tail=1):
        last = found.lines[-1].text
    return last


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or not sys.argv[1].replace(".", "", 1).isdecimal():
        sys.exit(__doc__)
    try:
        sys.exit(asyncio.run(main(*sys.argv[1:])))
    except distui.DistuiError as error:  # no hosts.yaml, or a wrong one
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
