"""The container engine and the host go wrong on real hosts: each fault is really made, and what distui says is read."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from distui.runs.hosts.discover import LIST_SECONDS
from lab.program import LIMIT
from lab.runs import LET_END, let_end, log_of, touch, until

pytestmark = pytest.mark.cluster

TICKS = "i=0; while [ $i -lt %d ]; do echo tick $i of $RANK; i=$((i+1)); sleep 0.02; done"
GPUS = {"gpus_per_host": 1}


@pytest.fixture
def start(lab: Any, home: Path) -> Iterator[Callable[..., Any]]:
    """Starts a run of a shell script on h1 and h2; keywords are keys of the job."""
    programs: list[Any] = []

    def begin(script: str, *flags: str, where: Path = home, **job: Any) -> Any:
        given = {"version": 1, "name": "smoke", "hosts": "h[1-2]", "image": "lab/python:1", "stop_grace": "2s"}
        (where / "job.yaml").write_text(json.dumps(given | {"command": ["sh", "-c", script]} | job))
        program = lab.spawn_distui("run", "job.yaml", "--headless", "-y", *flags, home=where)
        programs.append(program)
        return program

    yield begin
    for program in programs:
        program.__exit__(None, None, None)


def running(lab: Any, *hosts: str) -> Callable[[], bool]:
    """Whether each of these hosts runs a container of distui."""
    return lambda: all(lab.host(name).running() for name in hosts)


def follows(home: Path, run: str) -> bool:
    """Whether a run that was started from there is past its start."""
    text = (home / f".local/state/distui/runs/{run}/events.ndjson").read_text()
    return '"phase":"follow"' in text.replace(" ", "")


def read_until(program: Any, kind: str, **wanted: object) -> dict[str, Any]:
    """The next event of an NDJSON run that has these values; text is looked for as a part."""
    for line in program.stdout:
        event = dict(json.loads(line))
        if event["type"] == kind and all(
            value in event.get(key, "") if key == "text" else event.get(key) == value for key, value in wanted.items()
        ):
            return event
    raise AssertionError(f"no {kind} with {wanted}: {program.stderr.read()[-2000:]}")


def rest_of(program: Any) -> dict[str, Any]:
    """The result: the last event."""
    result = [json.loads(line) for line in program.stdout][-1]
    program.wait(LIMIT)
    return dict(result)


def assert_clean(lab: Any) -> None:
    assert [left for host in lab.hosts for left in host.leftovers()] == []


# the daemon


def test_a_daemon_with_live_restore_is_killed(lab: Any, home: Path, start: Callable[..., Any]) -> None:
    """Its ranks are out of reach, not ended, and then run on; the run succeeds with every line of its log.

    They say nothing as it is killed: a line that it has read and not written is lost with it. Nobody reads until it is
    back, and what they say meanwhile is there then.
    """
    h2 = lab.host("h2")
    live = 'sed -i \'s/"live-restore": %s/"live-restore": %s/\' /etc/docker/daemon.json && pkill -HUP -x dockerd'
    h2.exec(live % ("false", "true"))
    until(lambda: "true" in h2.out("docker", "info", "--format", "{{.LiveRestoreEnabled}}"))
    try:
        pause = "[ $i != 100 ] || until [ -e /shared/go ]; do sleep 0.1; done"
        script = f"{TICKS.replace('; done', f'; {pause}; done') % 250}; until [ -e {LET_END} ]; do sleep 0.1; done"
        flags = ("--name", "live", "-o", "ndjson", "--log-to", "none")
        program = start(script, *flags, volumes=["/mnt/pytorch:/shared"])
        until(lambda: all(f"tick 99 of {rank}\n".encode() in log_of(home, "live", rank) for rank in range(2)))
        h2.fault("docker-kill")
        read_until(program, "rank", rank=1, state="lost")
        (lab.share / "go").touch()
        h2.fault("docker-up")
        let_end(lab)
        result = rest_of(program)
    finally:
        (lab.share / "go").unlink(missing_ok=True)
        h2.exec(live % ("true", "false"))
    until(lambda: "false" in h2.out("docker", "info", "--format", "{{.LiveRestoreEnabled}}"))

    assert (result["state"], result["leftovers"]) == ("succeeded", [])
    for rank in range(2):
        text = (Path(result["log_dir"]) / f"rank-0000{rank}.log").read_text()
        assert text == "".join(f"tick {i} of {rank}\n" for i in range(250))
    assert_clean(lab)


def test_a_daemon_that_hangs(lab: Any, home: Path, start: Callable[..., Any], tmp_path: Path) -> None:
    """A run says that the engine does not answer; a second one is refused in bounded time; after it, all is well.

    Nor does `exec` of another machine wait for it, in a rank that is elsewhere.
    """
    there = Path(lab.ssh_home(tmp_path / "there"))
    (there / "hosts.yaml").write_text((home / "hosts.yaml").read_text())
    program = start("sleep 3000", "-o", "ndjson", "--log-to", "none")
    read_until(program, "phase", phase="follow")
    lab.host("h2").fault("docker-hang")
    lost = read_until(program, "host", host="h2", state="lost")
    begun = time.monotonic()
    said = lab.distui("exec", lost["run"], "--rank", "0", "--", "hostname", home=there)
    took = time.monotonic() - begun
    second = lab.distui("run", "job.yaml", "--headless", "-y", "--name", "second", home=home)
    lab.host("h2").fault("docker-cont")
    read_until(program, "rank", rank=1, state="running")
    program.signal_group(signal.SIGINT)
    result = rest_of(program)

    assert (said.returncode, said.stdout) == (0, "h1\n"), said.stderr
    assert took < LIST_SECONDS
    assert "engine does not answer" in lost["reason"]
    assert second.returncode == 3, second.stderr
    assert "h2: the container engine does not answer" in second.stderr
    assert (result["state"], result["leftovers"]) == ("stopped", [])
    assert_clean(lab)


@pytest.mark.long
def test_a_stop_while_a_daemon_hangs_or_is_dead(lab: Any, home: Path, start: Callable[..., Any]) -> None:
    """Ends by itself, with 6 and what it could not do where; the ranks elsewhere are ended. Later it does the rest."""
    for name, host in (("hung", "h2"), ("dead", "h3")):
        assert start("sleep 3000", "-d", "--name", name, hosts=["h1", host]).finish().returncode == 0
    lab.host("h2").fault("docker-hang")
    lab.host("h3").fault("docker-kill")
    stops = {name: lab.spawn_distui("stop", name, "-y", "--grace", "1s", home=home) for name in ("hung", "dead")}
    first = {name: stop.finish() for name, stop in stops.items()}
    left = lab.host("h1").containers()
    lab.host("h2").fault("docker-cont")
    lab.host("h3").fault("docker-up")
    late = [lab.distui("stop", name, "-y", "--grace", "1s", home=home) for name in stops]

    for name, host, why in (("hung", "h2", "docker did not finish"), ("dead", "h3", "daemon does not run")):
        assert first[name].returncode == 6, first[name].stderr
        assert re.search(rf"left   {host}: may still have rank1 \(.*{why}", first[name].stderr), first[name].stderr
        assert f"distui stop {name}" in first[name].stderr
    assert left == []
    assert [done.returncode for done in late] == [0, 0], [done.stderr for done in late]
    assert_clean(lab)


# images, runtimes, ports, disks: found before anything is started


ARM = """
import hashlib, io, json, sys, tarfile
def archive(**files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()
layer = archive(x=b"x")
roots = {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}
config = {"architecture": "s390x", "os": "linux", "config": {}, "rootfs": roots}
manifest = [{"Config": "config", "RepoTags": ["lab/twice:1"], "Layers": ["layer"]}]
files = {"config": json.dumps(config), "manifest.json": json.dumps(manifest)}
sys.stdout.buffer.write(archive(layer=layer, **{name: text.encode() for name, text in files.items()}))
"""
"""Writes an image for a processor that the host does not have."""

REGISTRY = """
import gzip, hashlib, http.server, io, json, sys, tarfile
digest = lambda data: "sha256:" + hashlib.sha256(data).hexdigest()
out, size = io.BytesIO(), int(sys.argv[1]) << 20
with tarfile.open(fileobj=out, mode="w") as tar:
    entry = tarfile.TarInfo("x")
    entry.size = size
    tar.addfile(entry, io.BytesIO(bytes(size)))
layer = gzip.compress(out.getvalue(), 1)
roots = {"type": "layers", "diff_ids": [digest(out.getvalue())]}
config = json.dumps({"architecture": "amd64", "os": "linux", "config": {}, "rootfs": roots}).encode()
part = lambda kind, data: {"mediaType": KIND + kind, "size": len(data), "digest": digest(data)}
KIND = "application/vnd.docker."
whole = {"schemaVersion": 2, "mediaType": KIND + "distribution.manifest.v2+json"}
whole |= {"config": part("container.image.v1+json", config)}
whole |= {"layers": [part("image.rootfs.diff.tar.gzip", layer)]}
manifest, LAYER = json.dumps(whole).encode(), whole["layers"][0]["digest"]
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        named = self.path.split("/")[-1]
        data = {LAYER: layer, digest(config): config, "1": manifest, digest(manifest): manifest}.get(named, b"")
        self.send_response(401 if "private" in self.path else 200)
        self.send_header("Www-Authenticate", 'Basic realm="lab"')
        self.send_header("Content-Type", whole["mediaType"] if "manifests" in self.path else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Docker-Content-Digest", digest(data))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)
    do_HEAD = do_GET
http.server.ThreadingHTTPServer(("127.0.0.1", 5000), Handler).serve_forever()
"""
"""A registry that wants a login for me/private; any other image is that many MiB of zeros."""


@contextmanager
def registry(host: Any, mib: int = 0) -> Iterator[None]:
    """It runs on the host for a while."""
    serve = f"python3 /run/registry.py {mib} >/dev/null 2>&1 & echo $! >/run/registry"
    host.exec(f"cat >/run/registry.py; {serve}", input=REGISTRY)
    up = "import socket; socket.create_connection(('127.0.0.1', 5000))"
    until(lambda: not host.exec("python3", "-c", up, check=False).returncode)
    try:
        yield
    finally:
        host.exec("kill $(cat /run/registry); rm /run/registry*")


def test_what_a_host_lacks_is_found_before_the_start(lab: Any, start: Callable[..., Any]) -> None:
    """An image, a registry, a login there, an image that is another one for another processor, a GPU runtime, a port:
    by host, and nothing is started.
    """
    missing = start("true", image="nobody/knows:1", pull="never").finish()
    away = start("true", image="10.9.9.9:5000/me:1").finish()
    h2 = lab.host("h2")
    with registry(h2):
        login = start("true", image="127.0.0.1:5000/me/private:1").finish()
    h2.exec("python3 - | docker load", input=ARM)
    lab.host("h1").exec("docker", "tag", "lab/python:1", "lab/twice:1")
    twice = start("true", image="lab/twice:1").finish()
    for host in lab.hosts[:2]:
        host.exec("docker", "rmi", "lab/twice:1")
    listener = "import socket,time; s=socket.create_server(('', 29555)); time.sleep(600)"
    lab.host("h1").exec(f'python3 -c "{listener}" >/dev/null 2>&1 & echo $! >/run/listener')
    until(lambda: ":29555 " in lab.host("h1").out("ss", "-ltn"))
    taken = start("true", master_port=29555).finish()
    lab.host("h1").exec("kill $(cat /run/listener); rm /run/listener")
    lab.host("h2").fault("gpu-nohook")
    hook = start("true", **GPUS).finish()

    assert missing.returncode == 3, missing.stderr
    assert "image nobody/knows:1 is not on h[1-2], and the job says `pull: never`" in missing.stderr
    assert away.returncode == 3, away.stderr
    assert "can't pull 10.9.9.9:5000/me:1 on h[1-2]: the image can't be pulled" in away.stderr
    assert login.returncode == 3, login.stderr
    assert "can't pull 127.0.0.1:5000/me/private:1 on h2: the registry refuses this host" in login.stderr
    assert "docker login" in login.stderr
    assert re.search(r"the image is not the same everywhere: \w{12} on h1, \w{12} on h2", twice.stderr), twice.stderr
    assert "h2: image lab/twice:1 is made for linux/s390x, and the host is" in twice.stderr
    assert taken.returncode == 3, taken.stderr
    assert "h1: port 29555 is taken" in taken.stderr
    assert hook.returncode == 3, hook.stderr
    assert re.search(r"h2: GPUs \d asked, but docker there has no NVIDIA runtime", hook.stderr), hook.stderr
    assert all("running" not in done.stderr for done in (missing, away, login, taken, hook))
    assert_clean(lab)


def test_a_port_that_somebody_takes_after_the_check(lab: Any, start: Callable[..., Any]) -> None:
    """Rank 0's own error is put in words; a published port is the engine's, and what it had made is removed."""
    script = "import socket; a = socket.create_server(('', 29444)); socket.create_server(('', 29444))"
    done = start("", command=["python3", "-c", script], hosts="h1").finish()
    lab.host("h2").exec("docker", "run", "-d", "--name", "web", "-p", "29666:80", "lab/python:1", "sleep", "3000")
    published = start("sleep 3000", network="bridge", docker_args=["-p", "29666:80"]).finish()
    lab.host("h2").exec("docker", "rm", "-f", "web")

    assert done.returncode == 1, done.stderr
    assert "cause  a port that it listens on is already in use" in done.stderr
    assert "master_port" in done.stderr
    assert published.returncode == 5, published.stderr
    assert "rank1 on h2: a port is taken on the host" in published.stderr
    assert "NOT STARTED" in published.stderr
    assert_clean(lab)


def test_gpus_that_somebody_s_process_uses(lab: Any, home: Path, start: Callable[..., Any]) -> None:
    """Passed over where another is free; else told with host, user, pid and memory, and refused if the job says so."""
    h2 = lab.host("h2")
    h2.fault("gpu-used", 0, 40000)
    sleeps = "until grep -q sleep /proc/$!/comm; do sleep 0.1; done; echo $!"  # by then it is the other user's
    pid = h2.out(f"setpriv --reuid=trainer sleep 3000 >/dev/null 2>&1 & {sleeps}")
    h2.exec(f"sed -i 's/\\b4242\\b/{pid}/' /etc/lab/*.csv")
    over = start("echo gpu=$NVIDIA_VISIBLE_DEVICES", "--log-to", "none", "-o", "json", **GPUS).finish()
    warned = start("true", gpus_per_host="all").finish()
    refused = start("true", gpus_per_host="all", preflight=["gpus_idle"]).finish()
    h2.exec("kill", pid)

    assert over.returncode == 0, over.stderr
    log = Path(json.loads(over.stdout)["log_dir"]) / "rank-00001.log"
    assert log.read_text() == "gpu=1\n"
    words = f"h2: GPU 0 is busy: /opt/other/train.py (pid {pid}, trainer) holds 39 GiB"
    assert warned.returncode == 0, warned.stderr
    assert f"warning: {words}" in warned.stderr
    assert refused.returncode == 3, refused.stderr
    assert words in refused.stderr
    assert_clean(lab)


def test_a_daemon_at_another_socket(lab: Any, start: Callable[..., Any]) -> None:
    """DOCKER_HOST of the login says where it listens: started, followed and cleaned up there."""
    h2 = lab.host("h2")
    h2.exec("mv /run/docker.sock /run/elsewhere.sock")
    h2.fault("ssh-setenv", "DOCKER_HOST=unix:///run/elsewhere.sock")
    try:
        done = start(TICKS % 50, "-o", "json").finish()
    finally:
        h2.exec("mv /run/elsewhere.sock /run/docker.sock")

    assert done.returncode == 0, done.stderr
    text = (Path(json.loads(done.stdout)["log_dir"]) / "rank-00001.log").read_text()
    assert text == "".join(f"tick {i} of 1\n" for i in range(50))
    assert_clean(lab)


def test_a_disk_that_the_log_fills(lab: Any, start: Callable[..., Any]) -> None:
    """Told with its growth before it is full, then that it is full; the run ends, and nothing is left. An image that
    does not fit on it is told by host, and starts nothing.
    """
    lab.host("h2").fault("docker-small", 120)
    with registry(lab.host("h2"), 130):
        large = start("true", image="127.0.0.1:5000/me/large:1", hosts="h2").finish()
    script = (
        "[ $RANK = 0 ] || while :; do n=400000; [ ! -e /tmp/go ] || n=2000000; "
        "head -c $n /dev/zero | tr '\\0' x | fold -w 1000; sleep 0.2; done; sleep 3000"
    )
    program = start(script, "-o", "ndjson", "--log-to", "none")
    filling = read_until(program, "notice", text="fills up")
    touch(lab.host("h2"), *lab.host("h2").containers(), "/tmp/go")
    full = read_until(program, "notice", text="is full")
    program.signal_group(signal.SIGINT)
    result = rest_of(program)

    assert large.returncode == 3, large.stderr
    assert "can't pull 127.0.0.1:5000/me/large:1 on h2: the disk is full" in large.stderr
    assert (filling["host"], full["host"]) == ("h2", "h2")
    assert re.search(r"/var/lib/docker fills up: .* MB free, .* MB less each second: full in \d", filling["text"])
    assert (result["state"], result["leftovers"]) == ("stopped", [])
    assert_clean(lab)


# containers of others, and our own


def test_names_and_leftovers(lab: Any, home: Path, start: Callable[..., Any]) -> None:
    """A stranger's container with our name is left alone. Our own, ended or paused or created and never started, are
    listed, hold their name, and go by `distui stop`.
    """
    h1, h2 = lab.hosts[:2]
    h2.exec("docker", "run", "-d", "--name", "distui-mine-1", "lab/python:1", "sleep", "3000")
    mine = start("true", "--name", "mine").finish()
    stranger = h2.out("docker", "inspect", "-f", "{{.State.Running}}", "distui-mine-1")
    h2.exec("docker", "rm", "-f", "distui-mine-1")

    assert mine.returncode == 5, mine.stderr
    assert "h2: can't start" in mine.stderr or "on h2: a container of that name exists already" in mine.stderr
    assert "--name" in mine.stderr
    assert stranger == "true"
    assert_clean(lab)

    kept = start("[ $RANK = 0 ] || sleep 3000", "--name", "old", "-d", on_fail="wait", hosts="h[1-3]").finish()
    assert kept.returncode == 0, kept.stderr
    labels = json.loads(h2.out("docker", "inspect", "-f", "{{json .Config.Labels}}", "distui-old-1"))
    flags = [word for key, value in labels.items() for word in ("--label", f"{key}={value}")]
    h2.exec("docker", "rm", "-f", "distui-old-1")
    h2.exec("docker", "create", *flags, "--name", "distui-old-1", "lab/python:1", "true")
    lab.host("h3").fault("container-pause", "distui-old-2")
    until(lambda: h1.out("docker", "inspect", "-f", "{{.State.Status}}", "distui-old-0") == "exited")
    again = start("true", "--name", "old").finish()
    listed = lab.distui("ps", home=home)
    stopped = lab.distui("stop", "old", "-y", home=home)

    assert again.returncode in (2, 3), again.stderr
    assert "old" in again.stderr
    assert "old" in listed.stdout
    assert stopped.returncode == 0, stopped.stderr
    assert lab.distui("stop", "old", "-y", home=home).returncode == 0, "it may be repeated"
    assert_clean(lab)


@pytest.mark.parametrize(("fault", "code"), [("container-stop", 143), ("container-kill", 137)])
def test_an_admin_ends_a_rank_with_docker(
    lab: Any, home: Path, start: Callable[..., Any], fault: str, code: int
) -> None:
    """Killed from outside: neither out of memory nor the program's own error."""
    program = start("sleep 3000", "--name", "admin")
    until(running(lab, "h1", "h2"))
    until(lambda: follows(home, "admin"))
    lab.host("h2").fault(fault, lab.host("h2").containers()[0])
    done = program.finish()

    assert done.returncode == 1, done.stderr
    assert f"exit {code}: by `docker stop` or `docker kill` there, not by distui" in done.stderr
    assert "rank 1 on h2 failed first" in done.stderr
    assert "rank 0 on h1 stopped by distui" in done.stderr
    assert_clean(lab)


def test_a_rank_that_is_stopped_alone(lab: Any, home: Path, start: Callable[..., Any]) -> None:
    """`stop --rank`: the run fails as if somebody had ended it from outside, and it is told who did."""
    program = start("sleep 3000", "--name", "one")
    until(running(lab, "h1", "h2"))
    until(lambda: follows(home, "one"))
    stopped = lab.distui("stop", "one", "--rank", "1", "-y", home=home)
    done = program.finish()

    assert stopped.returncode == 0, stopped.stderr
    assert done.returncode == 1, done.stderr
    first = next(line for line in done.stderr.splitlines() if "rank 1 on h2 failed first" in line)
    assert ": stopped by " in first and "with `distui stop --rank`" in first, done.stderr
    assert "not by distui" not in done.stderr
    assert_clean(lab)


def test_docker_by_sudo_alone(lab: Any, home: Path, start: Callable[..., Any]) -> None:
    """`docker: sudo -n docker` for a login outside group docker: a run as any other; where sudo wants a password that
    is told, and nobody is asked.
    """
    config = home / ".ssh/config"
    config.write_text(config.read_text().replace("User root", "User nodocker"))
    (home / "hosts.yaml").write_text("version: 1\ndefaults: {docker: sudo -n docker}\nhosts:\n  h[1-3]: {}\n")
    for name in ("h1", "h2"):
        lab.host(name).fault("sudo")
    done = start(TICKS % 50, "-o", "json").finish()
    lab.host("h2").fault("sudo-asks")
    refused = start("true").finish()

    assert done.returncode == 0, done.stderr
    for rank in range(2):
        text = (Path(json.loads(done.stdout)["log_dir"]) / f"rank-0000{rank}.log").read_text()
        assert text == "".join(f"tick {i} of {rank}\n" for i in range(50))
    assert refused.returncode == 3, refused.stderr
    assert "h2: sudo asks for a password" in refused.stderr
    assert "NOPASSWD" in refused.stderr
    assert_clean(lab)


# two people at once


@pytest.fixture
def other(lab: Any, tmp_path: Path) -> Path:
    """Somebody else: another login on the hosts, with a home of their own there and here."""
    folder = Path(lab.ssh_home(tmp_path / "other"))
    (folder / "hosts.yaml").write_text("version: 1\nhosts:\n  h[1-3]: {}\n")
    config = folder / ".ssh/config"
    config.write_text(config.read_text().replace("User root", "User trainer"))
    return folder


def by(engine: str, *homes: Path) -> None:
    """Runs from there are by this engine."""
    for where in homes:
        (where / "hosts.yaml").write_text(f"version: 1\ndefaults: {{docker: {engine}}}\nhosts:\n  h[1-3]: {{}}\n")


def marks(lab: Any, host: str) -> list[dict[str, str]]:
    """What the tasks on a host tell everybody there."""
    whole = r"cd /tmp; ls | grep -xE 'distui-task-[^.]+\.[0-9]+' | xargs -r sed -s -n 2p"  # none that is being written
    output = lab.host(host).out("sh", "-c", whole)
    return [json.loads(line) for line in output.splitlines()]


@pytest.mark.parametrize(
    ("job", "what", "hint"),
    [(GPUS, r"GPU \d", "--force"), ({"master_port": 23456}, "port 23456", "let the plan choose")],
    ids=["gpus", "port"],
)
def test_two_people_want_the_same_at_once(
    lab: Any, start: Callable[..., Any], other: Path, home: Path, job: dict[str, Any], what: str, hint: str
) -> None:
    """Exactly one has it, whoever it is; the other is told whose it is, and nothing of theirs is on a host.

    Whoever probes while the other proves that its hosts reach each other on that port finds somebody listening there.
    """
    for turn in range(2):
        both = [start("sleep 3000", "--name", f"same{turn}{w.name}", where=w, **job) for w in (home, other)]
        until(lambda both=both: [p for p in both if p.poll() is not None])
        until(running(lab, "h1", "h2"))
        for program in both:
            program.signal_group(signal.SIGINT)
        done = [program.finish() for program in both]

        assert sorted(d.returncode for d in done) == [3, 130], [d.stderr for d in done]
        lost = next(d for d in done if d.returncode == 3)
        output = (
            rf"h1: {what} is (being taken by a launch of root@|used by run \S+ of root@|taken: somebody listens on it)"
        )
        assert re.search(output, lost.stderr), lost.stderr
        assert hint in lost.stderr
        assert_clean(lab)


def test_ports_that_plans_chose_alike_are_changed(lab: Any, start: Callable[..., Any], other: Path, home: Path) -> None:
    """Two runs of one name by two logins, each by processes of its own: at one moment both would take the same port.

    One of them says that it takes another, where it was planned before it could see the other's claim.
    """
    by("process", home, other)
    both = [start("sleep 3000", "--name", "same", where=who) for who in (home, other)]
    until(lambda: len(marks(lab, "h1")) == 2)
    ports = {mark["distui.ports"] for mark in marks(lab, "h1")}
    plans = [json.loads((who / ".local/state/distui/runs/same/plan.json").read_text()) for who in (home, other)]
    for program in both:
        program.signal_group(signal.SIGINT)
    done = [program.finish() for program in both]

    assert [d.returncode for d in done] == [130, 130], [d.stderr for d in done]
    assert len(ports) == 2
    assert ports == {str(plan["master_port"]) for plan in plans} == {p["tasks"][0]["env"]["MASTER_PORT"] for p in plans}
    assert sum("the plan takes another" in d.stderr for d in done) <= 1, [d.stderr for d in done]
    assert_clean(lab)


def test_processes_of_another_login_hold_what_they_have(
    lab: Any, start: Callable[..., Any], other: Path, home: Path
) -> None:
    """Who can't see a run is told of its GPUs and of its port, which it listens on, all the same, until it ends."""
    by("process", other)
    listen = "import socket, time; s = socket.create_server(('', 23456)); time.sleep(3000)"
    script = f'[ $RANK != 0 ] || exec python3 -c "{listen}"; sleep 3000'
    has = start(script, "-d", "--name", "has", where=other, master_port=23456, **GPUS).finish()
    until(lambda: ":23456 " in lab.host("h1").out("ss", "-ltn"))
    output = marks(lab, "h1")
    gpus = start("true", **GPUS).finish()
    port = start("true", master_port=23456).finish()
    shared = start("id -u", "--force", **GPUS).finish()
    stopped = lab.distui("stop", "has", "-y", home=other)
    after = start("true", master_port=23456, **GPUS).finish()

    assert has.returncode == 0, has.stderr
    assert (gpus.returncode, port.returncode) == (3, 3), gpus.stderr + port.stderr
    assert re.search(r"h(2|\[1-2\]): GPU \d is used by run has of root@\S+ \(job smoke", gpus.stderr), (
        output,
        gpus.stderr,
    )
    assert re.search(r"h1: port 23456 is used by run has of root@\S+ \(job smoke", port.stderr), port.stderr
    assert shared.returncode == 0, shared.stderr
    assert "and by this run too (--force)" in shared.stderr
    assert stopped.returncode == 0, stopped.stderr
    assert after.returncode == 0, after.stderr
    assert_clean(lab)


def test_two_engines_of_a_host_do_not_share_a_port(lab: Any, start: Callable[..., Any], home: Path) -> None:
    """Podman's containers hold what they have against Docker's, which can't see them."""
    lab.host("h1").podman_image("lab/python:1")
    by("podman", home)
    has = start("sleep 3000", "-d", "--name", "has", hosts="h1", master_port=23456).finish()
    by("docker", home)
    port = start("true", hosts="h1", master_port=23456).finish()
    by("podman", home)
    stopped = lab.distui("stop", "has", "-y", home=home)
    by("docker", home)
    after = start("true", hosts="h1", master_port=23456).finish()

    assert has.returncode == 0, has.stderr
    assert port.returncode == 3, port.stderr
    assert re.search(r"h1: port 23456 is used by run has of root@\S+ \(job smoke", port.stderr), port.stderr
    assert (stopped.returncode, after.returncode) == (0, 0), stopped.stderr + after.stderr
    assert_clean(lab)


def test_a_gpu_in_use_is_refused_or_shared_by_force(
    lab: Any, start: Callable[..., Any], other: Path, home: Path
) -> None:
    """By the labels of the run that has it; a launch that was killed holds a GPU for minutes, not for ever."""
    assert start("sleep 3000", "-d", "--name", "has", **GPUS).finish().returncode == 0
    refused = start("true", where=other, **GPUS).finish()
    shared = start("true", "--force", where=other, **GPUS).finish()
    assert lab.distui("stop", "has", "-y", home=home).returncode == 0
    lease = (
        "mkdir /tmp/distui-gpu-0 && printf 'ann@desk\\n2026-01-01 00:00:00 UTC\\ntoken\\n' >/tmp/distui-gpu-0/launch"
    )
    lab.host("h2").exec(lease)
    fresh = start("true", **GPUS).finish()
    lab.host("h2").exec("touch -d '1 hour ago' /tmp/distui-gpu-0")
    stale = start("true", **GPUS).finish()
    lab.host("h2").exec("mount -t tmpfs -o ro none /tmp")
    readonly = start("true", **GPUS).finish()
    lab.host("h2").exec("umount /tmp")

    assert refused.returncode == 3, refused.stderr
    assert re.search(r"h(1|\[1-2\]): GPU \d is used by run has of root@\S+ \(job smoke", refused.stderr), refused.stderr
    assert shared.returncode == 0, shared.stderr
    assert "and by this run too (--force)" in shared.stderr
    assert fresh.returncode == 3, fresh.stderr
    assert "h2: GPU 0 is being taken by a launch of ann@desk since 2026-01-01 00:00:00 UTC" in fresh.stderr
    assert stale.returncode == 0, stale.stderr
    assert readonly.returncode == 0, readonly.stderr
    assert re.search(r"h2: can't hold the GPUs while starting \(.*Read-only file system", readonly.stderr), (
        readonly.stderr
    )
    assert_clean(lab)


CLAIMS = r"""
boot=$(cat /proc/sys/kernel/random/boot_id)
mark() {
  start=$(sed 's/.*) //' "/proc/$2/stat" | cut -d' ' -f20)
  printf '%s %s %s\n{"distui.run": "evil", "distui.task": "0", "distui.gpus": "0-7", "distui.ports": "%s"}\n' \
    "$2" "$start" "$boot" "$3" >"/tmp/distui-task-$1.0"
}
lease() { mkdir -p "/tmp/distui-$1"; echo eve >"/tmp/distui-$1/launch"; touch -d "$2" "/tmp/distui-$1"; }
"""
"""What another login of a host, who may not use its engine, says it has."""

FOREIGN = r"""
mark all 1 0-65535
mark some 1 23456
for thing in gpu-0 gpu-1 port-23456; do lease "$thing" 2099-01-01; done
"""
OWN = r"""
mark own "$(cat /tmp/eve.pid)" 23456
for thing in gpu-0 gpu-1 port-23456; do lease "$thing" now; done
"""


def test_another_login_cannot_deny_a_host(lab: Any, start: Callable[..., Any]) -> None:
    """What it says of processes that are not its own counts for nothing, nor does a lease dated 2099; what it may say
    stops no launch with --force, which warns.
    """

    def claims(script: str) -> None:
        for host in lab.hosts[:2]:
            host.exec(
                "setpriv", "--reuid=nodocker", "--regid=nodocker", "--clear-groups", "sh", "-s", input=CLAIMS + script
            )

    job = {**GPUS, "master_port": 23456}
    try:
        claims("sleep 3000 >/dev/null 2>&1 & echo $! >/tmp/eve.pid\n" + FOREIGN)
        foreign = start("true", **job).finish()
        claims(OWN)
        own = start("true", **job).finish()
        forced = start("true", "--force", **job).finish()
    finally:
        for host in lab.hosts[:2]:
            host.exec("kill $(cat /tmp/eve.pid); rm -rf /tmp/eve.pid /tmp/distui-*")

    assert foreign.returncode == 0, foreign.stderr
    assert own.returncode == 3, own.stderr
    assert forced.returncode == 0, forced.stderr
    assert "/tmp/distui-port-23456 is held by a launch" in forced.stderr
    assert "used by run evil of ? (job )" in forced.stderr
    assert_clean(lab)


SLOW = r"""
mv /usr/bin/docker /usr/bin/docker.real
printf '#!/bin/sh\n[ "$1" != run ] || sleep 600\nexec /usr/bin/docker.real "$@"\n' >/usr/bin/docker
chmod +x /usr/bin/docker
"""


def test_a_launch_that_was_killed_leaves_nothing_after_a_stop(
    lab: Any, start: Callable[..., Any], home: Path, tmp_path: Path
) -> None:
    """kill -9 while env files and GPUs are held: a stop from another machine, or rm here where no task had begun,
    removes containers, env files and leases, and the name and the GPUs are free again.
    """
    there = Path(lab.ssh_home(tmp_path / "there"))
    (there / "hosts.yaml").write_text((home / "hosts.yaml").read_text())
    for slow, stopper, end in (["h2"], there, "stop"), (["h1", "h2"], home, "rm"):
        for name in slow:
            lab.host(name).exec(SLOW)
        try:
            program = start("sleep 3000", "--name", "half", **GPUS)
            until(lambda: all("file" in str(h.leftovers()) for h in lab.hosts[:2]))
            until(lambda hosts=[h for h in ("h1", "h2") if h not in slow]: running(lab, *hosts)())
            until(lambda: "distui-gpu-0" in lab.host("h2").out("ls", "/tmp"))
            program.signal_group(signal.SIGKILL)
            program.wait(LIMIT)
            held = [str(h.leftovers()) for h in lab.hosts[:2]]
        finally:
            for name in slow:
                lab.host(name).exec("mv /usr/bin/docker.real /usr/bin/docker")
        stopped = lab.distui(end, "half", "-y", home=stopper)

        assert all("env-" in text or "launch" in text for text in held), held
        assert stopped.returncode in (0, 6), stopped.stderr
        assert "removed what a launch of half had left on" in stopped.stderr or slow == ["h2"]
        assert [h.out("sh", "-c", "ls -d /tmp/distui* 2>/dev/null; true") for h in lab.hosts[:2]] == ["", ""]
        assert_clean(lab)
        lab.distui("rm", "half", "--purge", "-y", home=home)
    assert start("true", "--name", "half", **GPUS).finish().returncode == 0


def test_a_docker_that_fails_every_fourth_call(lab: Any, home: Path, start: Callable[..., Any]) -> None:
    """What only asks is asked again, so that runs start, end, and leave nothing; also from `stop`."""
    for host in lab.hosts[:2]:
        host.fault("docker-flaky")
    result = rest_of(start("echo said", "--name", "flaky", "-o", "ndjson"))
    assert (result["state"], result["exit"], result["leftovers"]) == ("succeeded", 0, [])
    begun = start("sleep 3000", "--name", "flakier", "-o", "ndjson", "-d")
    assert rest_of(begun)["state"] == "detached"
    stopped = lab.distui("stop", "flakier", "-y", "--grace", "1s", home=home)
    assert stopped.returncode == 0, stopped.stderr
    for host in lab.hosts[:2]:
        host.fault("docker-fast")
    assert_clean(lab)


@pytest.mark.parametrize("tool", ["sed", "find", "head"])
def test_a_host_without_a_tool(lab: Any, start: Callable[..., Any], tool: str) -> None:
    """What a tool that is missing does not say is no answer: the run succeeds, and is not `stopped from elsewhere`."""
    for host in lab.hosts[:2]:
        host.fault("tool-gone", tool)
    result = rest_of(start("echo said", "--name", f"no-{tool}", "-o", "ndjson", "--no-preflight"))
    assert (result["state"], result["exit"]) == ("succeeded", 0)
    for host in lab.hosts[:2]:
        host.fault("tools-back")
    assert_clean(lab)
