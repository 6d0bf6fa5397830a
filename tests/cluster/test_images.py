"""Images on real hosts: built from a Dockerfile, compared by content, and copied between engines without a registry."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lab.runs import until

pytestmark = pytest.mark.cluster

Distui = Callable[..., subprocess.CompletedProcess[str]]

JOB = """
version: 1
name: img
hosts: h[1-3]
image: distui-test/built:1
build: {context: ./docker, args: {GREETING: hi there}%s}
command: [sh, -c, "cat /words /greeting; test ! -e /junk.log"]
"""
DOCKERFILE = """
FROM lab/python:1
ARG GREETING
COPY . /
RUN echo "$GREETING" > /greeting
"""
MADE = ("distui-test/built:1", "distui-test/pushed:1", "distui-test/victim:prod")


@pytest.fixture(autouse=True)
def images_are_removed(lab: Any) -> Iterator[None]:
    """What a test built or copied is gone before the next one; so is what builds left in Docker's cache."""
    yield

    def clean(host: Any) -> None:
        host.exec("docker", "rmi", "--force", *MADE, check=False)
        host.exec("docker", "image", "prune", "--force", check=False)

    with ThreadPoolExecutor() as pool:
        list(pool.map(clean, lab.hosts))


@pytest.fixture
def job(home: Path) -> Callable[..., str]:
    """A job with a Dockerfile beside it."""

    def make(more: str = "", dockerfile: str = DOCKERFILE) -> str:
        context = home / "docker"
        context.mkdir(exist_ok=True)
        (context / "Dockerfile").write_text(dockerfile)
        (context / "words").write_text("some words\n")
        (context / "junk.log").write_text("junk\n")
        (context / ".dockerignore").write_text("*.log\n")
        (home / "img.yaml").write_text(JOB % more)
        return "img.yaml"

    return make


def run(distui: Distui, job: str, *more: str) -> subprocess.CompletedProcess[str]:
    return distui("run", job, "--headless", "-y", "--no-prefix", *more)


def ids(distui: Distui, image: str = MADE[0]) -> dict[str, str]:
    """The image's id on each host, empty where it is not."""
    reply = json.loads(distui("image", "ls", image, "-o", "json").stdout)
    return {host["host"]: host.get("id", "") for host in reply["hosts"]}


def nothing_half_made(lab: Any) -> None:
    """No container of a build, no half archive, no process: an engine whose client went needs a moment for that."""
    for host in lab.hosts:
        until(lambda host=host: half_made(host) == [])


HALF_MADE = "docker ps --all --quiet; ls /var/lib/docker/tmp; pgrep -af '^docker (build|save|load)' || true"


def half_made(host: Any) -> list[str]:
    """What there is of builds and copies that go on, or were cut."""
    return str(host.out(HALF_MADE)).split()


