"""The lab: N real hosts on this machine, for tests.

with Lab() as lab:                 # down at the end, also when the process is killed
    lab.up(3)
    lab.hosts[0].exec("docker ps")
    lab.distui("run", "job.yaml", home=home)
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import current_thread, main_thread
from typing import Self

from lab import cgroups, cleanup, images, network
from lab.host import Host
from lab.hostfiles import HostFiles, hidden_folders
from lab.keys import known_hosts_line, make_key, write_client
from lab.packages import ensure_packages
from lab.paths import HERE, LAB_DIR, NETNS, REPO, LabError, lab_folder
from lab.program import LIMIT, Program
from lab.state import Process, State, locked, read_state

DEFAULT = "lab"


class Lab:
    """A test cluster by name. Several may run at once; each has its own switch, so addresses may repeat."""

    def __init__(self, name: str = DEFAULT) -> None:
        if not name.isalnum() or len(name) > 8:
            raise LabError(f"{name!r}: a lab's name is up to 8 letters and digits")
        self.name = name
        self.hosts: list[Host] = []
        self.hidden = hidden_folders()
        self.guard: subprocess.Popen[bytes] | None = None

    @property
    def folder(self) -> Path:
        """State, keys and host folders of this lab; gone after `down`."""
        return lab_folder(self.name)

    @property
    def share(self) -> Path:
        """The shared folder as this machine sees it; /mnt/pytorch on every host."""
        return self.folder / "share"

    def host(self, name: str) -> Host:
        """The host called `name` (h1, h2, ...); LabError when the lab has none such."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise LabError(f"no host {name!r} in lab {self.name!r}: it has {', '.join(h.name for h in self.hosts)}")

    # --- up and down

    def up(self, hosts: int = 3, *, docker: bool = True, live_restore: bool = False, keep: bool = False) -> None:
        """Bring up `hosts` hosts and return when sshd (and dockerd) answer on each.

        The lab goes down with this process, also when it is killed, unless `keep`. What killed labs left is
        cleared first, whatever their name. LabError when a live lab of this name is up, when not root, and
        with a host's own words when it does not start.
        """
        check_machine()
        with locked(self.name):
            self.refuse_second()
            ensure_packages()
            if docker:
                images.ensure_images()
            sweep()
            cleanup.wipe(self.name)
            try:
                self.build(hosts, docker, live_restore)
                State(hosts, docker, None if keep else Process.of(os.getpid())).write(self.name)
            except BaseException:
                cleanup.wipe(self.name)
                raise
        if not keep:
            self.guard = start_guard(self.name)

    def refuse_second(self) -> None:
        state = read_state(self.name)
        if state is None or not Host(self, 1, state.docker).is_up:
            return
        if state.owner is None:
            raise LabError(f"lab {self.name!r} is up: use it, or first `python3 tests/lab down --name {self.name}`")
        if state.owner.is_alive:
            raise LabError(
                f"lab {self.name!r} is in use by process {state.owner.pid}: wait for it or choose another name"
            )

    def build(self, count: int, docker: bool, live_restore: bool) -> None:
        """Wires, files, then all hosts at once."""
        self.share.mkdir(parents=True)
        self.folder.chmod(0o755)
        self.share.chmod(0o777)
        client = self.folder / "keys/id_ed25519"
        make_key(client, "lab")
        publics = [make_key(self.host_key(index), f"root@h{index}") for index in range(1, count + 1)]
        known = [known_hosts_line(f"h{index}", index, key) for index, key in enumerate(publics, 1)]
        (self.folder / "known_hosts").write_text("\n".join(known) + "\n")
        network.build_switch(self.name)
        self.hosts = [Host(self, index, docker) for index in range(1, count + 1)]
        for host in self.hosts:
            self.prepare(host, client, known, live_restore)
            host.start()
        for host in self.hosts:
            host.wait_ready()

    def host_key(self, index: int) -> Path:
        return self.folder / f"keys/h{index}"

    def prepare(self, host: Host, client: Path, known: list[str], live_restore: bool) -> None:
        network.add_host(self.name, host.name, host.index)
        files = HostFiles(host.folder, self.name, host.name, host.index, len(self.hosts))
        files.write(self.host_key(host.index), client, known, live_restore)
        if host.docker:
            files.copy_docker_root()

    def attach(self) -> Self:
        """Use a lab that another process brought up; LabError when there is none."""
        state = read_state(self.name)
        if state is None:
            raise LabError(f"lab {self.name!r} is not up: sudo python3 tests/lab up --hosts 3")
        self.hosts = [Host(self, index, state.docker) for index in range(1, state.hosts + 1)]
        return self

    def down(self) -> None:
        """Take everything away; LabError lists what is left, if anything. Fine to call when it is not up."""
        with locked(self.name):
            if self.guard is not None:
                self.guard.kill()
                self.guard.wait()
                self.guard = None
            for host in self.hosts:
                host.kill()
            cleanup.wipe(self.name)
            self.hosts = []

    def group_folders(self, host: Host) -> list[str]:
        """The control groups that a command in this host must join."""
        return [str(group) for group in cgroups.make_host(self.name, host.name)]

    def heal(self) -> None:
        """Undo every fault on every host."""
        for host in self.hosts:
            host.heal()

    def __enter__(self) -> Self:
        """SIGTERM then ends the program as Ctrl-C does: everything that was made is taken down."""
        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL and current_thread() is main_thread():
            signal.signal(signal.SIGTERM, signal.default_int_handler)
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    # --- the login node

    def ssh_home(self, home: Path) -> Path:
        """Make `home` the home folder of someone who can log in to every host: HOME/.ssh with config and keys."""
        known = (self.folder / "known_hosts").read_text().splitlines()
        write_client(home / ".ssh", self.folder / "keys/id_ed25519", [(h.name, h.index) for h in self.hosts], known)
        return home

    def command(self, *argv: str) -> tuple[str, ...]:
        """The machine's command line that runs `argv` on the login node (10.77.0.1)."""
        return ("nsenter", f"--net={NETNS / network.namespace(self.name, 'ctl')}", "--", *argv)

    def spawn(self, *argv: str, home: Path, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Program:
        """Start a program on the login node in a session of its own, with HOME set; see `Program`."""
        return Program(self.command(*argv), home=home, env=env or {}, cwd=cwd or home)

    def spawn_distui(
        self, *args: str, home: Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> Program:
        """Start distui, from this checkout, on the login node."""
        path = {"PYTHONPATH": str(REPO)} | dict(env or {})
        return self.spawn(sys.executable, "-m", "distui.cli.main", *args, home=home, env=path, cwd=cwd)

    def distui(
        self,
        *args: str,
        home: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        input: str = "",
        timeout: float = LIMIT,
    ) -> subprocess.CompletedProcess[str]:
        """Run distui to its end on the login node; its whole process group is killed after `timeout` seconds."""
        return self.spawn_distui(*args, home=home, env=env, cwd=cwd).finish(input, timeout)

    def ssh(self, host: str, command: str, *, home: Path, timeout: float = LIMIT) -> subprocess.CompletedProcess[str]:
        """OpenSSH from the login node to `[user@]host`, as a person would type it."""
        options = ("-F", str(home / ".ssh/config"), "-o", "BatchMode=yes", "-o", "ConnectTimeout=20")
        return self.spawn("ssh", *options, host, command, home=home).finish("", timeout)


def check_machine() -> None:
    """LabError unless this is Linux and we are root."""
    if reason := why_not():
        raise LabError(reason)


def why_not() -> str:
    """Why a lab cannot be brought up here; empty when it can."""
    if not sys.platform.startswith("linux"):
        return "the lab needs Linux: it is made of network namespaces"
    if os.geteuid() != 0:
        return "the lab needs root, for namespaces and mounts: sudo python3 tests/lab up"
    if not shutil.which("unshare"):
        return "the lab needs unshare and nsenter (util-linux)"
    return ""


def sweep() -> None:
    """Take down every lab whose owner is dead; one that is just being brought up or taken down is left alone."""
    for folder in (LAB_DIR / "labs").glob("*"):
        state = read_state(folder.name)
        if state is not None and (state.owner is None or state.owner.is_alive):
            continue
        with suppress(LabError), locked(folder.name):
            cleanup.wipe(folder.name)


def start_guard(name: str) -> subprocess.Popen[bytes]:
    """A process that takes the lab down when this one ends in any way; it cannot be forgotten or outrun."""
    argv = (sys.executable, str(HERE), "guard", "--name", name, str(os.getpid()))
    null = subprocess.DEVNULL
    return subprocess.Popen(argv, stdin=null, stdout=null, stderr=null, start_new_session=True, cwd="/")
