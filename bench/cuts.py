"""`python -m bench.cuts`: one run whose connections are cut hundreds of times; its logs are compared byte for byte.

A rank on each of three hosts prints without pause what is hard to follow (tests/lab/writer.py): numbered and repeated
lines, long ones and open ones on both streams. Whenever a host's log has grown again, all ssh sessions of that host are
killed at a random moment. Counted are the losses that distui itself told.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.cluster import HOSTS, Lab, refusal
from lab import writer  # type: ignore[import-not-found,unused-ignore]

NAME = "cutslab"
RUN = "cuts"
RATE = 500
"""Writes a second of each rank."""
LONGEST = 0.2
"""Seconds at most from the first news after a cut to the next one."""
PATIENCE = 60.0
"""Seconds that a host may take to be back."""

LF = b"\n"

JOB = {
    "version": 1,
    "name": RUN,
    "hosts": "h[1-3]",
    "image": "lab/python:1",
    "pull": "never",
    "volumes": ["/mnt/pytorch:/shared"],
}


class Contact:
    """What a run's own events say of its hosts."""

    def __init__(self, events: Iterable[str]) -> None:
        self.lost: Counter[str] = Counter()
        self.back: Counter[str] = Counter()
        self.result: dict[str, Any] = {}
        self._events = events
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        for line in self._events:
            event = json.loads(line)
            if event["type"] == "host" and event["state"] in ("lost", "back"):
                (self.lost if event["state"] == "lost" else self.back)[event["host"]] += 1
            elif event["type"] == "result":
                self.result = event


class Cuts:
    """One run, and the cuts of its connections."""

    def __init__(self, lab: Any, home: Path, dice: random.Random) -> None:
        self.lab = lab
        self.home = home
        self.dice = dice
        self.folder = Path(lab.share) / f"cuts-{time.time_ns()}"

    def run(self, cuts: int) -> list[str]:
        """Cut each host's connection so many times; returns what was wrong."""
        self.folder.mkdir()
        shutil.copy(writer.__file__, self.folder / "writer.py")
        place = f"/shared/{self.folder.name}"
        words = ["python3", f"{place}/writer.py", "100000000", str(RATE), "0", place, "{rank}"]
        (self.home / "job.yaml").write_text(json.dumps(JOB | {"command": words}))
        (self.home / "hosts.yaml").write_text("version: 1\nhosts:\n  h[1-3]: {}\n")
        argv = ("run", "job.yaml", "--name", RUN, "--headless", "-y", "-o", "ndjson", "--log-to", "none")
        try:
            with self.lab.spawn_distui(*argv, home=self.home) as program:
                return self._cut(program, cuts)
        finally:
            shutil.rmtree(self.folder)

    def _cut(self, program: Any, cuts: int) -> list[str]:
        contact, began = Contact(program.stdout), time.monotonic()
        while (least := min(contact.lost[host] for host in HOSTS)) < cuts:
            for host in self.dice.sample(HOSTS, len(HOSTS)):
                if contact.lost[host] < cuts:
                    self._cut_once(contact, host)
            if least % 20 == 0:
                print(f"{time.monotonic() - began:.0f} s: {dict(contact.lost)}", flush=True)
        (self.folder / "stop").touch()
        contact.reader.join(PATIENCE)
        wrong = self._compared()
        if contact.result.get("exit") != 0:
            wrong.append(f"the run ended so: {contact.result}")
        if contact.lost != contact.back:
            wrong.append(f"lost {dict(contact.lost)}, back {dict(contact.back)}")
        print(f"{sum(contact.lost.values())} cuts in {time.monotonic() - began:.0f} s, {dict(contact.lost)}")
        return wrong

    def _cut_once(self, contact: Contact, host: str) -> None:
        """Kill its sessions once something has come from it since it was last back."""
        end, had, lost = time.monotonic() + PATIENCE, self._size(host), contact.lost[host]
        while self._size(host) == had or contact.back[host] < lost:
            if time.monotonic() > end:
                raise RuntimeError(
                    f"nothing comes from {host}: {had} bytes, {lost} times lost, {contact.back[host]} back"
                )
            time.sleep(0.01)
        time.sleep(self.dice.uniform(0, LONGEST))
        self.lab.host(host).fault("ssh-killall")

    def _log(self, host: str) -> Path:
        return self.home / f".local/state/distui/runs/{RUN}/logs/rank-{HOSTS.index(host):05}.log"

    def _size(self, host: str) -> int:
        log = self._log(host)
        return log.stat().st_size if log.exists() else 0

    def _compared(self) -> list[str]:
        """Each rank's log beside what the rank wrote, stream by stream."""
        wrong = []
        for rank, host in enumerate(HOSTS):
            wanted = writer.written(int((self.folder / str(rank)).read_text()))
            had = writer.apart(self._log(host).read_bytes())
            for stream, got, want in zip(("stdout", "stderr"), had, wanted, strict=True):
                print(f"{host} {stream}: {len(want)} bytes in {want.count(LF)} lines")
                if got != want:
                    wrong.append(f"{stream} of {host} is wrong: {len(got)} bytes")
        return wrong


def main() -> int:
    """Take the cuts; 1 when a byte was lost, doubled or out of order."""
    parser = argparse.ArgumentParser(prog="python -m bench.cuts", description=__doc__)
    parser.add_argument("--cuts", type=int, default=200, help="of each of the three connections")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if reason := refusal():
        parser.error(reason)
    with Lab(NAME) as lab, tempfile.TemporaryDirectory(prefix="distui-cuts-") as folder:
        lab.up(len(HOSTS))
        wrong = Cuts(lab, lab.ssh_home(Path(folder)), random.Random(args.seed)).run(args.cuts)
    print(*wrong or ["no byte lost, doubled or out of order"], sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
