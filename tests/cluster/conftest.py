"""A real cluster for every test in this folder: three hosts with sshd, Docker, two networks and stand-in GPUs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.host import Host
from lab.lab import Lab, why_not
from lab.program import Program
from lab.runs import until
from lab.state import read_state

HOSTS = 3
INVENTORY = "version: 1\nhosts:\n  h[1-3]: {}\n"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests first: else the last one would go on alone, when all others have ended."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """Three hosts, up once per session and gone after it, also when pytest is killed.

    Each session has a lab of its own, so that sessions may run side by side; DISTUI_LAB_NAME names one that
    is up already and stays up. Skipped without root or Linux; on a CI machine that is a failure.
    """
    need_machine()
    chosen = os.environ.get("DISTUI_LAB_NAME")
    if chosen and read_state(chosen):
        shared = Lab(chosen).attach()
        shared.heal()
        yield shared
        return
    with Lab(chosen or f"t{os.getpid()}") as own:
        own.up(HOSTS)
        yield own


def need_machine() -> None:
    """Skip, or fail where CI is set, on a machine that cannot have a lab."""
    if reason := why_not():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)


@pytest.fixture
def home(lab: Lab, tmp_path: Path) -> Path:
    """A fresh home folder of someone who can ssh to h1, h2 and h3, with a hosts.yaml that names them."""
    folder = lab.ssh_home(tmp_path / "home")
    (folder / "hosts.yaml").write_text(INVENTORY)
    return folder


@pytest.fixture(scope="session")
def trainers(lab: Lab) -> Path:
    """The trainers in the hosts' shared folder."""
    target = lab.share / "trainers"
    source = Path(__file__).parents[2] / "trainers"
    shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    return target


@pytest.fixture
def distui(lab: Lab, home: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """distui run from the home folder, where hosts.yaml is."""

    def call(*args: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return lab.distui(*args, home=home, **options)

    return call


@pytest.fixture
def start(lab: Lab, home: Path) -> Iterator[Callable[..., Program]]:
    """Starts a two-rank run of a shell script and returns its program once both ranks run and are followed; `job` are
    further keys.
    """
    programs: list[Program] = []

    def begin(script: str, *flags: str, wait: bool = True, job: Mapping[str, Any] | None = None, **env: str) -> Program:
        keys = {"version": 1, "name": "smoke", "hosts": "h[1-2]", "image": "lab/python:1", "stop_grace": "3s"}
        keys |= {"command": ["sh", "-c", script]} | dict(job or {})
        (home / "job.yaml").write_text(json.dumps(keys))
        older = {path.stat().st_ino for path in journals(home)}
        program = lab.spawn_distui("run", "job.yaml", "--headless", "-y", *flags, home=home, env=env)
        programs.append(program)
        if wait:
            until(lambda: program.poll() is not None or all(map(runs_rank, lab.hosts[:2])))
            until(lambda: program.poll() is not None or follows(home, older))
            assert program.poll() is None, program.stderr.read() if program.stderr else ""
        return program

    yield begin
    for program in programs:
        program.__exit__(None, None, None)


def journals(home: Path) -> Iterator[Path]:
    """The events of runs that were started or attached to from there."""
    return (home / ".local/state/distui/runs").glob("*/events.ndjson")


def follows(home: Path, older: Collection[int]) -> bool:
    """Whether a run from there, but for older ones by the inodes of their events, is past its start."""
    return any(
        path.stat().st_ino not in older and '"phase":"follow"' in path.read_text().replace(" ", "")
        for path in journals(home)
    )


def runs_rank(host: Host) -> bool:
    """Whether a container of distui runs there."""
    return host.running() > 0


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test the hosts are healthy again and hold nothing of distui; what was left fails the test."""
    if "lab" not in request.fixturenames:
        yield
        return
    lab: Lab = request.getfixturevalue("lab")
    yield
    lab.heal()
    with ThreadPoolExecutor() as pool:
        found = dict(zip([host.name for host in lab.hosts], pool.map(Host.remove_leftovers, lab.hosts), strict=True))
        if any(found.values()):  # ranks that lost their peers by this wrote where they were
            list(pool.map(Host.remove_leftovers, lab.hosts))
    left = [f"{name}: {line}" for name, lines in found.items() for line in lines]
    if left:
        pytest.fail("distui left behind: " + "; ".join(left))
