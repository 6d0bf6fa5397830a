"""What a kernel's log says of a container that was killed for lack of memory, where the engine's flag does not."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.runs.hosts.memory_kill import ASK, memory_kill
from distui.runs.lines.events import RankChanged
from fakehosts.runs import Cluster, until, use_fake_follower

OURS = "c21607c60e53ceabd80e57f7513c50998edffa6b89c720fa2a246d60702b89d1"
OTHER = "47a772da0e77108cca6e7472572ffe27d143938799d1e01a84ca00cb31a70d75"
SYSTEMD = f"/system.slice/docker-{OURS}.scope"


def line(constraint: str, group: str, task: str) -> str:
    """As Linux 5.0 and later write it."""
    return (
        f"[17426.479676] oom-kill:constraint={constraint},nodemask=(null),cpuset={OURS},mems_allowed=0,{group}"
        f"task_memcg={task},task=python3,pid=13025,uid=0"
    )


LIMIT = line("CONSTRAINT_MEMCG", f"oom_memcg=/docker/{OURS},", f"/docker/{OURS}")
HOST = line("CONSTRAINT_NONE", "global_oom,", SYSTEMD)
OLD = f"[12.5] Task in /docker/{OURS} killed as a result of limit of /docker/{OURS}"


@pytest.mark.parametrize(
    ("text", "kill"),
    [
        (LIMIT, "limit"),
        (HOST, "host"),
        (OLD, "limit"),
        (line("CONSTRAINT_MEMCG", f"oom_memcg={SYSTEMD},", SYSTEMD), "limit"),
        (LIMIT.replace(OURS, OTHER), ""),
        (f"[1.0] Memory cgroup stats for /docker/{OURS}:", ""),
        ("", ""),
    ],
)
def test_whose_memory_it_was(text: str, kill: str) -> None:
    """The container's limit, or the host's; a line of another container says nothing."""
    assert memory_kill(text, OURS) == kill


@given(st.text(), st.text(max_size=4))
def test_any_text_is_an_answer(text: str, container: str) -> None:
    """Without an id there is no container that it could be about."""
    assert memory_kill(text, container) in ("", "limit", "host") and memory_kill(text, "") == ""


def test_the_newest_line_of_the_container_is_printed(tmp_path: Path) -> None:
    """By programs that stand in for the host's; nothing where the login may read neither log."""
    logs = {name: tmp_path / f"{name}.log" for name in ("dmesg", "journalctl")}
    logs["dmesg"].write_text("\n".join([HOST, LIMIT.replace(OURS, OTHER), LIMIT, f"[2.0] {OURS}: a port"]) + "\n")
    logs["journalctl"].write_text(f"{HOST}\n")
    for name, log in logs.items():
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\nexec cat "{log}"\n')
        program.chmod(0o755)

    def asked() -> str:
        path = f"{tmp_path}:{os.environ['PATH']}"
        argv = ("sh", "-c", ASK, "distui-memory", OURS)
        return subprocess.run(argv, env={"PATH": path}, capture_output=True, text=True, check=True).stdout

    assert asked() == f"{LIMIT}\n"
    logs["dmesg"].unlink()
    assert asked() == f"{HOST}\n"
    logs["journalctl"].unlink()
    assert asked() == ""


@pytest.mark.parametrize(
    ("text", "cause", "hint"),
    [(LIMIT, "it used more memory than it may", "--memory"), (HOST, "its host ran out of memory", "fewer ranks")],
)
async def test_a_kill_that_the_engine_does_not_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, cause: str, hint: str
) -> None:
    """Named as what it was, with whose memory was at its end."""
    cluster = Cluster(tmp_path)
    use_fake_follower(monkeypatch, cluster.connector)

    async def kill() -> None:
        await until(lambda: all(host.containers for host in cluster.hosts))
        container = cluster.hosts[1].containers[0]
        cluster.hosts[1].kernel_log.append(text.replace(OURS, container.id))
        container.end(137)

    ended = await cluster.run(cluster.plan(), kill())
    assert ended.failure is not None and ended.failure.rank == 1
    assert ended.failure.words == "out of memory: the kernel killed it (exit 137)"
    assert ended.failure.cause == cause and hint in ended.failure.hint
    assert {event.state for event in cluster.of(RankChanged) if event.rank == 1} >= {"oom"}
