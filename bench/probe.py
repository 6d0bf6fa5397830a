"""Asking hosts: the probe beside bare asyncssh, what it costs a host, one trivial command beside other tools, facts."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import host_cost
from bench.cluster import HOSTS, Cluster
from bench.measure import REPO, Rival, Spent, by_its_clock, command, in_turns
from bench.peers import Peers
from bench.report import Target, note, table, title
from distui.facts.probe import script

SCRIPT = script("0" * 24).encode()
BARE = "bare asyncssh"
NAMES = "bare asyncssh, `hostname`"
SOME = 32
WHOLE, HELD = "distui, from nothing", "distui, connected before"


def measure(cluster: Cluster, peers: Peers, *, quick: bool) -> None:
    """Three hosts, then 32 and 128 names that lead to them."""
    rounds, some = 2 if quick else 7, cluster.aliases[:SOME]
    host_cost.measure(cluster, quick=quick)
    _script(cluster, HOSTS, 3 if quick else 7)
    _script(cluster, some, 1 if quick else 3)
    _hostname(cluster, cluster.aliases, 1 if quick else 5)
    for name in ("pdsh", "clush", "pssh", "ansible"):
        if name in peers.missing:
            note(f"{name}: {peers.missing[name]}")
    _trivial(cluster, peers, HOSTS, rounds)
    _trivial(cluster, peers, some, 1 if quick else 5)
    _facts(cluster, peers, 1 if quick else 3)


def _hostname(cluster: Cluster, hosts: Sequence[str], rounds: int) -> None:
    """Facts of many hosts beside their names alone. What hosts do is done on this machine's cores, too."""
    title(f"probe: {len(hosts)} connections, beside bare asyncssh that asks for `hostname` only")
    own = "distui probe_all()"
    rivals = [
        Rival(own, lambda: by_its_clock(_own(cluster, "probe", hosts), env=cluster.env)),
        Rival(NAMES, lambda: by_its_clock(_bare(cluster, "hostname", hosts), env=cluster.env)),
    ]
    table(in_turns(rivals, rounds, warm_up=False), own, [Target(NAMES, "wall", 1.3)])


def _script(cluster: Cluster, hosts: Sequence[str], rounds: int) -> None:
    """The probe's script on `hosts`: asyncssh throws the answer away, distui reads it."""
    title(f"probe: {len(hosts)} connections, one script each, without Python's start")
    own = "distui probe_all()"
    rivals = [
        Rival(own, lambda: by_its_clock(_own(cluster, "probe", hosts), env=cluster.env)),
        Rival(BARE, lambda: by_its_clock(_bare(cluster, "sh", hosts), env=cluster.env, input=SCRIPT)),
    ]
    warm_up = len(hosts) == len(HOSTS)
    table(in_turns(rivals, rounds, warm_up=warm_up), own, [Target(BARE, "wall", 1.3)])


def _trivial(cluster: Cluster, peers: Peers, hosts: Sequence[str], rounds: int) -> None:
    """`true` on `hosts` by whole programs; then by distui on hosts that are connected already."""
    title(f"command: `true` on {len(hosts)} connections, whole programs")
    rivals = [
        Rival(WHOLE, lambda: command(_own(cluster, "true", hosts), env=cluster.env)),
        Rival(BARE, lambda: command(_bare(cluster, "true", hosts), env=cluster.env)),
        *_others(cluster, peers, hosts),
        Rival(HELD, lambda: by_its_clock(_own(cluster, "again", hosts), env=cluster.env)),
    ]
    taken = in_turns(rivals, rounds, warm_up=len(hosts) == len(HOSTS))
    held = taken.pop(HELD, None)
    table(taken, WHOLE, [Target(BARE, "wall", 1.3), *_targets()])
    if held is not None:
        print("  on hosts that distui holds connections to, as during a run; the others connect each time:")
        table({HELD: held, **{n: s for n, s in taken.items() if n not in (WHOLE, BARE)}}, HELD, _targets())


