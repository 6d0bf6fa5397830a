"""What to do about a finding as a command: on the host or here, and whether distui may run it for a person. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Literal

from distui.doctor.finding import Finding
from distui.doctor.host_checks import PORT
from distui.facts.host import HostFacts, ProbeResult
from distui.frozen import frozen
from distui.regex import regex
from distui.spec.hosts.inventory import Host

_WORD = regex(r"\w[\w-]*")
"""What of a host's names goes into a path."""


@frozen
class Fix:
    """A command for a finding."""

    words: tuple[str, ...]
    where: Literal["host", "here"] = "host"
    effect: Literal["looks", "pulls", "changes"] = "changes"
    """What it does: `looks` changes nothing, `pulls` fetches an image; both distui runs after a question. The others
    need root or a decision: they are shown, to be copied."""

    @property
    def safe(self) -> bool:
        """Whether distui may run it after a question."""
        return self.effect != "changes" and self.where == "host"

    @property
    def text(self) -> str:
        """The command as a line for a shell where it is run."""
        return shlex.join(self.words)

    def to_copy(self, ssh: tuple[str, ...]) -> str:
        """The same as a line to paste here; `ssh` opens a shell on the host."""
        if self.where == "here":  # the words of ssh itself, which still needs the way there
            return shlex.join((*self.words, *ssh[1:])) if ssh[:1] == self.words[:1] else shlex.join(ssh)
        return shlex.join((*ssh, self.text))


def fix_of(finding: Finding, result: ProbeResult, host: Host) -> Fix | None:
    """The command for a finding; None where there is none, and its `do` says all."""
    if finding.verdict not in ("warn", "fail", "pull"):
        return None
    if finding.check == "login":
        return Fix(("ssh", "-v"), "here", "looks")
    if not isinstance(result, HostFacts):
        return None
    if finding.check.startswith("image:"):
        return Fix((*host.engine_command, "pull", finding.check.removeprefix("image:")), effect="pulls")
    make = _FIXES.get(finding.check)
    return make(result, host) if make is not None else None


def _looks(*words: str) -> Callable[[HostFacts, Host], Fix]:
    return lambda facts, host: Fix(words, effect="looks")


def _changes(*words: str) -> Callable[[HostFacts, Host], Fix]:
    return lambda facts, host: Fix(words)


def _install(facts: HostFacts, debian: str, others: str) -> Fix:
    apt = any(name in (facts.os or "").lower() for name in ("ubuntu", "debian"))
    return Fix(("sudo", "apt-get", "install", debian) if apt else ("sudo", "dnf", "install", others))


def _python(facts: HostFacts, host: Host) -> Fix:
    return _install(facts, "python3", "python3")


def _engine(facts: HostFacts, host: Host) -> Fix:
    code = facts.engine.problem.code if facts.engine.problem is not None else ""
    if code == "engine_missing":
        return _install(facts, "docker.io" if host.engine == "docker" else host.engine, host.engine)
    if host.engine != "docker":
        return Fix((*host.engine_command, "info"), effect="looks")
    if code == "docker_permission":
        return Fix(("sudo", "usermod", "-aG", "docker", facts.user or "USER"))
    if code == "daemon_down":
        return Fix(("sudo", "systemctl", "enable", "--now", "docker"))
    return Fix((*host.engine_command, "info"), effect="looks")


def _strangers(facts: HostFacts, host: Host) -> Fix:
    pids = sorted({process.pid for gpu in facts.gpu.gpus for process in gpu.processes})
    which = ("-p", ",".join(map(str, pids))) if pids else ("-e",)  # they may have ended since
    return Fix(("ps", "-o", "user,pid,etime,args", *which), effect="looks")


def _ports(facts: HostFacts, host: Host) -> Fix:
    bad = [port for port in facts.ib if not port.active and _WORD.fullmatch(port.hca)]
    folders = [f"/sys/class/infiniband/{port.hca}/ports/{port.port}" for port in bad]
    files = [f"{folder}/{name}" for folder in folders for name in ("state", "phys_state", "rate")]
    return Fix(("tail", "-n", "+1", *files) if files else ("ibstat",), effect="looks")


def _disk(facts: HostFacts, host: Host) -> Fix:
    engine = host.engine != "process" and facts.engine.problem is None
    return Fix((*host.engine_command, "system", "df") if engine else ("df", "-h"), effect="looks")


_FIXES: Mapping[str, Callable[[HostFacts, Host], Fix]] = {
    "clock": _changes("sudo", "timedatectl", "set-ntp", "true"),
    "python3": _python,
    "engine": _engine,
    "gpu_runtime": _changes("sudo", "nvidia-ctk", "runtime", "configure", "--runtime=docker"),
    "gpus": _looks("nvidia-smi"),
    "gpu_heat": _looks("nvidia-smi", "-q", "-d", "TEMPERATURE,PERFORMANCE"),
    "drivers": _looks("nvidia-smi"),
    "same_gpus": _looks("nvidia-smi", "-L"),
    "idle": _strangers,
    "address": _looks("ip", "addr"),
    "port": _looks("ss", "-ltnp", f"sport = :{PORT}"),
    "infiniband": _ports,
    "ib_rates": _ports,
    "rdma": _changes("sudo", "modprobe", "ib_uverbs"),
    "disk": _disk,
    "memory": _looks("ps", "-eo", "user,pid,rss,args", "--sort=-rss"),
}
