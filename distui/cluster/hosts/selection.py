"""Which hosts a call is about: the inventory it finds, and what chooses among the hosts in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from distui.errors import NotFound, UsageError
from distui.files import absent, exists, is_file
from distui.frozen import frozen
from distui.spec.choose import choose_hosts, hosts_of_job
from distui.spec.hosts.hostfile import load_hostfile
from distui.spec.hosts.inventory import Host, HostPick, Inventory
from distui.spec.hosts.read_inventory import inventory_from_names, load_inventory
from distui.spec.job.job import Job
from distui.spec.yaml.problems import did_you_mean


@frozen
class Selection:
    """Where an inventory is looked for, and which of its hosts are meant."""

    cwd: Path
    """Its hosts.yaml comes before the user's own."""
    own_file: Path
    """The user's hosts.yaml."""
    hosts: tuple[str, ...] = ()
    """Names, ranges and groups (`-H`)."""
    labels: Mapping[str, str] | None = None
    hostfile: str | None = None
    """A file in the form of MPI's, in the place of an inventory (`-i`)."""
    hosts_file: str = ""
    """The inventory, where it was named."""
    known: Inventory | None = None
    """The inventory itself, where a program has read it."""

    def inventory(self) -> Inventory:
        """The inventory of this call: the hostfile, hosts.yaml, or else the names in `hosts`.

        Raises UsageError when there is none, SpecError when it is wrong.
        """
        if self.known is not None:
            return self.known
        if self.hostfile is not None:
            return load_hostfile(self.hostfile)
        if self.path is not None:
            return load_inventory(self.path)
        if self.hosts and not any(word.lstrip().startswith("@") for word in self.hosts):
            return inventory_from_names(self.hosts)
        raise self._no_inventory()

    def maybe_inventory(self) -> Inventory | None:
        """The inventory, None when there is none to read. Raises SpecError when it is wrong."""
        if self.known is None and self.hostfile is None and self.path is None and not self.hosts:
            return None
        return self.inventory()

    @property
    def path(self) -> str | None:
        """The hosts.yaml of this call; None when no place has one."""
        if self.hosts_file:
            return self.hosts_file
        places = (("hosts.yaml", self.cwd / "hosts.yaml"), (str(self.own_file), self.own_file))
        return next((name for name, place in places if _is_here(place)), None)

    def need_path(self) -> str:
        """The hosts.yaml of this call. Raises UsageError when there is none."""
        if (path := self.path) is None:
            raise self._no_inventory()
        return path

    def _no_inventory(self) -> UsageError:
        return UsageError(
            f"there is no inventory: neither ./hosts.yaml nor {self.own_file}",
            hint="name hosts with -H 'node[01-04]', a file with -i, or create hosts.yaml: "
            "`distui hosts import ssh-config --write`, `distui hosts add HOST`",
        )

    def picks(self, found: Inventory, more: Sequence[str] = ()) -> tuple[HostPick, ...]:
        """The hosts that are chosen, here and by `more`; all when nothing chooses. Raises UsageError."""
        return choose_hosts(found, (*self.hosts, *more), self.labels)

    @property
    def narrows(self) -> bool:
        """Whether hosts were named, or picked by their labels: then a call is about no others."""
        return bool(self.hosts or self.labels)

    def chosen(self) -> tuple[Host, ...]:
        """The hosts of the inventory that are chosen; none where there is no inventory, which labels need."""
        found = self.maybe_inventory() if not self.labels else self.inventory()
        return found.chosen(self.picks(found)) if found is not None else ()


def _is_here(place: Path) -> bool:
    """Whether a file is there. One that can't be looked at is: reading it says why, and no other takes its place."""
    return is_file(place) or not (exists(place) or absent(place))


def hosts_of_run(
    inventory: Inventory,
    job: Job,
    hosts: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    *,
    hint: str,
) -> tuple[HostPick, ...]:
    """The hosts that a run is for: those named, else the job's own. Raises UsageError, with `hint`, for none."""
    if hosts or labels:
        return choose_hosts(inventory, tuple(hosts), labels)
    if job.hosts is not None:
        return hosts_of_job(inventory, job.hosts)
    raise UsageError(f"job {job.name} names no hosts", hint=hint)


def host_named(found: Inventory, name: str) -> Host:
    """The inventory's host of that name. Raises NotFound with the nearest one."""
    host = found.get(name)
    if host is None:
        known = did_you_mean(name, [h.name for h in found.hosts])
        raise NotFound(f"there is no host '{name}'{known}", hint="`distui hosts ls` lists them")
    return host
