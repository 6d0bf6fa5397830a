"""distui as it is, and beside it what its followers said: `VERDICT_TAP=FILE python3 tap.py run job.yaml ...`.

The file gets one JSON object a line: each host's clock as the probe measured it and as each ping read it again, and
each end, loss and return that a follower told, with the moment on our clock. What ranks print is in the run's own
folder.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from distui.cli.main import main
from distui.facts.host import HostFacts
from distui.runs.follow.followed import Back, Exited, FollowEvent, Lost, Removed
from distui.runs.follow.follower import HostFollower

REPORTED = (Exited, Removed, Lost, Back)


def tap(path: Path) -> None:
    """From now on write to `path` what is learnt of hosts and their tasks."""

    def write(kind: str, **values: object) -> None:
        with path.open("a") as out:
            out.write(json.dumps({"kind": kind, "now": time.time(), **values}) + "\n")

    follow, know = HostFollower.__init__, HostFacts.__init__

    def following(self: HostFollower, link: Any, engine: Any, emit: Any, **options: Any) -> None:
        async def on_event(event: FollowEvent) -> None:
            if isinstance(event, REPORTED):
                write(type(event).__name__, host=link.host, **dataclasses.asdict(event))
            await emit(event)

        reported = options.get("on_clock")

        def on_clock(asked: float, said: float, heard: float) -> None:
            write("reading", host=link.host, asked=asked, said=said, heard=heard)
            if reported is not None:
                reported(asked, said, heard)

        follow(self, link, engine, on_event, **options | {"on_clock": on_clock})

    def knowing(self: HostFacts, *values: Any, **named: Any) -> None:
        know(self, *values, **named)
        write("clock", host=self.host, offset_ms=self.clock_offset_ms, rtt_ms=self.rtt_ms)

    HostFollower.__init__ = following  # type: ignore[method-assign,assignment]
    HostFacts.__init__ = knowing  # type: ignore[method-assign,assignment]


if __name__ == "__main__":
    tap(Path(os.environ["VERDICT_TAP"]))
    sys.argv[0] = "distui"
    sys.exit(main())
