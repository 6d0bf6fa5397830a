"""`data:` in a plan: each mount as a value, as a flag of `docker run`, in words; and why one can't be planned.

A path becomes a bind mount by `--mount`, which unlike `-v` refuses a source that is not there, and takes any
character (its fields are CSV). An NFS export becomes an anonymous volume of Docker's local driver, described whole in
the run line: what runs is what was printed, nothing has to be made before, and `docker rm --volumes` takes it away
with the container. Docker has no `readonly` for anonymous volumes, so `ro` goes into the mount's own options.
"""

from __future__ import annotations

import csv
import io
import posixpath
from collections.abc import Iterator, Sequence

from distui.errors import PlanProblem
from distui.frozen import frozen
from distui.plan.content import fetch
from distui.plan.model import Mount
from distui.plan.ranks.placement import HostPlacement
from distui.spec.hosts.inventory import EngineName
from distui.spec.job.data_keys import nfs_parts
from distui.spec.job.job import DataMount, Job

Argv = tuple[str, ...]


@frozen
class Site:
    """Where a mount's flag is for: the login's home, and the run whose label a volume gets."""

    home: str | None
    run_id: str


def mounts_of(job: Job) -> tuple[Mount, ...]:
    """The job's mounts, in the order of the file."""
    return tuple(_mount(name, mount) for name, mount in job.data.items())


def _mount(name: str, mount: DataMount) -> Mount:
    target = posixpath.normpath(mount.to)
    if mount.nfs is not None:
        return Mount(name, "nfs", mount.nfs, target, mount.mode, shared=True, options=_nfs_options(mount))
    if mount.url is not None:
        return Mount(name, "url", mount.url, target, "ro", shared=False, fetch=fetch.fetch_of(mount))
    return Mount(name, "path", _tidy(mount.path or ""), target, mount.mode, mount.shared)


def _tidy(path: str) -> str:
    """A path without what names nothing. What leads out of the home is kept: `~/..` is no `.`."""
    if not path.startswith("~/"):
        return posixpath.normpath(path)
    below = posixpath.normpath(path[2:].lstrip("/"))
    return "~" if below == "." else f"~/{below}"


def _nfs_options(mount: DataMount) -> str:
    """All that mount(2) is given: the server, the job's options, and `ro` where nothing may be written."""
    options = [word for word in mount.options.split(",") if word]
    read_only = ["ro"] if mount.mode == "ro" and "ro" not in options else []
    return ",".join(
        [f"addr={nfs_parts(mount.nfs or '')[0]}", *(o for o in options if o != "rw" or not read_only), *read_only]
    )


def flags(mounts: Sequence[Mount], site: Site) -> Argv:
    """`--mount ...` for each."""
    return tuple(word for mount in mounts for word in _flag(mount, site))


def _flag(mount: Mount, site: Site) -> Argv:
    if mount.kind != "nfs":
        return bind(_source(mount, site.home), mount.target, readonly=mount.mode == "ro")
    options = (("type", "nfs"), ("o", mount.options), ("device", f":{nfs_parts(mount.source)[1]}"))
    fields = ["type=volume", "volume-driver=local", *(f"volume-opt={k}={v}" for k, v in options)]
    return _mount_flag([*fields, f"volume-label=distui.run={site.run_id}", f"target={mount.target}"])


def bind(source: str, target: str, *, readonly: bool = False) -> Argv:
    """The flag that mounts a folder. Not `-v`, which would make an empty one where the source is missing."""
    return _mount_flag(["type=bind", f"source={source}", f"target={target}", *(["readonly"] if readonly else [])])


def _mount_flag(fields: Sequence[str]) -> Argv:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields)  # engines read it as CSV
    return ("--mount", line.getvalue())


def _source(mount: Mount, home: str | None) -> str:
    """Where the host has it."""
    return on_host(f"{mount.fetch.folder}/data" if mount.fetch is not None else mount.source, home)


def on_host(path: str, home: str | None) -> str:
    """A path with `~` or `~/` as the login's home."""
    if not home or not (path == "~" or path.startswith("~/")):
        return path
    return posixpath.normpath(posixpath.join(home, path[2:]))


def bind_of(mount: Mount, home: str | None) -> tuple[str, str]:
    """Source and target of a mount whose files are the host's own; the source is "" where they are not."""
    return ("" if mount.kind == "nfs" else _source(mount, home), mount.target)


def check(job: Job, places: Sequence[tuple[HostPlacement, EngineName]]) -> list[PlanProblem]:
    """Why mounts can't be made on these hosts."""
    return [
        PlanProblem("data", place.name, *fault)
        for place, engine in places
        for mount in mounts_of(job)
        if (fault := _fault(job, mount, engine, place)) is not None
    ]


def _fault(job: Job, mount: Mount, engine: EngineName, place: HostPlacement) -> tuple[str, str] | None:
    what = f"data.{mount.name}"
    if job.rendezvous.kind == "file" and mount.mode == "ro" and _holds(mount, job.rendezvous.directory or ""):
        return f"{what}: ranks can't meet at a file in it, since they may not write there", "write mode: rw"
    if engine == "process" and mount.kind == "nfs":
        return (
            f"{what}: without a container NFS can't be mounted",
            "mount it on the host, and write its path",
        )
    if engine == "process" and mount.kind == "url":
        message = f"{what}: without a container what is fetched can't be put at {mount.target}"
        return message, "fetch it in the command, or have it on the host"
    if engine == "process" and on_host(mount.source, place.facts.home) != mount.target:
        message = f"{what}: without a container ranks see the host's own {mount.source}, not {mount.target}"
        return message, f"write to: {on_host(mount.source, place.facts.home)}"
    if engine == "podman" and mount.kind == "nfs":
        return f"{what}: only Docker mounts NFS by itself", "mount it on the host, and write its path"
    return None


def _holds(mount: Mount, path: str) -> bool:
    return f"{posixpath.normpath(path)}/".startswith(f"{mount.target}/")


def words(mount: Mount) -> str:
    """The mount in one line: what ranks see, where it comes from, and what will be proved."""
    head = f"{mount.name}: {mount.target} ({mount.mode}) "
    if mount.kind == "nfs":
        return (
            f"{head}is NFS {mount.source} ({mount.options}), mounted by each host's Docker as a volume of the container"
        )
    if mount.fetch is not None:
        return f"{head}is {fetch.words(mount.source, mount.fetch)}"
    proof = "; must be one storage on all hosts, proved before the start" if mount.shared else "; must be on every host"
    return f"{head}is the hosts' {mount.source}{proof}"


def texts(job: Job) -> Iterator[tuple[str, str]]:
    """Every text of the mounts that becomes an argument, with its key."""
    for mount in mounts_of(job):
        for text in (mount.source, mount.target, mount.options):
            yield f"data.{mount.name}", text