def _targets() -> list[Target]:
    """What the design promises for the same command."""
    forking = ("pdsh", "clush")
    return [
        *(Target(name, "wall", 1 / 3) for name in forking),
        *(Target(name, "cpu", 1 / 10) for name in forking),
        Target("pssh", "wall", 1.0),
    ]


def _facts(cluster: Cluster, peers: Peers, rounds: int) -> None:
    """The verb `distui probe` beside Ansible's facts."""
    title("facts: `distui probe` beside `ansible -m setup`, three hosts, whole programs")
    (cluster.home / "hosts.yaml").write_text("version: 1\nhosts:\n  h[1-3]: {}\n")
    argv = (sys.executable, "-m", "distui.cli.main", "probe", "-o", "json")
    rivals = [Rival("distui probe", lambda: command(argv, env=cluster.env, cwd=cluster.home, expect='"h3"'))]
    if "ansible" in peers.found:
        rivals.append(Rival("ansible -m setup", _ansible(cluster, peers, HOSTS, "setup")))
    table(in_turns(rivals, rounds, warm_up=False), "distui probe", [Target("ansible -m setup", "wall", 1 / 20)])


def _own(cluster: Cluster, way: str, hosts: Sequence[str]) -> tuple[str, ...]:
    return (sys.executable, "-m", "bench.client", way, str(cluster.home), *hosts)


def _bare(cluster: Cluster, line: str, hosts: Sequence[str]) -> tuple[str, ...]:
    return (sys.executable, "-m", "bench.client_asyncssh", str(cluster.home), line, *hosts)


def _others(cluster: Cluster, peers: Peers, hosts: Sequence[str]) -> list[Rival]:
    """Every tool that is here, 16 at once like distui: with their own 32 and 64 sshd's MaxStartups drops logins."""
    config, found, chosen = f"-F {cluster.home}/.ssh/config", peers.found, ",".join(hosts)
    calls: dict[str, Callable[[], Spent]] = {}
    if "pdsh" in found:
        env = cluster.env | {"PDSH_RCMD_TYPE": "ssh", "PDSH_SSH_ARGS_APPEND": config}
        calls["pdsh"] = lambda: command((found["pdsh"], "-S", "-f", "16", "-w", chosen, "true"), env=env)
    if "clush" in found:
        clush = (found["clush"], "-S", "-f", "16", "-o", config, "-w", chosen, "true")
        calls["clush"] = lambda: command(clush, env=cluster.env)
    if "pssh" in found:
        calls["pssh"] = lambda: command(_pssh(cluster, found["pssh"], hosts), env=cluster.env)
    if "ansible" in found:
        calls["ansible -m raw"] = _ansible(cluster, peers, hosts, "raw", "-a", "true")
    return [Rival(name, take) for name, take in calls.items()]


def _pssh(cluster: Cluster, python: str, hosts: Sequence[str]) -> tuple[str, ...]:
    """parallel-ssh (a library) reads no ssh config: it gets addresses."""
    addresses = {host.name: host.eth for host in cluster.lab.hosts}
    where = [addresses[HOSTS[number % len(HOSTS)]] for number in range(len(hosts))]
    return (python, str(Path(REPO, "bench/client_pssh.py")), str(cluster.home / ".ssh/id_ed25519"), *where)


def _ansible(cluster: Cluster, peers: Peers, hosts: Sequence[str], module: str, *more: str) -> Callable[[], Spent]:
    """A module on `hosts`, by connections made for it, as all others' are."""
    env = cluster.env | {
        "ANSIBLE_SSH_ARGS": shlex.join(("-F", f"{cluster.home}/.ssh/config", "-o", "ControlMaster=no")),
        "ANSIBLE_HOME": str(cluster.home / "ansible"),
        "ANSIBLE_PYTHON_INTERPRETER": "/usr/bin/python3",
        "ANSIBLE_FORKS": "16",
    }
    argv = (peers.found["ansible"], "-i", ",".join(hosts) + ",", "all", "-m", module, *more)
    return lambda: command(argv, env=env)
