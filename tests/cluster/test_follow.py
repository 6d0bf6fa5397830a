"""The follower against real sshd and dockerd: whatever breaks, every byte comes once."""

from __future__ import annotations

import asyncio
import ctypes
import os
import random
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from distui.agent import bundle as helper
from distui.monitor.containers import follow_log, list_containers, log_argv
from distui.monitor.processes import look, signal
from distui.remote.pool import SshConnector
from distui.runs.follow.feed import EngineAccess
from distui.runs.follow.followed import Back, Exited, FollowEvent, FollowTarget, Lost, Note, Records, Sampled
from distui.runs.follow.follower import HostFollower
from distui.runs.follow.resume import ResumePoint
from distui.runs.hosts.link import HostLink
from distui.session import Session
from distui.spec.hosts.inventory import Host
from distui.spec.hosts.inventory import Host as InventoryHost

sys.path.insert(0, str(Path(__file__).parents[1]))
from lab import writer
from lab.lab import Lab
from lab.writer import written

if TYPE_CHECKING:
    from lab.host import Host

pytestmark = pytest.mark.cluster

DOCKER = EngineAccess("docker", ("docker",), "/var/run/docker.sock")
HANGS_S = 600
"""Seconds after which something counts as one that hangs, however busy the machine is."""


@dataclass
class Bench:
    """The lab's host, and a home that may log in to it."""

    lab: Lab
    home: Path

    @property
    def host(self) -> Host:
        return self.lab.host("h1")

    def start(self, run: str, *argv: str) -> str:
        """Start a container as distui does; its id."""
        options = ("-d", "--init", "--label", f"distui.run={run}", "--log-driver", "json-file")
        volume = ("-v", "/mnt/pytorch:/pytorch")
        return self.host.out("docker", "run", *options, *volume, "lab/python:1", *argv)

    def writes(self, name: str, code: int = 0) -> Writes:
        """A writer that goes on until it is told to stop, however slowly it is read."""
        folder = self.lab.share / name
        folder.mkdir()
        return Writes(folder, ("python3", "/pytorch/writer.py", "1000000", "1500", str(code), f"/pytorch/{name}", "0"))


@dataclass
class Writes:
    """What a writer is called with in a container, and its folder on this machine."""

    folder: Path
    argv: tuple[str, ...]

    def stop(self) -> None:
        """Let it end."""
        (self.folder / "stop").touch()

    @property
    def all(self) -> tuple[bytes, bytes]:
        """What it has written, when it has ended."""
        return written(int((self.folder / "0").read_text()))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One host, seen from the login node: this thread moves into its network namespace."""
    lab, home = Lab(f"f{os.getpid()}"), tmp_path_factory.mktemp("home")
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/self/ns/net", os.O_RDONLY)
    lab.up(1)
    try:
        lab.ssh_home(home)
        shutil.copy(writer.__file__, lab.share / "writer.py")
        inside = os.open(lab.command()[1].removeprefix("--net="), os.O_RDONLY)
        assert libc.setns(inside, 0) == 0
        os.close(inside)
        yield Bench(lab, home)
    finally:
        libc.setns(before, 0)
        os.close(before)
        lab.down()


@dataclass
class Taken:
    """What was emitted, as a log file and stored point for each task; wakes whoever waits for something."""

    events: list[FollowEvent] = field(default_factory=list)
    out: dict[int, bytearray] = field(default_factory=dict)
    err: dict[int, bytearray] = field(default_factory=dict)
    points: dict[int, ResumePoint] = field(default_factory=dict)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, event: FollowEvent) -> None:
        self.events.append(event)
        if isinstance(event, Records):
            for stream, piece in zip(event.batch.streams, event.batch.pieces, strict=True):
                log = self.out if stream == 1 else self.err
                log.setdefault(event.task, bytearray()).extend(piece)
            self.points[event.task] = event.resume
        self.news.set()

    def kinds(self, task: int = 0) -> list[str]:
        """The task's story without its records."""
        mine = [e for e in self.events if getattr(e, "task", None) == task and not isinstance(e, Records | Note)]
        return [type(e).__name__ for e in mine]

    def count(self, kind: type | tuple[type, ...]) -> int:
        return sum(isinstance(e, kind) for e in self.events)

    async def until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            self.news.clear()
            await self.news.wait()


