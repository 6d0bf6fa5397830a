"""An image of 100 MB copied from one host to two others: `docker save | docker load` over OpenSSH, and a registry."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.cluster import Cluster
from bench.measure import Rival, Spent, command, in_turns, side_by_side
from bench.report import Target, note, table, title

FROM, TARGETS = "h1", ("h2", "h3")
IMAGE, AT_REGISTRY = "bench/image:1", "127.0.0.1:5000/bench/image:1"
OWN = "distui image push"
ONE_BY_ONE, AT_ONCE = "ssh docker save | load, in turn", "the same, side by side"
PULL, PUSH_AND_PULL = "registry: docker pull", "registry: push, then pull"
REGISTRY = "docker-registry"
CONFIG = """version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {folder}}}, delete: {{enabled: true}}}}
http: {{addr: "127.0.0.1:5000"}}
"""
MAKE = """
set -e
mkdir -p /data/bench/opt
head -c 50m /dev/urandom >/data/bench/opt/random
tar -C /usr -c lib/python3 lib/python3.11 include 2>/dev/null | head -c 50m >/data/bench/opt/text
tar -C /data/bench -c . | docker import - {image}
rm -r /data/bench
docker tag {image} {at}
"""
"""Half of it can be compressed and half can't, as with programs and weights."""


def measure(cluster: Cluster, *, quick: bool) -> None:
    """Targets have nothing of the image before each round."""
    bench = _Pushes(cluster)
    title(f"image: {bench.size / 1e6:.0f} MB from one host to two; {bench.version}")
    rivals = [
        Rival(OWN, bench.fresh(bench.by_distui)),
        Rival(ONE_BY_ONE, bench.fresh(lambda: bench.by_ssh(at_once=False))),
        Rival(AT_ONCE, bench.fresh(lambda: bench.by_ssh(at_once=True))),
    ]
    with bench.registry() as there:
        if there:
            rivals += [
                Rival(PULL, bench.fresh(bench.by_pull)),
                Rival(PUSH_AND_PULL, bench.fresh(bench.by_push, forget=True)),
            ]
        taken = in_turns(rivals, 3 if quick else 7)
    targets = [Target(name, "wall", 1.0) for name in (ONE_BY_ONE, AT_ONCE, PULL, PUSH_AND_PULL)]
    table(taken, OWN, [*targets, Target(AT_ONCE, "cpu", 1.0)])
    note("each row is whole programs on the client; what dockerd takes is in the wall time, and is most of it")
    note("the registry is on each host itself, over one folder, without TLS: its bytes cross no network")


class _Pushes:
    """The image on the first host, and ways to bring it to the others."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.home = cluster.home
        self._storage = cluster.lab.share / "registry"
        (self.home / "hosts.yaml").write_text("version: 1\nhosts:\n  h[1-3]: {}\n")
        self._host(FROM).exec(MAKE.format(image=IMAGE, at=AT_REGISTRY), timeout=300)
        about = json.loads(self._host(FROM).out("docker", "image", "inspect", IMAGE))[0]
        self.size = int(about["Size"])
        self.version = "dockerd " + self._host(FROM).out("docker", "version", "--format", "{{.Server.Version}}")

    def _host(self, name: str) -> Any:
        return next(host for host in self.cluster.lab.hosts if host.name == name)

    def fresh(self, take: Callable[[], Spent], *, forget: bool = False) -> Callable[[], Spent]:
        """The same, with targets that have nothing of it; with `forget` the registry neither."""

        def taken() -> Spent:
            for name in TARGETS:
                self._host(name).exec(f"docker rmi -f {IMAGE} {AT_REGISTRY} >/dev/null 2>&1 || true")
            if forget:
                shutil.rmtree(self._storage / "docker", ignore_errors=True)
            return take()

        return taken

    def by_distui(self) -> Spent:
        """The verb."""
        to = [word for name in TARGETS for word in ("--to", name)]
        verb = ("image", "push", IMAGE, "--from", FROM, *to, "-y")
        argv = (sys.executable, "-m", "distui.cli.main", *verb)
        return command(argv, env=self.cluster.env, cwd=self.home)

    def by_ssh(self, *, at_once: bool) -> Spent:
        """A pipe through this machine for each target."""
        pipes = [f"{self._ssh(FROM, 'docker save ' + IMAGE)} | {self._ssh(name, 'docker load')}" for name in TARGETS]
        if at_once:
            return side_by_side([("sh", "-c", pipe) for pipe in pipes])
        return side_by_side([("sh", "-c", " && ".join(pipes))])

    def by_pull(self) -> Spent:
        """All targets at once, from a registry that has it."""
        if not (self._storage / "docker").exists():
            self._push()
        return side_by_side([("sh", "-c", self._ssh(name, f"docker pull -q {AT_REGISTRY}")) for name in TARGETS])

    def by_push(self) -> Spent:
        """To the registry first."""
        began, pushed, pulled = time.monotonic(), self._push(), self.by_pull()
        return Spent(time.monotonic() - began, pushed.cpu + pulled.cpu)

    def _push(self) -> Spent:
        return side_by_side([("sh", "-c", self._ssh(FROM, f"docker push -q {AT_REGISTRY}"))])

    def _ssh(self, host: str, line: str) -> str:
        return shlex.join(("ssh", "-F", str(self.home / ".ssh/config"), host, line))

    @contextmanager
    def registry(self) -> Iterator[bool]:
        """A registry on every host, all over the same files; False, and why, where there is none."""
        if not shutil.which(REGISTRY):
            note(f"registry: not measured: not here; apt-get install {REGISTRY}")
            yield False
            return
        about = subprocess.run((REGISTRY, "--version"), capture_output=True, text=True, check=False).stdout.split()
        note(f"registry: {' '.join(about)}")
        folder = Path("/mnt/pytorch/registry")
        (self.cluster.lab.share / "registry.yml").write_text(CONFIG.format(folder=folder))
        serve = (REGISTRY, "serve", "/mnt/pytorch/registry.yml")
        null = subprocess.DEVNULL
        started = [
            subprocess.Popen(
                self._host(name).command(*serve), env=self._host(name).exec_env(), stdout=null, stderr=null
            )
            for name in (FROM, *TARGETS)
        ]
        try:
            time.sleep(1)
            yield True
        finally:
            for program in started:
                program.terminate()
                program.wait()
