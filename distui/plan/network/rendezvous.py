"""How ranks find each other: the port on rank 0's host, the init method and its file."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import chain

from distui.facts.host import HostFacts
from distui.frozen import frozen
from distui.plan.content.mounts import bind_of, mounts_of
from distui.plan.model import HostNetwork, Notes
from distui.plan.network.fabric import plain
from distui.plan.ranks.placement import HostPlacement
from distui.spec.job.job import Job

PORTS = range(20000, 30000)
"""Where free ports are looked for: below Linux's default ephemeral range (32768 up)."""

KEPT_FREE = frozenset({28028, 29400, 29500})
"""Ports others expect to find free: NCCL's RAS service and torchrun's two defaults."""


@frozen
class RendezvousPoint:
    """Where the ranks of a run meet."""

    master_addr: str
    master_port: int
    init_method: str
    file: str | None = None
    """The rendezvous file as the ranks see it."""
    host_file: str | None = None
    """The same file as the hosts see it; None when unknown."""
    ports: tuple[int, ...] = ()
    """Where each task of launcher `tf` listens, by rank."""
    cluster: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """`host:port` of those tasks, by type."""


def meet(
    job: Job,
    places: Sequence[HostPlacement],
    networks: Sequence[HostNetwork],
    notes: Notes,
    *,
    run_id: str,
    attempt: int,
) -> RendezvousPoint:
    """Choose the rendezvous point of a run on the host of rank 0. Never raises."""
    first = next((p for p in places if 0 in p.ranks), places[0])
    addr = _master_addr(job, first, places, networks, notes)
    port = _master_port(job, first, f"{run_id}/{attempt}", notes)
    file = _file(job, run_id, attempt)
    if job.rendezvous.kind != "env" and job.launcher == "torchrun":
        notes.problem(
            "rendezvous",
            None,
            f"torchrun only feeds env://, the job asks for rendezvous {job.rendezvous.kind}",
            "use launcher: env, or drop rendezvous",
        )
    method = _init_method(job, addr, port, file)
    host_file = _host_file(job, file, places, notes) if file else None
    return RendezvousPoint(addr, port, method, file, host_file)


def _init_method(job: Job, addr: str, port: int, file: str | None) -> str:
    match job.rendezvous.kind:
        case "env":
            return "env://"
        case "tcp":
            return f"tcp://{bracketed(addr)}:{port}"
        case "file":
            return f"file://{file or ''}"


def bracketed(addr: str) -> str:
    """The address as it stands before `:port`: IPv6 in brackets."""
    return f"[{addr}]" if ":" in addr else addr


# address and port


def _master_addr(
    job: Job, first: HostPlacement, places: Sequence[HostPlacement], networks: Sequence[HostNetwork], notes: Notes
) -> str:
    """Rank 0's address, or the job's own MASTER_ADDR once it is known to be rank 0's."""
    chosen = next((n.addr for n in networks if n.host == first.name), "")
    asked = job.env.get("MASTER_ADDR")
    if asked is None or plain(asked) == chosen:
        return chosen if asked is None else asked
    own = _addresses(first.facts)
    owner = next((p.name for p in places if plain(asked) in _addresses(p.facts)), None)
    if plain(asked) in own:
        notes.reasons.append(f"MASTER_ADDR {asked}: set by the job's env")
    elif _is_name(asked) and owner is None:
        notes.warnings.append(
            f"MASTER_ADDR {asked}, set by the job's env, must lead to {first.name}, where rank 0 runs"
        )
    else:
        whose = f"it is {owner}'s" if owner else "no host of the run has it"
        has, shown = ", ".join(sorted(own)) or "none", asked or "''"
        notes.problem(
            "rendezvous",
            first.name,
            f"MASTER_ADDR {shown} can't be reached: rank 0 runs here, and {whose} (addresses here: {has})",
            f"drop MASTER_ADDR from env (the plan would use {chosen or 'the chosen address'})",
        )
    return asked


def _addresses(facts: HostFacts) -> frozenset[str]:
    return frozenset(a.ip for nic in facts.nics for a in nic.addresses)


def _is_name(text: str) -> bool:
    """Whether a text is a host name rather than an address."""
    return re.fullmatch(r"[0-9.]+", text) is None and re.fullmatch(r"[^\s:/\x00-\x1f\x7f]+", text) is not None


def _master_port(job: Job, first: HostPlacement, seed: str, notes: Notes) -> int:
    asked, own = asked_port(job), job.env.get("MASTER_PORT")
    if own is not None and own != str(asked) and (job.launcher, job.rendezvous.kind) == ("env", "env"):
        other = f"master_port is {asked}" if asked is not None else "that is no port"
        notes.problem(
            "port", None, f"env sets MASTER_PORT={own}, which ranks would meet at, and {other}", "drop it from env"
        )
    if asked is None:
        return _free_port(first, seed, notes)
    if not 1 <= asked <= 65535:
        notes.problem("port", None, f"master port {asked} is not a port (1 to 65535)")
    elif asked in first.facts.ports_in_use:
        notes.problem(
            "port_taken",
            first.name,
            f"port {asked} is taken: somebody listens on it on this host, where rank 0 runs",
            "name another master_port, or drop it and let the plan choose",
            asked,
        )
    else:
        notes.warnings.extend(ephemeral_warning(first, asked))
    return asked


def ephemeral_warning(place: HostPlacement, port: int) -> list[str]:
    """What to say of a port that any outgoing connection may hold; nothing for others."""
    if not _is_ephemeral(place.facts, port):
        return []
    low, high = place.facts.ephemeral_ports
    return [f"{place.name}: port {port} is in the ephemeral range {low}-{high}; any outgoing connection may hold it"]