@asynccontextmanager
async def following(
    bench: Bench,
    taken: Taken,
    run: str,
    *targets: FollowTarget,
    engine: EngineAccess = DOCKER,
    user: str = "root",
    jitter: Callable[[], float] = random.random,
) -> AsyncIterator[HostFollower]:
    """A follower at work, its connection and all."""
    connector = SshConnector([Host("h1", user=user)], home=bench.home, system=False)
    link = HostLink(connector, "h1", jitter=jitter)
    follower = HostFollower(link, engine, taken, run_id=run, targets=targets)
    running = asyncio.ensure_future(follower.run())
    try:
        async with asyncio.timeout(HANGS_S):
            yield follower
    finally:
        await follower.close()
        await asyncio.gather(running, return_exceptions=True)
        await link.close()
        await connector.close()
    running.result()


async def cut_often(bench: Bench, taken: Taken, cuts: list[int]) -> None:
    """Kill every ssh session on the host, again and again, each time after some more was received."""
    chance = random.Random(1)
    while True:
        target = taken.count(Records) + chance.choice([1, 1, 5, 20, 60])
        await taken.until(lambda target=target: taken.count(Records) >= target)
        await asyncio.to_thread(bench.host.fault, "ssh-killall")
        cuts.append(taken.count(Records))


@asynccontextmanager
async def cutting(bench: Bench, taken: Taken) -> AsyncIterator[list[int]]:
    """Cuts all the while; the list grows with each."""
    cuts: list[int] = []
    task = asyncio.ensure_future(cut_often(bench, taken, cuts))
    try:
        yield cuts
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def some_cuts(taken: Taken, cuts: list[int]) -> None:
    """Return when there were three, each with something received after the one before."""
    await taken.until(lambda: len(cuts) >= 3)


CUTS, WRITERS = 60, 3


async def test_dozens_of_cuts_lose_and_double_no_byte(bench: Bench) -> None:
    """Three containers print all the while, so each cut hits all their streams; what came is what they wrote."""
    taken, chance, folder = Taken(), random.Random(2), bench.lab.share / "cuts"
    folder.mkdir()
    argv = ("python3", "/pytorch/writer.py", "1000000", "400", "3", "/pytorch/cuts")
    targets = [FollowTarget(n, bench.start("cuts", *argv, str(n))) for n in range(WRITERS)]
    async with following(bench, taken, "cuts", *targets, jitter=lambda: 0.0) as follower:
        while taken.count(Lost) < CUTS:
            had = taken.count(Records)
            await taken.until(lambda had=had: taken.count(Records) > had)
            await asyncio.sleep(chance.uniform(0, 0.1))
            await asyncio.to_thread(bench.host.fault, "ssh-killall")
        (folder / "stop").touch()
        await follower.drained()
    for task in range(WRITERS):
        assert (bytes(taken.out[task]), bytes(taken.err[task])) == written(int((folder / str(task)).read_text()))
        assert taken.kinds(task) == ["Exited", "Drained"]
    assert {e.code for e in taken.events if isinstance(e, Exited)} == {3}
    assert taken.count(Lost) == taken.count(Back) >= CUTS
    assert not taken.count(Note)
    assert taken.count(Sampled)


