"""How the hosts of a run are reached, kept beside its plan: later verbs need no inventory."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from distui.facts.values import loads
from distui.files import read_bytes, write_private
from distui.fits import check
from distui.runs.store.runs import StoredRun
from distui.spec.host_keys import is_engine_command
from distui.spec.inventory import DataNetwork, Host


def save_hosts(stored: StoredRun, hosts: Sequence[Host]) -> None:
    """Keep how the run's hosts are reached beside its plan, so that later verbs need no inventory."""
    values = [dataclasses.asdict(h) for h in hosts]
    write_private(stored.path / "hosts.json", json.dumps(values, indent=1).encode() + b"\n")


def saved_hosts(stored: StoredRun) -> tuple[Host, ...]:
    """The hosts of a run recorded here; () when the file is absent or torn."""
    try:
        values = loads(read_bytes(stored.path / "hosts.json", ours=True))
        if not all(is_engine_command(value["engine_command"]) for value in values):
            return ()
        return tuple(
            check(
                Host(
                    **{
                        **value,
                        "engine_command": tuple(value["engine_command"]),
                        "gpus": tuple(value["gpus"]) if isinstance(value["gpus"], list) else value["gpus"],
                        "data": DataNetwork(**value["data"]),
                    }
                )
            )
            for value in values
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ()
