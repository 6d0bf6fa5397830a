"""One host of the lab: starting it, running commands in it, looking at what is left on it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lab import cgroups, engine_api, images, leftovers
from lab.network import ETH, IB, address, namespace
from lab.paths import HERE, NETNS, STUBS, LabError
from lab.program import LIMIT
from lab.shell import clean_env

if TYPE_CHECKING:
    from lab.lab import Lab


ENTER = 'for group in $LAB_GROUPS; do echo 0 >"$group/cgroup.procs"; done; unset LAB_GROUPS; exec "$@"'
"""Joins the host's control groups (so that freezing the host stops this too), then becomes the command."""


@dataclass(slots=True)
class Host:
    """A host that is, or can be, up. `name` is h1, h2, ...; `index` its number."""

    lab: Lab
    index: int
    docker: bool
    groups: list[Path] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return f"h{self.index}"

    @property
    def folder(self) -> Path:
        """The host's folder on the machine; /.lab/host inside."""
        return self.lab.folder / self.name

    @property
    def eth(self) -> str:
        """Address on the Ethernet, 10.77.0.1N."""
        return address(ETH, self.index)

    @property
    def ib(self) -> str:
        """Address on the second network (IPoIB), 10.78.0.1N."""
        return address(IB, self.index)

    @property
    def pid(self) -> int:
        """The machine's pid of the host's pid 1; LabError when the host is off."""
        try:
            pid = int((self.folder / "pid").read_text())
        except (OSError, ValueError):
            raise LabError(f"{self.name} is off") from None
        if not Path(f"/proc/{pid}").exists():
            raise LabError(f"{self.name} is off")
        return pid

    @property
    def is_up(self) -> bool:
        try:
            return bool(self.pid)
        except LabError:
            return False

    def start(self) -> None:
        """Begin to start the host; `wait_ready` says when it is there."""
        self.groups = cgroups.make_host(self.lab.name, self.name)
        for mark in ("ready", "pid"):
            (self.folder / mark).unlink(missing_ok=True)
        inside = ("unshare", "-m", "-u", "-i", "-p", "--fork", "bash", str(HERE / "hostinit.sh"))
        argv = ("sh", "-c", ENTER, "sh", "nsenter", f"--net={NETNS / namespace(self.lab.name, self.name)}", *inside)
        with (self.folder / "init.log").open("ab") as log:
            self.process = subprocess.Popen(
                argv, env=self.init_env(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def init_env(self) -> dict[str, str]:
        return clean_env(
            LAB_GROUPS=" ".join(str(group) for group in self.groups),
            LAB_HOST=self.name,
            LAB_FOLDER=str(self.folder),
            LAB_SHARE=str(self.lab.share),
            LAB_GOLDEN=str(images.golden()),
            LAB_STUBS=str(STUBS),
            LAB_HIDE=" ".join(self.lab.hidden),
            LAB_DOCKER="1" if self.docker else "0",
        )

    def wait_ready(self) -> None:
        """Return when sshd and dockerd answer; LabError with the host's own words when it does not come up."""
        deadline = time.monotonic() + LIMIT
        while not (self.folder / "ready").exists():
            ended = self.process is not None and self.process.poll() is not None
            if ended or time.monotonic() > deadline:
                said = (self.folder / "init.log").read_text(errors="replace")[-3000:]
                raise LabError(f"{self.name} did not come up: {said}")
            time.sleep(0.02)

    def command(self, *argv: str) -> tuple[str, ...]:
        """The machine's command line that runs `argv` as root inside the host."""
        pid = self.pid
        return ("sh", "-c", ENTER, "sh", "nsenter", "-t", str(pid), "-m", "-u", "-i", "-n", "-p", "--", *argv)

    def exec(
        self,
        *argv: str,
        input: str = "",
        timeout: float = LIMIT,
        check: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside the host, past sshd; one argument alone is a `sh -c` script.

        LabError with the command's own words when `check` and it fails, and after `timeout` seconds.
        """
        inner = ("sh", "-c", argv[0]) if len(argv) == 1 else argv
        try:
            done = subprocess.run(
                self.command(*inner),
                env=self.exec_env() | dict(env or {}),
                input=input,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
            )
        except subprocess.TimeoutExpired as error:
            raise LabError(f"{self.name}: {' '.join(argv)}: no answer in {timeout} s") from error
        if check and done.returncode:
            raise LabError(f"{self.name}: {' '.join(argv)}: exit {done.returncode}: {done.stderr or done.stdout}")
        return done

    def out(self, *argv: str, **options: object) -> str:
        """Standard output of `exec`, stripped."""
        return self.exec(*argv, **options).stdout.strip()  # type: ignore[arg-type]

    def exec_env(self) -> dict[str, str]:
        groups = self.groups or [Path(line) for line in self.lab.group_folders(self)]
        return clean_env(LAB_GROUPS=" ".join(str(group) for group in groups))

    def fault(self, kind: str, *args: str | int) -> None:
        """Break something, or mend it: see `faults.KINDS`. LabError for an unknown kind."""
        from lab.faults import apply_fault

        apply_fault(self, kind, *(str(arg) for arg in args))

    def heal(self) -> None:
        """Undo every fault and bring the host back to health."""
        from lab.faults import heal

        heal(self)

    def kill(self) -> None:
        """SIGKILL the host's pid 1 and return when all of it is gone, as in a power cut."""
        if self.is_up:
            # A frozen process does not die before it is thawed.
            cgroups.thaw_all(self.lab.name, self.name)
            kill_and_wait(self.pid)
        if self.process is not None:
            self.process.wait(LIMIT)
            self.process = None

    def bytes(self, interface: str) -> tuple[int, int]:
        """(received, sent) bytes of eth0 or ib0 since the host's cable was plugged in."""
        base = f"/sys/class/net/{interface}/statistics"
        received, sent = self.out(f"cat {base}/rx_bytes {base}/tx_bytes").split()
        return int(received), int(sent)

    def containers(self, label: str = "distui.run") -> list[str]:
        """Names of containers, in any state, that carry a label (`key` or `key=value`), podman's included."""
        listing = ("podman", "ps", "-a", "--filter", f"label={label}", "--format", "{{.Names}}")
        podman = self.out(*listing).split() if "podman" in self.engines() else []
        docker = engine_api.containers(self.docker_socket, label, ended=True) if self.docker else []
        return [name.removeprefix("/") for one in docker for name in one["Names"]] + podman

    def states(self, label: str = "distui.run") -> list[str]:
        """The state of each of Docker's containers that carry a label: `created`, `running`, `exited`, ..."""
        return [one["State"] for one in engine_api.containers(self.docker_socket, label, ended=True)]

    def running(self, label: str = "distui.run") -> int:
        """How many of Docker's containers that carry a label are alive, paused ones included."""
        return len(engine_api.containers(self.docker_socket, label, ended=False))

    @property
    def docker_socket(self) -> Path:
        """Where the machine reaches the host's dockerd."""
        return self.root / "run/docker.sock"

    @property
    def root(self) -> Path:
        """The host's root folder, as the machine sees it."""
        return Path(f"/proc/{self.pid}/root")

    def engines(self) -> list[str]:
        """The container engines in use here: docker if the lab has it, podman once it has stored something."""
        podman = (self.root / "var/lib/containers/storage").is_dir()
        return ["docker"] * self.docker + ["podman"] * podman

    def leftovers(self, run: str | None = None) -> list[str]:
        """What distui has left on this host, in words: containers, files, processes. Empty is good.

        With `run`, only containers and processes of that run are looked at; files always.
        """
        found = [f"container {name}" for name in self.containers(f"distui.run={run}" if run else "distui.run")]
        return found + leftovers.leftovers(self.root, run or "")

    def remove_leftovers(self) -> list[str]:
        """Remove what distui has left here, and return what it was."""
        found = self.leftovers()
        for line in found:
            kind, name = line.split()[:2]
            if kind == "container":
                self.exec(f"for engine in {' '.join(self.engines())}; do $engine rm -f {name}; done", check=False)
            else:
                self.exec(*(("rm", "-f", name) if kind == "file" else ("kill", "-KILL", name)), check=False)
        if found:  # an empty folder of a run would refuse its name
            self.exec("find /root /home -depth -path '*/.local/state/distui/*' -type d -empty -delete", check=False)
        return found

    def podman_image(self, image: str) -> None:
        """Copy an image from the host's Docker into its podman, unless podman has it."""
        if self.exec("podman", "image", "exists", image, check=False).returncode:
            self.exec("podman", "pull", "-q", f"docker-daemon:{image}")


def kill_and_wait(pid: int) -> None:
    """SIGKILL, and return when the process is gone."""
    process = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(process, signal.SIGKILL)
        select.select([process], [], [], LIMIT)
    finally:
        os.close(process)
