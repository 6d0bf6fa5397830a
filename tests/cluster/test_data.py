"""`data:` on real hosts: paths proved to be there and shared, NFS by Docker's volumes, nothing left of the proof."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.cluster

Distui = Callable[..., subprocess.CompletedProcess[str]]

JOB = """
version: 1
name: data
hosts: h[1-3]
image: lab/python:1
data:
  d: %s
command: [sh, -c, "cat /d/* | head -c 100; touch /d/mine"]
stop_grace: 2s
"""


def run(home: Path, distui: Distui, mount: str) -> subprocess.CompletedProcess[str]:
    """Run the job with this mount."""
    path = home / "job.yaml"
    path.write_text(JOB % mount)
    return distui("run", str(path), "--headless", "-y", "-o", "ndjson")


def told(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Its events."""
    return [json.loads(line) for line in done.stdout.splitlines()]


def words(done: subprocess.CompletedProcess[str]) -> str:
    """All it said."""
    return done.stdout + done.stderr


def test_a_shared_path(lab: Any, home: Path, distui: Distui) -> None:
    """The lab's shared folder is proved to be one, mounted read-only, and holds nothing of the proof afterwards."""
    folder = lab.share / 'set, "1"'
    folder.mkdir()
    (folder / "x").write_text("from the share")
    done = run(home, distui, '{path: "/mnt/pytorch/set, \\"1\\"", to: "/d", shared: true}')

    assert "a file written on h1 is seen on all others" in words(done), words(done)
    logs = [path.read_text() for path in Path(told(done)[-1]["log_dir"]).glob("rank-*.log")]
    assert len(logs) == 3
    assert all("from the share" in log and "Read-only file system" in log for log in logs), logs
    assert [p.name for p in folder.iterdir()] == ["x"]
    (folder / "x").unlink()
    folder.rmdir()


def test_a_host_where_it_is_not_shared(lab: Any, home: Path, distui: Distui) -> None:
    """Another storage under the same path on h3: h3 is named with what it has, and nothing is started."""
    for host in lab.hosts[:2]:
        host.out("sh", "-c", "mkdir -p /srv/set && mount --bind /mnt/pytorch /srv/set")
    lab.hosts[2].out("sh", "-c", "mkdir -p /srv/set")
    try:
        done = run(home, distui, "{path: /srv/set, to: /d, shared: true}")
    finally:
        for host in lab.hosts[:2]:
            host.out("sh", "-c", "umount /srv/set")
    assert done.returncode == 3, words(done)
    assert "h3: data.d: /srv/set is not the same storage as on h1" in words(done)
    assert not list(lab.share.glob(".distui-*"))


def test_a_path_that_is_missing(lab: Any, home: Path, distui: Distui) -> None:
    """Every host where it is not there is named before anything starts."""
    lab.hosts[0].out("sh", "-c", "mkdir -p /srv/only")
    done = run(home, distui, "{path: /srv/only, to: /d}")
    assert done.returncode == 3, words(done)
    for name in ("h2", "h3"):
        assert f"{name}: data.d: /srv/only is not there" in words(done)
    assert "h1: data" not in words(done)


def test_nfs_that_can_not_be_mounted(lab: Any, home: Path, distui: Distui) -> None:
    """Docker's own words, and neither container nor volume is left. (The lab's kernel has no NFS.)"""
    done = run(home, distui, '{nfs: "10.77.0.12:/export", to: /d, options: nfsvers=4}')
    assert done.returncode == 5, words(done)
    assert "failed to mount local volume" in words(done)
    for host in lab.hosts:
        assert host.out("sh", "-c", "docker volume ls -q").strip() == ""
