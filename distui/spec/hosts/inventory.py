"""`hosts.yaml` as values: hosts, groups and what each host adds to `~/.ssh/config`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Literal

from distui.frozen import frozen

EngineName = Literal["docker", "podman", "process"]

GpuPolicy = Literal["auto"] | int | tuple[int, ...]
"""Which GPUs of a host distui may use: all it finds, N (the host fails with fewer), or an allow-list."""


@frozen
class DataNetwork:
    """What `data:` pins of a host's network between ranks; None leaves the choice to the plan."""

    addr: str | None = None
    ifname: str | None = None
    hcas: str | None = None
    """Names of the InfiniBand devices to use (`mlx5_[0-7]`), or `^mlx5_3` to leave some out."""


@frozen
class Host:
    """One host of the inventory. `name` is its ssh alias; user, port and addr fill what ssh config leaves open."""

    name: str
    addr: str | None = None
    user: str | None = None
    port: int | None = None
    engine: EngineName = "docker"
    engine_command: tuple[str, ...] = ("docker",)
    """How the engine's client is called: `docker`, `podman` or `sudo -n docker`; empty for `process`."""
    gpus: GpuPolicy = "auto"
    slots: int | None = None
    """Ranks this host takes, from a `--hostfile` line `host slots=N`."""
    labels: Mapping[str, str] = field(default_factory=dict)
    data: DataNetwork = DataNetwork()
    connect_timeout: float = 10.0
    """Seconds for the whole of connecting: TCP, banner and login."""


@frozen
class Inventory:
    """All hosts that `hosts.yaml` (or `-H`, `--hostfile`) names, in file order, and its groups."""

    hosts: tuple[Host, ...]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    path: str = ""
    _by_name: Mapping[str, Host] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {h.name: h for h in reversed(self.hosts)})

    def get(self, name: str) -> Host | None:
        """The host of that name, or None."""
        return self._by_name.get(name)

    def chosen(self, picks: Iterable[HostPick]) -> tuple[Host, ...]:
        """The hosts that were picked, in that order."""
        return tuple(host for pick in picks if (host := self.get(pick.name)) is not None)


@frozen
class HostPick:
    """One host chosen for a run, with the GPUs picked by `-H node01:0-3` (None: as the job says)."""

    name: str
    gpus: tuple[int, ...] | None = None
