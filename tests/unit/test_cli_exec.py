"""`exec` and `ssh`: which container is meant, and what the terminal is handed to."""

from __future__ import annotations

import os

import pytest

from distui.cli.verbs import exec as exec_verb
from distui.cli.verbs.ssh import become, host_named, login
from distui.errors import DistuiError, NotFound, UsageError
from distui.plan.labels import TaskLabels
from distui.run.discover import FoundRun, FoundTask
from distui.spec.inventory import Host, Inventory


def task(index: int, ranks: tuple[int, ...], *, running: bool = True, engine: str = "docker") -> FoundTask:
    """One task as its host tells it."""
    labels = TaskLabels("r1", index, ranks, f"h{index + 1}", "j", engine=engine)
    return FoundTask(f"h{index + 1}", f"id{index}", labels, {}, running, "running" if running else "exited")


def test_a_rank_s_container() -> None:
    """With torchrun several ranks share one; a run of one container needs no rank."""
    found = FoundRun("r1", (task(0, (0, 1)), task(1, (2, 3))))
    assert [exec_verb._task(found, rank).id for rank in (0, 1, 2, 3)] == ["id0", "id0", "id1", "id1"]
    assert exec_verb._task(FoundRun("r1", (task(0, (0, 1)),)), None).id == "id0"


@pytest.mark.parametrize(
    ("tasks", "rank", "kind", "words"),
    [
        ((task(0, (0,)), task(1, (1,))), 2, NotFound, "has no rank 2 on hosts that answer (ranks there: 0-1)"),
        ((task(0, (0,)), task(1, (1,))), None, UsageError, "has 2 containers"),
        ((task(0, (0,), running=False),), 0, UsageError, "does not run any more (exited)"),
        ((task(0, (0,), engine="process"),), 0, UsageError, "rank 0 runs without a container"),
    ],
)
def test_no_container_to_run_in(
    tasks: tuple[FoundTask, ...], rank: int | None, kind: type[DistuiError], words: str
) -> None:
    """What is wrong and what to do."""
    with pytest.raises(kind) as caught:
        exec_verb._task(FoundRun("r1", tasks), rank)
    assert words in caught.value.message


def test_ssh_gets_what_hosts_yaml_adds() -> None:
    """A command gets a terminal only where there is one."""
    host = Host("gw1", addr="10.0.0.1", user="ann", port=2222)
    options = ("-p", "2222", "-l", "ann", "-o", "HostName=10.0.0.1", "--", "gw1")
    assert login(host, tty=True) == ("ssh", *options)
    assert login(host, ("ls", "a b"), tty=True) == ("ssh", "-t", *options, "ls 'a b'")
    assert login(host, ("ls", "a b"), tty=False) == ("ssh", *options, "ls 'a b'")


def test_an_unknown_host_has_a_neighbour() -> None:
    """The nearest name is said."""
    with pytest.raises(NotFound, match="did you mean 'node01'"):
        host_named(Inventory((Host("node01"),)), "node1")


def test_without_ssh_there_is_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a traceback."""

    def missing(*_: object) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(os, "execvp", missing)
    with pytest.raises(UsageError, match="ssh can't be started: No such file"):
        become(("ssh", "h1"))