def test_built_where_it_is_missing(lab: Any, distui: Distui, job: Callable[..., str], home: Path) -> None:
    """The first run builds on every host, the second none; a change is built again; the plan says which."""
    path = job()
    assert "image missing on h[1-3]: built there first" in distui("plan", path).stderr
    done = run(distui, path, "--name", "img-1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines().count("hi there") == done.stdout.splitlines().count("some words") == 3
    assert "h2 builds, step " in done.stderr
    logs = home / ".local/state/distui/runs/img-1/build"
    assert sorted(p.name for p in logs.iterdir()) == ["h1.log", "h2.log", "h3.log"]
    assert "Successfully built" in (logs / "h1.log").read_text()
    assert len(set(ids(distui).values())) == 3

    assert "image missing" not in distui("plan", path).stderr
    again = run(distui, path)
    assert again.returncode == 0
    assert "is built on all hosts already" in again.stderr
    assert "not the same" not in again.stderr

    lab.hosts[1].exec("docker", "rmi", "--force", MADE[0])
    third = run(distui, path)
    assert third.returncode == 0
    assert "h2 builds" in third.stderr
    assert "h1 builds" not in third.stderr

    (home / "docker/words").write_text("other words\n")
    changed = run(distui, path)
    assert changed.stdout.splitlines().count("other words") == 3
    nothing_half_made(lab)


def test_built_once_and_given_to_the_others(lab: Any, distui: Distui, job: Callable[..., str]) -> None:
    """where: first: one host builds, and all have the very same image."""
    done = run(distui, job(", where: first"))
    assert done.returncode == 0, done.stderr
    assert "h1 builds" in done.stderr
    assert "h2 builds" not in done.stderr
    found = ids(distui)
    assert len(set(found.values())) == 1 and all(found.values())
    nothing_half_made(lab)


def test_a_build_that_fails(lab: Any, distui: Distui, job: Callable[..., str], home: Path) -> None:
    """Nothing starts: exit 3, each host, the step and the last lines; all it said is kept; nothing is left."""
    done = run(distui, job(dockerfile="FROM lab/python:1\nRUN echo fine\nRUN echo the reason; exit 7\n"))
    assert done.returncode == 3, done.stdout + done.stderr
    for host in ("h1", "h2", "h3"):
        assert f"the build failed on {host} at step 3/4: RUN echo the reason; exit 7" in done.stderr
    assert "| the reason" in done.stderr
    kept = sorted((home / ".local/state/distui/builds").iterdir())
    assert len(kept) == 3 and "the reason" in kept[0].read_text()
    assert list((home / ".local/state/distui/runs").iterdir()) == []
    assert set(ids(distui).values()) == {""}
    nothing_half_made(lab)


def test_a_stopped_build_ends_on_the_hosts(lab: Any, home: Path, distui: Distui, job: Callable[..., str]) -> None:
    """Ctrl-C while it is built: exit 130, and no build goes on anywhere."""
    path = job(dockerfile="FROM lab/python:1\nRUN echo begun; sleep 600\n")
    with lab.spawn_distui("run", path, "--headless", "-y", home=home) as program:
        for host in lab.hosts:
            until(lambda host=host: host.out("docker", "ps", "--quiet"))
        program.signal_group(signal.SIGINT)
        assert program.finish().returncode == 130
    for host in lab.hosts:
        until(lambda host=host: not host.out("docker", "ps", "--all", "--quiet"))
    nothing_half_made(lab)


def push_source(lab: Any, size: int = 3_000_000) -> None:
    """h1 has an image that stands on one that all have."""
    script = f"FROM lab/python:1\nRUN head -c {size} /dev/urandom > /random && echo word > /word\n"
    lab.hosts[0].exec("sh", "-c", 'printf "$1" | docker build --force-rm -t "$2" -', "sh", script, MADE[1])


def test_only_missing_layers_are_copied(lab: Any, distui: Distui, home: Path) -> None:
    """The base layer of 130 MB stays where it is; a run then uses the image; who has it is left alone."""
    push_source(lab)
    (home / "p.yaml").write_text(
        "version: 1\nname: p\nhosts: h[1-3]\nimage: distui-test/pushed:1\npull: never\ncommand: [cat, /word]\n"
    )
    refused = run(distui, "p.yaml")
    assert refused.returncode == 3

    done = distui("image", "push", "p.yaml", "-o", "json")
    assert done.returncode == 0, done.stderr
    reply = json.loads(done.stdout)
    assert reply["from"] == "h1"
    assert {h["host"]: h["state"] for h in reply["hosts"]} == {"h2": "loaded", "h3": "loaded"}
    assert all(3_000_000 < h["sent"] < 4_000_000 and h["layers"] == 1 for h in reply["hosts"]), reply
    assert len(set(ids(distui, MADE[1]).values())) == 1
    assert run(distui, "p.yaml").stdout.splitlines() == ["word"] * 3

    again = json.loads(distui("image", "push", MADE[1], "-o", "json").stdout)
    assert {h["state"] for h in again["hosts"]} == {"present"}
    nothing_half_made(lab)


HOSTILE = """#!/bin/sh
[ "$1" = save ] && set -- save "$2" distui-test/victim:prod
exec /usr/bin/docker "$@"
"""


def test_a_hostile_host_replaces_no_other_image(lab: Any, distui: Distui) -> None:
    """h1's engine puts a second image, called as one that h2 and h3 use, into the archive: neither takes anything."""
    push_source(lab)
    h1, others = lab.hosts[0], lab.hosts[1:]
    h1.exec("docker", "tag", MADE[1], MADE[2])
    for host in others:
        host.exec("docker", "tag", "lab/python:1", MADE[2])
    before = ids(distui, MADE[2])
    h1.exec("sh", "-c", 'printf "%s" "$1" > /usr/local/bin/docker; chmod 755 /usr/local/bin/docker', "sh", HOSTILE)
    try:
        done = distui("image", "push", MADE[1], "--from", "h1", "-y")
    finally:
        h1.exec("rm", "-f", "/usr/local/bin/docker")
    assert done.returncode != 0
    assert f"h1 does not give {MADE[1]} out: what it sends would name an image" in done.stderr
    assert ids(distui, MADE[2]) == before
    assert {host for host, there in ids(distui, MADE[1]).items() if there} == {"h1"}
    nothing_half_made(lab)


def test_all_layers_where_none_is_there(lab: Any, distui: Distui) -> None:
    """The same id arrives; another image of this name is only replaced when that is agreed to."""
    lab.hosts[0].exec("docker", "run", "--name", "made", "lab/python:1", "sh", "-c", "echo word > /word")
    lab.hosts[0].exec("sh", "-c", 'docker export made | docker import - "$1"; docker rm made', "sh", MADE[1])
    lab.hosts[1].exec("docker", "tag", "lab/python:1", MADE[1])

    refused = distui("image", "push", MADE[1], "--from", "h1")
    assert refused.returncode == 2
    assert f"Another image is called {MADE[1]} on h2" in refused.stderr
    done = distui("image", "push", MADE[1], "--from", "h1", "-y", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert all(h["sent"] > 100_000_000 for h in json.loads(done.stdout)["hosts"])
    assert len(set(ids(distui, MADE[1]).values())) == 1
    nothing_half_made(lab)


def test_a_host_that_dies_meanwhile(lab: Any, distui: Distui) -> None:
    """The other one gets the image, exit 1 names the lost one; there nothing half-loaded is left."""
    push_source(lab, 150_000_000)
    lost = lab.hosts[2]
    lost.fault("rate", 40)  # loading takes half a minute there: time to cut it

    def cut() -> None:
        until(lambda: lost.out("pgrep -xf 'docker load' || true"))
        lost.fault("ssh-killall")

    thread = threading.Thread(target=cut)
    thread.start()
    done = distui("image", "push", MADE[1], "-o", "json")
    thread.join()
    assert done.returncode == 1, done.stdout + done.stderr
    states = {h["host"]: h["state"] for h in json.loads(done.stdout)["hosts"]}
    assert states == {"h2": "loaded", "h3": "failed"}
    lab.heal()
    assert ids(distui, MADE[1])["h3"] == ""
    nothing_half_made(lab)
