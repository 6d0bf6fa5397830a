"""A file of 200 MB that a host fetches over HTTP and checks, beside curl and sha256sum given to OpenSSH."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.cluster import Cluster
from bench.measure import Rival, Spent, by_its_clock, in_turns, side_by_side
from bench.report import Target, note, table, title

HOST, SIZE = "h1", 200_000_000
ADDRESS, PORT = "10.77.0.1", 8377
OWN, CURL, UNCHECKED = "distui", "ssh curl && sha256sum", "ssh curl"


def measure(cluster: Cluster, *, quick: bool) -> None:
    """The host has nothing of it before each round."""
    bench = _Fetches(cluster)
    version = bench.host.out("curl", "--version").split()[1]
    title(f"data: {SIZE / 1e6:.0f} MB over HTTP to one host; curl {version}")
    rivals = [
        Rival(OWN, bench.by_distui),
        Rival(CURL, lambda: bench.by_curl(check=True)),
        Rival(UNCHECKED, lambda: bench.by_curl(check=False)),
    ]
    with bench.server():
        taken = in_turns(rivals, 3 if quick else 7)
    table(taken, OWN, [Target(CURL, "wall", 1.0), Target(CURL, "cpu", 1.0)])
    note("distui also asks what the host has, takes a lock, looks whether it fits, and can go on where it was cut off")


class _Fetches:
    """The file, its server on the login node, and ways to fetch it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.host = next(host for host in cluster.lab.hosts if host.name == HOST)
        self._folder = cluster.home / "served"
        self._folder.mkdir()
        content = os.urandom(1 << 20) * (SIZE // (1 << 20) + 1)
        (self._folder / "set.bin").write_bytes(content[:SIZE])
        self._sha256 = hashlib.sha256(content[:SIZE]).hexdigest()
        self._url = f"http://{ADDRESS}:{PORT}/set.bin"

    @contextmanager
    def server(self) -> Iterator[None]:
        """Python's plain web server."""
        where = ("--bind", ADDRESS, "--directory", str(self._folder), str(PORT))
        null = subprocess.DEVNULL
        program = subprocess.Popen((sys.executable, "-m", "http.server", *where), stdout=null, stderr=null)
        try:
            for _ in range(100):
                with suppress(OSError), socket.create_connection((ADDRESS, PORT), 1):
                    break
                time.sleep(0.1)
            yield
        finally:
            program.terminate()
            program.wait()

    def by_distui(self) -> Spent:
        """A connection, what the host has, the fetch."""
        self._forget()
        home = str(self.cluster.home)
        argv = (sys.executable, "-m", "bench.client_data", home, self._url, self._sha256, HOST)
        return by_its_clock(argv, env=self.cluster.env)

    def by_curl(self, *, check: bool) -> Spent:
        """One line in a shell of the host."""
        self._forget()
        line = f"curl -gfsSL -o /root/set.bin {self._url}"
        line += f" && echo '{self._sha256}  /root/set.bin' | sha256sum -c --quiet" if check else ""
        return side_by_side([("ssh", "-F", str(Path(self.cluster.home, ".ssh/config")), HOST, line)])

    def _forget(self) -> None:
        self.host.exec("rm -rf /root/.cache/distui /root/set.bin")