def asked_port(job: Job) -> int | None:
    """The port the job names: torchrun's own setting, `master_port`, or MASTER_PORT in its env."""
    if job.launcher == "torchrun" and job.torchrun.port is not None:
        return job.torchrun.port
    if job.master_port is not None:
        return job.master_port
    text = job.env.get("MASTER_PORT", "")
    return int(text) if re.fullmatch(r"[0-9]{1,6}", text) else None


def _free_port(first: HostPlacement, seed: str, notes: Notes) -> int:
    """A port for rank 0, with the reason for it."""
    port = free_port(first, seed)
    if port is None:
        notes.problem("port", first.name, "no port is free", "see what listens there: ss -ltnp")
        return 0
    notes.warnings.extend(ephemeral_warning(first, port))
    notes.reasons.append(f"port {port}: {free_words(first, (port,))}")
    return port


def free_words(place: HostPlacement, ports: Sequence[int]) -> str:
    """Why these ports, after their numbers."""
    low, high = place.facts.ephemeral_ports
    inside = any(_is_ephemeral(place.facts, port) for port in ports)
    where = "whose ephemeral range {} leaves no other" if inside else "outside its ephemeral range {}"
    return f"free on {place.name}, {where.format(f'{low}-{high}')}"


def free_port(place: HostPlacement, seed: str, taken: Collection[int] = ()) -> int | None:
    """A port nobody listens on, outside the ephemeral range where that leaves one (hosts are tuned to 1024-65535, too);
    the same for the same seed. None: there is none.
    """
    facts = place.facts
    start = int.from_bytes(hashlib.sha256(seed.encode("utf-8", "surrogatepass")).digest()[:8], "big")

    def unused() -> Iterator[int]:
        near = (PORTS[(start + i) % len(PORTS)] for i in range(len(PORTS)))
        for port in chain(near, range(1024, PORTS.start), range(PORTS.stop, 65536)):
            if port not in facts.ports_in_use and port not in KEPT_FREE and port not in taken:
                yield port

    low, high = facts.ephemeral_ports
    outside = (port for port in unused() if not low <= port <= high) if low > 1024 or high < 65535 else iter(())
    return next(outside, None) or next(unused(), None)


def _is_ephemeral(facts: HostFacts, port: int) -> bool:
    low, high = facts.ephemeral_ports
    return low <= port <= high


# the file


def _file(job: Job, run_id: str, attempt: int) -> str | None:
    """A fresh path for each attempt: a file left by an earlier one makes ranks fail or hang (LAB section 3)."""
    if job.rendezvous.kind != "file":
        return None
    suffix = hashlib.sha256(f"{run_id}\0{attempt}\0file".encode("utf-8", "surrogatepass")).hexdigest()[:8]
    directory = job.rendezvous.directory or ""
    return posixpath.join(directory, f"distui-{run_id}-{attempt}-{suffix}")


def _host_file(job: Job, file: str, places: Sequence[HostPlacement], notes: Notes) -> str | None:
    """The rendezvous file on the hosts, when it is the same path on all of them."""
    if not file.startswith("/"):
        notes.problem(
            "rendezvous",
            None,
            f"rendezvous directory {job.rendezvous.directory or ''!r} is not an absolute path",
            "give the shared folder as the ranks see it: rendezvous: {file: /mnt/shared}",
        )
        return None
    paths = {p.name: _on_host(job, file, p) for p in places}
    ranks = sum(len(p.ranks) for p in places)
    for name, path in paths.items():
        if path is None and ranks > 1:
            notes.problem(
                "rendezvous",
                name,
                f"rendezvous directory {job.rendezvous.directory!r} is in no mounted volume: ranks can't share it",
                "mount the shared folder with volumes: or data:",
            )
    if len(places) > 1:
        notes.reasons.append(f"{posixpath.dirname(file)} must be one shared folder on all hosts, with file locks")
    known = set(paths.values())
    return (known.pop() or None) if len(known) == 1 else None


def _on_host(job: Job, file: str, at: HostPlacement) -> str | None:
    """A path inside the container as the host sees it: "" in a named volume, None when no mount holds it."""
    if at.host.engine == "process":
        return file
    mounts = [bind_mount(v, at.facts.home) for v in job.volumes]
    mounts += [bind_of(mount, at.facts.home) for mount in mounts_of(job)]
    holding = [(src, dst) for src, dst in mounts if dst and (file + "/").startswith(dst.rstrip("/") + "/")]
    if not holding:
        return None
    src, dst = max(holding, key=lambda m: len(m[1]))
    return posixpath.normpath(posixpath.join(src, posixpath.relpath(file, dst))) if src.startswith("/") else ""


def bind_mount(volume: str, home: str | None) -> tuple[str, str]:
    """Source and target of `-v SRC:DST[:OPTIONS]`, with `./` and `~/` in the login's home; ("", "") when anonymous."""
    source, _, rest = resolve_volume(volume, home).partition(":")
    return (source, rest.partition(":")[0]) if rest else ("", "")


def resolve_volume(volume: str, home: str | None) -> str:
    """The volume with a source docker takes: paths beginning with `.` or `~` are below the login's home.

    Docker refuses relative sources before version 23 and never expands `~`, and a command over ssh starts in
    the home, so this is what a person at that prompt would mean.
    """
    source, colon, rest = volume.partition(":")
    if not colon or home is None:
        return volume
    if source in (".", "~") or source.startswith(("./", "../", "~/")):
        return posixpath.normpath(posixpath.join(home, source.removeprefix("~/").removeprefix("~"))) + colon + rest
    return volume