async def test_distui_killed_and_attached_again_goes_on_where_its_file_ends(bench: Bench) -> None:
    """The point stored with the last bytes written is enough, whatever came after it."""
    writes = bench.writes("crash")
    ref = bench.start("crash", *writes.argv)
    taken, files = Taken(), (bytearray(), bytearray())
    resume: ResumePoint | None = None
    for more in (30, 2, 200, 50):
        taken = Taken()
        async with following(bench, taken, "crash", FollowTarget(0, ref, resume)):
            await taken.until(lambda more=more, taken=taken: taken.count(Records) >= more)
            kept = [e for e in taken.events if isinstance(e, Records)][: more // 2 + 1]
        for event in kept:
            for stream, piece in zip(event.batch.streams, event.batch.pieces, strict=True):
                files[stream - 1].extend(piece)
        resume = kept[-1].resume
    writes.stop()
    async with following(bench, last := Taken(), "crash", FollowTarget(0, ref, resume)) as follower:
        await follower.drained()
    assert (bytes(files[0] + last.out[0]), bytes(files[1] + last.err[0])) == writes.all


@pytest.mark.parametrize("way", ["socket", "dial", "helper-dial"])
async def test_the_other_ways_to_reach_docker_are_exact_too(
    bench: Bench, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No python3 on the host, no forwarding, no right to open the socket: slower, and still each byte once."""
    if way != "helper-dial":
        monkeypatch.setattr(helper, "start", lambda word: ("no-python3-here",))
    engine = EngineAccess("docker", ("docker",), DOCKER.socket if way == "socket" else None)
    taken, writes = Taken(), bench.writes(way)
    ref = bench.start(way, *writes.argv)
    async with following(bench, taken, way, FollowTarget(0, ref), engine=engine, user="trainer") as follower:
        async with cutting(bench, taken) as cuts:
            await some_cuts(taken, cuts)
            writes.stop()
            await follower.drained()
        assert follower.feed is not None
        assert follower.feed.kind == way.split("-")[0]
    assert (bytes(taken.out[0]), bytes(taken.err[0])) == writes.all
    assert taken.kinds() == ["Exited", "Drained"]


async def test_a_dockerd_that_dies_makes_tasks_unknown_not_ended(bench: Bench) -> None:
    """Contact with the engine is lost and comes back; then the truth is read: killed, and all its log was had."""
    taken = Taken()
    ref = bench.start("daemon", "python3", "/pytorch/writer.py", "1000000", "1500", "0")
    async with following(bench, taken, "daemon", FollowTarget(0, ref)) as follower:
        await taken.until(lambda: taken.count(Records) > 50)
        await asyncio.to_thread(bench.host.fault, "docker-kill")
        await taken.until(lambda: any(isinstance(e, Lost) and e.what == "engine" for e in taken.events))
        assert taken.kinds() == []
        await asyncio.to_thread(bench.host.fault, "docker-up")
        await follower.drained()
    assert taken.kinds() == ["Exited", "Drained"]
    assert any(isinstance(e, Back) and e.what == "engine" for e in taken.events)
    assert next(e for e in taken.events if isinstance(e, Exited)).code in (137, 143)
    (bench.lab.share / "logs.sh").write_text(f"docker logs {ref} >/mnt/pytorch/o 2>/mnt/pytorch/e")
    bench.host.exec("sh", "/mnt/pytorch/logs.sh")
    assert (bench.lab.share / "o").read_bytes() == bytes(taken.out[0])
    assert (bench.lab.share / "e").read_bytes() == bytes(taken.err[0])


async def test_a_container_removed_by_somebody_else_is_removed(bench: Bench) -> None:
    """Killed, then gone: whichever is seen first, it is no success, and all it had printed is here.

    `docker rm -f` kills before it removes, so its end may still be read; a run learns that it was removed at the
    latest when it is to be removed itself.
    """
    taken = Taken()
    ref = bench.start("gone", "sh", "-c", "echo here; sleep 1000")
    async with following(bench, taken, "gone", FollowTarget(0, ref)) as follower:
        await taken.until(lambda: taken.count(Records) == 1)
        await asyncio.to_thread(bench.host.exec, "docker", "rm", "-f", ref)
        await follower.drained()
    assert taken.kinds()[-1] in ("Removed", "Drained")
    assert taken.kinds()[-1] == "Removed" or [e.code for e in taken.events if isinstance(e, Exited)] == [137]
    assert bytes(taken.out[0]) == b"here\n"


async def test_last_words_without_a_newline_come_before_drained(bench: Bench) -> None:
    """Docker's own follow ends before them in half the cases: one last read brings them."""
    taken = Taken()
    script = "echo start; printf out$0; printf err$0 >&2; exit $0"
    refs = [bench.start("last", "sh", "-c", script, str(n)) for n in range(8)]
    async with following(bench, taken, "last") as follower:
        for n, ref in enumerate(refs):
            follower.follow(FollowTarget(n, ref))
        await follower.drained()
    assert {n: (bytes(taken.out[n]), bytes(taken.err[n])) for n in range(8)} == {
        n: (b"start\nout%d" % n, b"err%d" % n) for n in range(8)
    }
    codes = {e.task: e.code for e in taken.events if isinstance(e, Exited)}
    assert codes == {n: n for n in range(8)}


async def test_a_container_that_could_not_start_says_why(bench: Bench) -> None:
    """Its state is `created`, with the engine's words."""
    taken = Taken()
    ref = bench.host.out("docker", "create", "lab/python:1", "/no/such/program")
    bench.host.exec("docker", "start", ref, check=False)
    async with following(bench, taken, "never", FollowTarget(0, ref)) as follower:
        await follower.drained()
    exited = next(e for e in taken.events if isinstance(e, Exited))
    assert (exited.state, exited.code) == ("never_started", 127)
    assert "/no/such/program" in exited.error


async def test_a_terminal_s_raw_log_is_read_too(bench: Bench) -> None:
    """A container that somebody started with -t has no frames; its bytes come once all the same."""
    taken = Taken()
    script = "for i in 1 2 3 4 5 6; do echo $i; sleep 0.5; done"
    ref = bench.host.out("docker", "run", "-dt", "lab/python:1", "sh", "-c", script)
    async with following(bench, taken, "tty", FollowTarget(0, ref)) as follower, cutting(bench, taken):
        await follower.drained()
    assert bytes(taken.out[0]) == b"1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n"


PROCESS = EngineAccess("process", ())

SUPERVISOR = """
mkdir -p $0; cd $0
echo "$(cut -d' ' -f22 /proc/$$/stat) $(cat /proc/sys/kernel/random/boot_id)" >ident; echo $$ >pid
python3 /mnt/pytorch/writer.py 1000000 1500 4 $1 0 >log 2>&1; code=$?
echo $code 1795226874473189101 >exit.new; mv exit.new exit
"""


@pytest.mark.parametrize("user", ["root", "fishy", "cshy"])
async def test_a_process_is_followed_by_offset_and_exit_file(
    bench: Bench, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any engine, and with other login shells even without python3: exact through cuts, and its exit code."""
    if user != "root":
        monkeypatch.setattr(helper, "start", lambda word: ("no-python3-here",))
    taken, folder, writes = Taken(), "/tmp/follow-test/task-0", bench.writes(f"process-{user}")
    bench.host.exec(f"mkdir -p {folder}; : >{folder}/log")  # there before anybody follows, as when distui starts it
    argv = ("sh", "-c", SUPERVISOR, folder, f"/mnt/pytorch/{writes.folder.name}")
    target = FollowTarget(0, folder)
    running = asyncio.ensure_future(asyncio.to_thread(bench.host.exec, *argv, timeout=HANGS_S))
    await asyncio.to_thread(bench.host.exec, f"until test -s {folder}/pid; do sleep 0.05; done")
    async with following(bench, taken, "process", target, engine=PROCESS, user=user) as follower:
        async with cutting(bench, taken) as cuts:
            await some_cuts(taken, cuts)
            writes.stop()
            await follower.drained()
        await running
    size = int(bench.host.out("stat", "-c", "%s", f"{folder}/log"))
    assert len(taken.out[0]) == size == sum(map(len, writes.all))
    exited = next(e for e in taken.events if isinstance(e, Exited))
    assert (exited.code, exited.finished_at) == (4, 1795226874.473189101)
    assert taken.kinds() == ["Exited", "Drained"]
    left = "for i in $(seq 600); do pgrep -f '[t]ail .*follow-test' || exit 0; sleep 0.1; done; exit 1"
    assert bench.host.exec(left, timeout=HANGS_S, check=False).returncode == 0
    bench.host.exec("rm", "-r", "/tmp/follow-test")


async def test_a_process_whose_supervisor_was_killed_is_lost_not_running(bench: Bench) -> None:
    """No exit file will ever come: say so."""
    taken, folder = Taken(), "/tmp/follow-test/task-1"
    bench.host.exec(f"mkdir -p {folder}; echo hello >{folder}/log; sh -c 'echo $$ >{folder}/pid'")
    async with following(bench, taken, "lost", FollowTarget(1, folder), engine=PROCESS) as follower:
        await follower.drained()
    assert taken.kinds(1) == ["Exited", "Drained"]
    assert next(e for e in taken.events if isinstance(e, Exited)).state == "lost"
    assert bytes(taken.out[1]) == b"hello\n"
    bench.host.exec("rm", "-r", "/tmp/follow-test")


async def test_a_podman_container_is_exact_through_cuts(bench: Bench) -> None:
    """Podman has no daemon: its log file is followed and its client asked for the end."""
    bench.host.podman_image("lab/python:1")
    taken = Taken()
    options = ("-d", "--log-driver", "k8s-file", "--label", "distui.run=pod", "-v", "/mnt/pytorch:/pytorch")
    writes = bench.writes("pod", 5)
    ref = bench.host.out("podman", "run", *options, "lab/python:1", *writes.argv)
    engine = EngineAccess("podman", ("podman",))
    target = FollowTarget(0, ref)
    async with following(bench, taken, "pod", target, engine=engine) as follower, cutting(bench, taken) as cuts:
        await some_cuts(taken, cuts)
        writes.stop()
        await follower.drained()
    out, err = writes.all
    assert bytes(taken.err[0]) == err
    # conmon ends a last line that the program left open.
    assert bytes(taken.out[0]) in (out, out + b"\n")
    assert taken.kinds() == ["Exited", "Drained"]
    assert next(e for e in taken.events if isinstance(e, Exited)).code == 5
    bench.host.exec("podman", "rm", "-f", ref)


LEFT = "ps -eo args | grep -E '[p]ython3 -I|[n]vidia-smi (--query|dmon)|[d]ial-stdio'"


async def test_an_old_driver_gives_the_figures_it_knows(bench: Bench) -> None:
    """Fields it has another name for, or none, cost it no other figure."""
    names = "1s/clocks_event_reasons.active/no.&/; 1s/temperature.gpu.tlimit/no.&/"
    bench.host.exec(f"sed -i '{names}' /etc/lab/gpus.csv")
    try:
        taken = Taken()
        async with following(bench, taken, "none", engine=EngineAccess("docker", ("docker",), None)):
            await taken.until(lambda: any(isinstance(e, Sampled) and e.sample.gpus for e in taken.events))
        gpu = next(e.sample.gpus[0] for e in taken.events if isinstance(e, Sampled) and e.sample.gpus)
        assert (gpu.sm_mhz, gpu.ecc, gpu.throttle, gpu.slowdown_c) == (345, 0, 0, None)
    finally:
        bench.host.exec(r"sed -i '1s/\bno\.//g' /etc/lab/gpus.csv")


async def test_a_hot_gpu_says_that_it_is_slowed_down(bench: Bench) -> None:
    """With its clock, and where the slowdown began."""
    await asyncio.to_thread(bench.host.fault, "gpu-hot", "1", "91")
    taken = Taken()
    async with following(bench, taken, "none", engine=EngineAccess("docker", ("docker",), None)):
        await taken.until(lambda: any(isinstance(e, Sampled) and e.sample.gpus for e in taken.events))
    await asyncio.to_thread(bench.host.fault, "gpu-ok")
    gpu = next(e.sample.gpus[1] for e in taken.events if isinstance(e, Sampled) and e.sample.gpus)
    assert (gpu.temperature_c, gpu.slowdown_c, gpu.sm_mhz, gpu.throttle) == (91.0, 87.0, 1320, 0x20)


async def test_nothing_of_the_helper_stays_on_the_host(bench: Bench) -> None:
    """When its client is gone so is it, and the nvidia-smi it had started."""

    taken = Taken()
    async with following(bench, taken, "none", engine=EngineAccess("docker", ("docker",), None)):
        await taken.until(lambda: any(isinstance(e, Sampled) and e.sample.gpus for e in taken.events))
        await taken.until(
            lambda: any(
                isinstance(e, Sampled) and e.sample.gpus and e.sample.gpus[0].pcie_rx == 0 for e in taken.events
            )
        )
        assert "python3 -I" in bench.host.out(LEFT)
        await asyncio.to_thread(bench.host.fault, "ssh-killall")
        await taken.until(lambda: bool(taken.count(Back)))
    script = f'for i in $(seq 600); do test -z "$({LEFT})" && exit; sleep 0.1; done; exit 1'
    assert bench.host.exec("sh", "-c", script, timeout=HANGS_S, check=False).returncode == 0


async def test_a_drained_task_is_not_read_again(bench: Bench) -> None:
    """Attaching to a run that had been drained tells its end and reads nothing."""
    ref = bench.start("done", "sh", "-c", "echo one; exit 3")
    bench.host.out("docker", "wait", ref)
    async with following(bench, taken := Taken(), "done", FollowTarget(0, ref, ResumePoint(done=True))) as follower:
        await follower.drained()
    bench.host.exec("docker", "rm", "-f", ref)
    assert taken.kinds() == ["Exited", "Drained"]
    assert not taken.count(Records)


@asynccontextmanager
async def logged_in(bench: Bench, user: str = "root") -> AsyncIterator[Session]:
    """A session of a user; by the host's address, since the home's ssh config has a user for its name."""
    target = Host("h1", "10.77.0.11", user)
    connector = SshConnector([target], home=bench.home, system=False, config=Path("/dev/null"))
    try:
        async with asyncio.timeout(HANGS_S):
            yield await connector.connect("h1")
    finally:
        await connector.close()


@pytest.mark.parametrize("user", ["root", "trainer"])
async def test_anybody_s_container_is_listed_and_its_log_followed(bench: Bench, user: str) -> None:
    """With old lines first; when the reader goes nothing of it stays on the host, and the container runs on."""
    argv = ("sh", "-c", "echo one; echo two >&2; while :; do sleep 1; done")
    ref = bench.host.out("docker", "run", "-d", "--name", "stranger", "lab/python:1", *argv)
    host = InventoryHost("h1")
    try:
        async with logged_in(bench, user) as session:
            (found,) = [c for c in await list_containers(session.run, host) if c.id == ref]
            assert (found.id, found.name, found.image, found.status) == (ref, "stranger", "lab/python:1", "running")
            assert found.task is None
            output = b""
            async with aclosing(follow_log(session, log_argv(host, found))) as stream:
                async for data in stream:
                    output += data
                    if output.count(b"\n") == 2:
                        break
            assert sorted(output.split()) == [b"one", b"two"]
        left = "for i in $(seq 600); do pgrep -f '[d]ocker logs' || exit 0; sleep 0.1; done; exit 1"
        assert bench.host.exec(left, timeout=HANGS_S, check=False).returncode == 0
        assert bench.host.out("docker", "inspect", "-f", "{{.State.Running}}", ref) == "true"
    finally:
        bench.host.exec("docker", "rm", "-f", ref)


async def test_the_log_of_a_container_that_has_ended_ends(bench: Bench) -> None:
    """And its exit code is known."""
    ref = bench.start("r-ended", "sh", "-c", "seq 2000; exit 3")
    bench.host.exec("docker", "wait", ref)
    try:
        async with logged_in(bench) as session:
            (found,) = [c for c in await list_containers(session.run, InventoryHost("h1")) if c.id == ref]
            assert (found.status, found.exit, found.running) == ("exited", 3, False)
            output = b"".join([data async for data in follow_log(session, log_argv(InventoryHost("h1"), found))])
        assert output.split() == [str(i).encode() for i in range(1001, 2001)]
    finally:
        bench.host.exec("docker", "rm", "-f", ref)


async def test_a_process_of_somebody_else_may_not_be_signalled(bench: Bench) -> None:
    """It is looked at, refused, and lives on."""
    pid = int(
        bench.host.out("sleep 600 >/dev/null 2>&1 & until grep -q sleep /proc/$!/comm; do sleep 0.1; done; echo $!")
    )
    async with logged_in(bench, "trainer") as session:
        seen = await look(session.run, "h1", pid)
        assert (seen.user, seen.login, seen.command) == ("root", "trainer", "sleep 600")
        assert await signal(session.run, seen, kill=True) == "refused"
    async with logged_in(bench) as session:
        assert await signal(session.run, seen) == "ended"
