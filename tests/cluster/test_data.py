"""`data:` on real hosts: paths proved to be there and shared, NFS by Docker's volumes, nothing left of the proof."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


def fetch_events(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
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
    logs = [path.read_text() for path in Path(fetch_events(done)[-1]["log_dir"]).glob("rank-*.log")]
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
    assert "h[2-3]: data.d: /srv/only is not there" in words(done)
    assert "h1: data" not in words(done)


def test_nfs_whose_server_is_not_there(lab: Any, home: Path, distui: Distui) -> None:
    """Every host that can't connect to it is named before anything starts."""
    done = run(home, distui, '{nfs: "10.77.0.12:/export", to: /d}')
    assert done.returncode == 3, words(done)
    refused = "data.d: can't reach NFS server 10.77.0.12 at port 2049: [Errno 111] Connection refused"
    assert f"h[1-3]: {refused}" in words(done)


def test_nfs_that_can_not_be_mounted(lab: Any, home: Path, distui: Distui) -> None:
    """Docker's own words, and neither container nor volume is left. (The lab's kernel has no NFS.)"""
    with web(lab, home, 8800):
        done = run(home, distui, '{nfs: "10.77.0.1:/export", to: /d, options: "nfsvers=4,port=8800"}')
    assert done.returncode == 5, words(done)
    assert "failed to mount local volume" in words(done)
    for host in lab.hosts:
        assert host.out("sh", "-c", "docker volume ls -q").strip() == ""


SIZE = 3_000_064
SUM = hashlib.sha256(bytes(range(256)) * (SIZE // 256)).hexdigest()
WEB = Path(__file__).parents[1] / "fakehosts/web.py"


@contextmanager
def web(lab: Any, home: Path, port: int, *more: str, cuts: int = 0) -> Iterator[str]:
    """A web server on the login node; gives the URL of its file."""
    with lab.spawn(
        sys.executable, str(WEB), str(port), "set.bin", str(SIZE), "1000000", str(cuts), *more, home=home
    ) as server:
        assert server.stdout.readline() == "ready\n", server.stderr.read()
        yield f"http://10.77.0.1:{port}/set.bin"


@pytest.fixture
def caches(lab: Any) -> Iterator[Callable[[], list[str]]]:
    """Lists what is in the hosts' caches, which are emptied before and after."""

    def listed() -> list[str]:
        return [f"{h.name} {line}" for h in lab.hosts for line in h.out("sh", "-c", LIST).splitlines()]

    for host in lab.hosts:
        host.out("rm", "-rf", "/root/.cache/distui")
    yield listed
    for host in lab.hosts:
        host.out("rm", "-rf", "/root/.cache/distui")


LIST = "cd /root/.cache/distui/data 2>/dev/null && find . -type f -size +0 | sed 's/[0-9a-f]\\{16\\}/K/'; :"


def test_fetched_to_every_host(lab: Any, home: Path, distui: Distui, caches: Callable[[], list[str]]) -> None:
    """Connections that break are gone on with; ranks see the file; the next run finds it there without the server."""
    with web(lab, home, 8801, cuts=3) as url:
        mount = f"{{url: '{url}', to: /d/set.bin, sha256: {SUM}}}"
        done = run(home, distui, mount)
        assert done.returncode == 0, words(done)
    assert sorted(caches()) == [f"h{i} ./K/{name}" for i in (1, 2, 3) for name in ("about", "data")]
    again = run(home, distui, mount)
    assert "was on all hosts already" in words(again), words(again)
    assert again.returncode == 0


def test_a_wrong_checksum_starts_nothing(lab: Any, home: Path, distui: Distui, caches: Callable[[], list[str]]) -> None:
    """Every host is named with both sums; nothing is in place, and no container was started."""
    with web(lab, home, 8802) as url:
        done = run(home, distui, f"{{url: '{url}', to: /d/x, sha256: {'0' * 64}}}")
    assert done.returncode == 5, words(done)
    assert f"h[1-3]: data.d: the checksum is wrong: {url} has sha256 {SUM}, expected 0000" in words(done)
    assert caches() == []
    assert not [e for e in fetch_events(done) if e["type"] == "task"]


@pytest.mark.parametrize(("more", "said"), [((), "MB are free"), (("nohead",), "no space is left")])
def test_a_full_disk(
    lab: Any, home: Path, distui: Distui, caches: Callable[[], list[str]], more: tuple[str, ...], said: str
) -> None:
    """Told before the fetch where the server tells the size, else when it happens; the disk is not left full."""
    small = "mkdir -p /root/.cache/distui && mount -t tmpfs -o size=2m none /root/.cache/distui"
    lab.hosts[1].out("sh", "-c", small)
    try:
        with web(lab, home, 8803 + len(more), *more) as url:
            done = run(home, distui, f"{{url: '{url}', to: /d/x, sha256: {SUM}}}")
        left = [line for line in caches() if line.startswith("h2")]
    finally:
        lab.hosts[1].out("umount", "/root/.cache/distui")
    assert done.returncode == 5, words(done)
    assert f"h2: data.d: {'no space' if more else url + ' has'}" in words(done)
    assert said in words(done)
    assert left == []
