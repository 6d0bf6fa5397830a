"""How the hosts of a run are reached, kept beside its plan: later verbs need no inventory."""

from __future__ import annotations

import json
from collections.abc import Sequence

from distui.codec import read, write
from distui.facts.values import loads
from distui.files import read_bytes, write_private
from distui.runs.store.runs import StoredRun
from distui.spec.hosts.host_keys import is_engine_command
from distui.spec.hosts.inventory import Host


def save_hosts(stored: StoredRun, hosts: Sequence[Host]) -> None:
    """Keep how the run's hosts are reached beside its plan, so that later verbs need no inventory."""
    values = [write(h) for h in hosts]
    write_private(stored.path / "hosts.json", json.dumps(values, indent=1).encode() + b"\n")


def saved_hosts(stored: StoredRun) -> tuple[Host, ...]:
    """The hosts of a run recorded here; () when the file is absent or torn."""
    try:
        hosts = tuple(read(Host, value) for value in loads(read_bytes(stored.path / "hosts.json", ours=True)))
    except (OSError, ValueError, TypeError):
        return ()
    return hosts if all(is_engine_command(host.engine_command) for host in hosts) else ()
