"""List the GPUs of all hosts, and which are free: `python list_gpus.py [hosts.yaml]`. Starts nothing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator

import distui


async def main(inventory: str = "hosts.yaml") -> None:
    """Ask all hosts at once; one that does not answer is a row, too."""
    async with distui.Cluster.open(inventory) as cluster:
        for name, found in (await cluster.probe()).items():
            for words in rows(found):
                print(f"{name}: {words}")


def rows(found: distui.ProbeResult) -> Iterator[str]:
    """What there is on one host."""
    if isinstance(found, distui.HostDown):
        yield f"down: {found.error.message}"
        return
    if found.gpu.problem is not None:
        yield f"no driver: {found.gpu.problem.message}"
    elif not found.gpu.gpus:
        yield "no GPU"
    for gpu in found.gpu.gpus:
        state = gpu.problem.message if gpu.problem else "busy" if gpu.processes else "free"
        yield f"{gpu.index} {gpu.name}, {(gpu.memory_total_mib or 0) / 1024:.0f} GiB, {state}"


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    try:
        asyncio.run(main(*sys.argv[1:]))
    except distui.DistuiError as error:  # no hosts.yaml, or a wrong one
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
