"""A run that somebody asks for; nothing was contacted yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from distui.frozen import frozen
from distui.spec.hosts.inventory import Host, HostPick, Inventory
from distui.spec.job.job import Job


@frozen
class RunRequest:
    """A job and the hosts to run it on."""

    job: Job
    inventory: Inventory
    picks: tuple[HostPick, ...]
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values of the job's secrets."""
    run_id: str = ""
    token: str | None = field(default=None, repr=False)
    """For the repository of the job's code."""
    text: str = field(default="", repr=False)
    """The text that the job was read from, to be kept with the run: no file may have it."""

    @property
    def hosts(self) -> tuple[Host, ...]:
        """The hosts chosen, in order."""
        return self.inventory.chosen(self.picks)
