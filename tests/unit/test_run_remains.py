"""What is left of a run, and a run as its labels tell it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from distui.errors import HostUnreachable
from distui.facts.host import Trouble
from distui.plan.labels import TaskLabels
from distui.runs.hosts.discover import FoundRun, FoundTask
from distui.runs.hosts.found_text import found_text
from distui.runs.hosts.remains import Remain, remains
from distui.session import Completed
from distui.spec.hosts.inventory import Host


class Session:
    """A host on which folders have these kilobytes; it has no containers."""

    def __init__(self, folders: dict[str, int]) -> None:
        self.folders = folders
        self.asked: list[tuple[str, ...]] = []

    async def run(self, argv: Sequence[str], **more: Any) -> Completed:
        self.asked.append(tuple(argv))
        size = self.folders.get(argv[-1])
        return Completed(tuple(argv), 0, f"{size}\t/home/u/{argv[-1]}\n".encode() if size else b"", b"")

    async def close(self) -> None:
        return


class Connector:
    def __init__(self, **sessions: Session) -> None:
        self.sessions = sessions

    async def connect(self, host: str) -> Any:
        if host not in self.sessions:
            raise HostUnreachable(host, f"{host} does not answer", code="timeout")
        return self.sessions[host]

    async def close(self) -> None:
        return


async def test_folders_are_reported_with_their_bytes_and_dead_hosts_by_name() -> None:
    """Nothing is removed by asking; a host that can't be asked is no host without anything."""
    place = ".local/state/distui/hosts/h1/r1"
    h1 = Session({place: 12})
    found = await remains(Connector(h1=h1), [Host("h1"), Host("h2")], "r1", None, {})
    assert found.items == (Remain("h1", f"~/{place}", 12 * 1024),)
    assert found.unreachable == {"h2": Trouble("timeout", "h2 does not answer")}
    assert not any("rm" in word for argv in h1.asked for word in argv)


def test_labels_as_text() -> None:
    """Ranks, GPUs, states of every task; a hostile label can't steer the terminal."""
    tasks = tuple(
        FoundTask(f"h{i}", f"{i}" * 64, TaskLabels("r1", i, (i,), f"h{i}", "j\x1b[2J", "ann@desk", world_size=2), {},
                  i == 0, "running" if i == 0 else "exited", exit=3 if i else None)
        for i in (0, 1)
    )  # fmt: skip
    text = found_text(FoundRun("r1", tasks))
    assert "\x1b" not in text
    assert "2 ranks on 2 hosts, launcher env" in text
    assert "1     h1    worker  1      -     exited 3  111111111111" in text
    assert "`distui show --plan r1`" in text
