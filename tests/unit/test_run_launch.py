"""From plan to started tasks: what is checked before anything starts, and that a failed start leaves nothing."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from distui.cluster.runs.run import Run
from distui.cluster.runs.run_events import RunEvents
from distui.doctor.mounts import MountProblem, MountReport
from distui.errors import HostAuthError, HostCommandError, HostUnreachable, SessionLost
from distui.plan.content.fetch import fetch_of
from distui.plan.model import Mount, RunPlan
from distui.runs.attempt.attempt import Attempt
from distui.runs.attempt.replan import NextAttempt
from distui.runs.attempt.steps import LaunchOptions
from distui.runs.control import controller as controller_module
from distui.runs.ending import cleanup
from distui.runs.hosts.claims.folder import Claim
from distui.runs.launch import launch as launch_module
from distui.runs.launch.leases import PortsTaken
from distui.runs.lines.events import PhaseBegun, RankChanged, StopAsked, TaskStarted
from distui.runs.store import runs
from distui.runs.task.host_run import HostRun
from distui.session import Completed
from distui.spec.job.job import DataMount
from fakehosts.hosts import FakeHost
from fakehosts.runs import Cluster, facts_of, until, use_fake_follower

STARTING = {"put", "run"}
"""Verbs that change a host."""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Three hosts whose programs end with 0 at once."""
    made = Cluster(tmp_path, 3)
    use_fake_follower(monkeypatch, made.connector)
    for number, host in enumerate(made.hosts):
        host.engine.exits[number] = 0
    return made


def refused(argv: str, words: str, status: int = 1) -> Completed:
    """The engine's refusal."""
    return Completed((argv,), status, b"", words.encode() + b"\n")


def touched(host: FakeHost) -> set[str]:
    """What changed the host."""
    return STARTING & set(host.verbs())


async def test_steps_in_order_and_nothing_left(cluster: Cluster) -> None:
    """Connect, check, image, push, start, follow, clean up: each on all hosts before the next begins."""
    ended = await cluster.run(cluster.plan())

    assert (ended.outcome, ended.exit, ended.leftovers) == ("succeeded", 0, ())
    phases = [e.phase for e in cluster.of(PhaseBegun)]
    assert phases == ["connect", "check", "image", "push", "start", "follow", "cleanup"]
    assert [e.host for e in sorted(cluster.of(TaskStarted), key=lambda e: e.task)] == ["h1", "h2", "h3"]
    assert cluster.left() == []
    assert [h.open_sessions for h in cluster.hosts] == [0, 0, 0]
    for host in cluster.hosts:
        verbs = host.verbs()
        assert verbs.index("ps") < verbs.index("reach") < verbs.index("image") < verbs.index("put") < verbs.index("run")


async def test_no_host_is_touched_before_all_are_checked(cluster: Cluster) -> None:
    """While one host's image is still being looked up, no other host has got a file or a container."""
    reached = cluster.hosts[2].hold("image")

    async def look() -> None:
        await reached.wait()
        await until(lambda: all("image" in host.verbs() for host in cluster.hosts))
        assert [touched(h) for h in cluster.hosts] == [set(), set(), set()]
        cluster.hosts[2].gates["image"].set()

    assert (await cluster.run(cluster.plan(), look())).exit == 0


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (HostUnreachable("h2", "h2 refuses connections", hint="is sshd running?", code="refused"), "refuses"),
        (HostAuthError("h2", "h2 accepts none of the keys", hint="ssh-copy-id h2"), "ssh-copy-id h2"),
    ],
)
async def test_a_host_out_of_reach_stops_the_launch(cluster: Cluster, error: HostUnreachable, words: str) -> None:
    """Exit 4 with the reason and hint; no other host is touched."""
    cluster.connector.down["h2"] = error
    ended = await cluster.run(cluster.plan())

    assert (ended.outcome, ended.exit, ended.log_dir) == ("launch_failed", 4, "")
    assert words in cluster.said()
    assert all(touched(h) == set() for h in cluster.hosts)
    assert cluster.left() == []


async def test_every_host_out_of_reach_is_named(cluster: Cluster) -> None:
    """All failures at once, not one per try."""
    for name in ("h1", "h3"):
        cluster.connector.down[name] = HostUnreachable(name, f"{name} does not answer", code="timeout")
    await cluster.run(cluster.plan())

    assert "h[1,3]: does not answer" in cluster.said()


async def test_a_name_in_use_names_its_owner(cluster: Cluster) -> None:
    """A run of that name on one host: exit 3, whose it is, and what to do; it is left alone."""
    twin = Cluster(Path(cluster.store.root) / "twin", 3)
    twin.hosts[1].files["/home/u/env"] = b"A=1\n"
    plan = cluster.plan()
    host = cluster.hosts[1]
    host.files[plan.tasks[1].env_file] = b""
    host.engine.exits.clear()
    assert host.engine.run(plan.tasks[1].start).ok
    host.files.clear()
    ended = await cluster.run(plan)

    assert (ended.outcome, ended.exit) == ("launch_failed", 3)
    for word in ("h2", "r1", "ann@desk", "job j", "running", "--name", "distui stop r1"):
        assert word in cluster.said()
    assert [c.status for c in host.containers] == ["running"]
    assert all(touched(h) == set() for h in cluster.hosts)


async def test_a_broken_engine_stops_the_launch(cluster: Cluster) -> None:
    """The engine's class of failure in words, before anything starts."""
    cluster.hosts[0].fails["ps"] = refused("ps", "Cannot connect to the Docker daemon. Is the docker daemon running?")
    ended = await cluster.run(cluster.plan())

    assert (ended.outcome, ended.exit) == ("launch_failed", 3)
    assert "h1: the container engine's daemon does not run" in cluster.said()
    assert all(touched(h) == set() for h in cluster.hosts)


# images


async def test_a_missing_image_is_pulled_where_it_is_missing(cluster: Cluster) -> None:
    """`pull: missing` pulls on that host only."""
    one, two, three = cluster.hosts
    two.engine.registry = dict(two.engine.images)
    two.engine.images = {}
    assert (await cluster.run(cluster.plan())).exit == 0
    assert ["pull" in h.verbs() for h in (one, two, three)] == [False, True, False]


async def test_pull_always_pulls_everywhere(cluster: Cluster) -> None:
    """`pull: always` asks the registry on each host."""
    for host in cluster.hosts:
        host.engine.registry = dict(host.engine.images)
    assert (await cluster.run(cluster.plan(pull="always"))).exit == 0
    assert all("pull" in h.verbs() for h in cluster.hosts)


async def test_a_missing_image_that_may_not_be_pulled(cluster: Cluster) -> None:
    """`pull: never` names the hosts that lack it; exit 3."""
    cluster.hosts[0].engine.images = {}
    cluster.hosts[2].engine.images = {}
    ended = await cluster.run(cluster.plan(pull="never"))

    assert ended.exit == 3
    assert "image img:1 is not on h[1,3]" in cluster.said()
    assert all(touched(h) == set() for h in cluster.hosts)


async def test_a_pull_that_fails(cluster: Cluster) -> None:
    """The registry's answer in words; exit 3 and nothing started."""
    cluster.hosts[1].engine.images = {}
    ended = await cluster.run(cluster.plan())

    assert ended.exit == 3
    assert "can't pull img:1 on h2: the image is not there" in cluster.said()
    assert "manifest unknown" in cluster.said()
    assert all(touched(h) == set() for h in cluster.hosts)


async def test_a_pull_that_fails_everywhere_is_said_once(cluster: Cluster) -> None:
    """64 hosts would say it 64 times; each host that says something else is named."""
    for host in cluster.hosts:
        host.engine.images = {}
    ended = await cluster.run(cluster.plan())

    assert ended.exit == 3
    (said,) = [line for line in cluster.said().splitlines() if "can't pull" in line]
    assert "can't pull img:1 on h[1-3]: the image is not there" in said


async def test_different_images_of_one_name_are_a_warning(cluster: Cluster) -> None:
    """The run goes on; both ids are shown."""
    cluster.hosts[1].engine.images["img:1"] = "sha256:" + "b" * 64
    assert (await cluster.run(cluster.plan())).exit == 0
    assert "the image is not the same everywhere: " in cluster.said()
    assert ", bbbbbbbbbbbb on h2" in cluster.said() and " on h[1,3], " in cluster.said()


# reachability


async def test_a_peer_out_of_reach_stops_the_launch(cluster: Cluster) -> None:
    """Who can't reach whom at which address, and why; exit 3."""
    cluster.hosts[0].unreachable["h3"] = "No route to host"
    ended = await cluster.run(cluster.plan())

    assert ended.exit == 3
    assert "h1: can't reach h3 at 10.0.0.13:999 from 10.0.0.11: No route to host" in cluster.said()
    assert all(touched(h) == set() for h in cluster.hosts)


async def test_data_that_several_hosts_lack_alike_is_one_line(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With their names, in the order of the plan; what one lacks besides is a line of its own."""

    async def prove(*_: object) -> MountReport:
        lacking = (("h3", "d"), ("h1", "d"), ("h2", "e"))
        return MountReport(tuple(MountProblem(host, mount, "is not there", "mount it") for host, mount in lacking))

    monkeypatch.setattr("distui.runs.launch.data.prove_mounts", prove)
    plan = replace(cluster.plan(), mounts=(Mount("d", "path", "/d", "/d", "ro", shared=False),))
    assert (await cluster.run(plan)).exit == 3
    assert "h[1,3]: data.d: is not there (mount it)" in cluster.said()
    assert "h2: data.e: is not there (mount it)" in cluster.said()
    assert all(touched(h) == set() for h in cluster.hosts)


async def test_hosts_that_fetch_alike_are_one_line(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which data by which client, with their names, and for which another run's fetch is waited."""

    class Fetch:
        kept: ClassVar[dict[str, str]] = {}

        def __init__(self, host: str) -> None:
            self.host = host
            self.busy = {"e"} if host == "h2" else set[str]()

        async def lacking(self) -> dict[str, str]:
            return {"d": "aws", "e": "aws"} if self.host == "h2" else {"d": "curl"}

        async def fetch(self, *_: object) -> None:
            pass

    monkeypatch.setattr(HostRun, "data_fetch", lambda host: Fetch(host.host))
    url = "https://h/x"
    mount = Mount("d", "url", url, "/d", "ro", shared=False, fetch=fetch_of(DataMount("/d", url=url)))
    assert (await cluster.run(replace(cluster.plan(), mounts=(mount,)))).exit == 0
    words = [e.detail for e in cluster.of(PhaseBegun) if e.phase == "data"]
    others = "h2: fetching d with aws; waiting for another fetch of e"
    assert words == ["d", "h[1,3]: fetching d with curl", others, "is on all hosts"]


async def test_hosts_without_python_are_a_warning(cluster: Cluster) -> None:
    """What could not be proved is said, and the run goes on."""
    cluster.hosts[1].python = False
    assert (await cluster.run(cluster.plan())).exit == 0
    assert "no python3 on h2" in cluster.said()


async def test_a_check_that_never_answers_says_so(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A time-out has words, and the hosts that did not answer."""
    from distui.doctor import reach

    monkeypatch.setattr(reach, "SLACK", -7.9)
    cluster.hosts[1].hold("reach")
    ended = await cluster.run(cluster.plan())

    assert ended.exit == 3
    assert "h2: did not answer the reachability check within 0 s" in cluster.said()


async def test_without_preflight_nothing_is_tried(cluster: Cluster) -> None:
    """--no-preflight leaves the proof out."""
    assert (await cluster.run(cluster.plan(), preflight=False)).exit == 0
    assert not any("reach" in h.verbs() for h in cluster.hosts)


# rolling back


async def test_one_start_that_fails_undoes_all(cluster: Cluster) -> None:
    """Exit 5: the engine's words with the host; started containers and all env files are gone again."""
    for host in cluster.hosts:
        host.engine.exits.clear()
    words = "docker: Error response from daemon: could not select device driver"
    cluster.hosts[2].fails["run"] = refused("run", words, 125)
    ended = await cluster.run(cluster.plan())

    assert (ended.outcome, ended.exit, ended.leftovers) == ("launch_failed", 5, ())
    assert "can't start" in cluster.said()
    assert "h3" in cluster.said()
    assert "no NVIDIA runtime" in cluster.said()
    assert cluster.left() == []
    assert [h.open_sessions for h in cluster.hosts] == [0, 0, 0]


@pytest.mark.parametrize(
    ("ran", "sent"),
    [([True], 1), ([False], 2), ([False, True], 2), ([False, False, True], 3)],
    ids=["it ran", "it did not", "the second ran", "the third ran"],
)
async def test_a_start_whose_connection_breaks_is_looked_for_before_it_is_sent_again(
    cluster: Cluster, ran: list[bool], sent: int
) -> None:
    """Nobody heard whether `docker run` did anything: what is there is not started again, what is not there is."""
    host = cluster.hosts[1]
    broken = iter(ran)

    def breaks(argv: tuple[str, ...]) -> Completed:
        if (did := next(broken, None)) is None:
            return host.engine.run(argv)
        if did:
            assert host.engine.run(argv).ok
        raise SessionLost("h2", "h2: connection lost")

    host.fails["run"] = breaks
    ended = await cluster.run(cluster.plan())

    assert (ended.outcome, ended.exit, ended.leftovers) == ("succeeded", 0, ())
    assert host.verbs().count("run") == sent
    assert cluster.left() == []


async def test_a_first_start_that_comes_late_is_the_one(cluster: Cluster) -> None:
    """The broken line is still under way when the host is asked: the second is refused its name, the first counts."""
    host = cluster.hosts[1]
    late: list[tuple[str, ...]] = []

    def breaks(argv: tuple[str, ...]) -> Completed:
        if not late:
            late.append(argv)
            raise SessionLost("h2", "h2: connection lost")
        assert host.engine.run(late[0]).ok
        return host.engine.run(argv)

    host.fails["run"] = breaks
    ended = await cluster.run(cluster.plan())

    assert (ended.outcome, ended.exit) == ("succeeded", 0)
    assert cluster.left() == []


async def test_a_start_that_always_breaks_the_connection_is_given_up(cluster: Cluster) -> None:
    """Three times, then the launch is undone."""
    host = cluster.hosts[1]
    host.fails["run"] = SessionLost("h2", "h2: connection lost")
    ended = await cluster.run(cluster.plan())

    assert (ended.exit, ended.leftovers) == (5, ())
    assert host.verbs().count("run") == 3
    assert cluster.left() == []


async def test_a_full_disk_at_the_env_file(cluster: Cluster) -> None:
    """Exit 5 with the host's words; nothing was started, nothing is left."""
    words = "h2: can't write /home/u/env: No space left on device"
    cluster.hosts[1].fails["put"] = HostCommandError("h2", words, hint="look at the free space")
    ended = await cluster.run(cluster.plan())

    assert ended.exit == 5
    assert "No space left on device" in cluster.said()
    assert not any("run" in h.verbs() for h in cluster.hosts)
    assert cluster.left() == []


async def test_what_cannot_be_undone_is_named(cluster: Cluster) -> None:
    """A host that breaks away during the roll-back is named with what may be on it."""
    lost = SessionLost("h1", "h1: connection lost")
    cluster.hosts[2].fails["run"] = refused("run", "boom", 125)
    cluster.hosts[0].fails["rm"] = HostCommandError("h1", "h1: docker does not answer", code="command_timeout")
    ended = await cluster.run(cluster.plan())

    assert ended.exit == 5
    assert [left for left in ended.leftovers if "h1" in left and "docker does not answer" in left], lost


async def test_a_bug_at_one_start_waits_for_the_others(cluster: Cluster) -> None:
    """Starts under way on other hosts are finished before all is undone, so that nothing appears later."""
    for host in cluster.hosts:
        host.engine.exits.clear()
    reached = cluster.hosts[1].hold("run")
    cluster.hosts[0].fails["run"] = ZeroDivisionError("oops")

    async def later() -> None:
        await reached.wait()
        await until(lambda: "run" in cluster.hosts[0].verbs())
        cluster.hosts[1].gates["run"].set()

    with pytest.raises(ZeroDivisionError):
        await cluster.run(cluster.plan(), later())
    assert cluster.hosts[1].verbs().index("run") < cluster.hosts[1].verbs().index("rm")
    assert cluster.left() == []


async def test_leaving_in_the_middle_of_a_start_undoes_it(cluster: Cluster) -> None:
    """The controller's context is left while one `docker run` is under way: it is waited for and undone, and said."""
    for host in cluster.hosts:
        host.engine.exits.clear()
    reached = cluster.hosts[1].hold("run")
    controller = cluster.controller(cluster.plan())
    async with asyncio.timeout(60):
        async with controller:
            await reached.wait()
            controller.request_detach()  # no less is undone for that
            asyncio.get_running_loop().call_later(0.05, cluster.hosts[1].gates["run"].set)
    assert "run" in cluster.hosts[1].verbs()
    assert cluster.left() == []
    ended = controller.state.ended
    assert ended is not None and (ended.outcome, ended.leftovers) == ("stopped", ())
    assert controller.undone


async def test_leaving_before_the_first_step_of_a_start(cluster: Cluster) -> None:
    """Nothing has begun by then; it ends all the same, in words."""
    controller = cluster.controller(cluster.plan())
    async with asyncio.timeout(60), controller:
        pass
    assert controller.state.ended is not None and controller.state.ended.outcome == "stopped"
    assert controller.undone
    assert cluster.left() == []


async def test_what_a_start_that_is_left_leaves_is_said(cluster: Cluster) -> None:
    """A host that can't remove its part is named in the end, for whoever asks for that."""
    reached = cluster.hosts[1].hold("run")
    cluster.hosts[0].fails["rm"] = HostCommandError("h1", "h1: docker does not answer", code="command_timeout")
    controller = cluster.controller(cluster.plan())
    async with asyncio.timeout(60), controller:
        await reached.wait()
        cluster.hosts[1].gates["run"].set()
    ended = controller.state.ended
    assert ended is not None and [words for words in ended.leftovers if "h1" in words and "does not answer" in words]


async def test_who_is_cancelled_again_and_again_while_a_start_is_left(cluster: Cluster) -> None:
    """As a group of tasks under a time limit does it: all is undone first, then who left is as cancelled as before."""
    for host in cluster.hosts:
        host.engine.exits.clear()
    starting, removing = cluster.hosts[1].hold("run"), cluster.hosts[1].hold("rm")
    run = Run(cluster.controller(cluster.plan()))

    async def follow() -> None:
        async with run:
            await run.wait()

    async with asyncio.timeout(60):
        following = asyncio.create_task(follow())
        await starting.wait()
        following.cancel()
        cluster.hosts[1].gates["run"].set()
        await removing.wait()
        for _ in range(3):
            following.cancel()
            await asyncio.sleep(0)
        cluster.hosts[1].gates["rm"].set()
        await asyncio.wait((following,))
    assert following.cancelled()
    assert cluster.left() == []
    assert run.result is not None and (run.result.outcome, run.result.leftovers) == ("stopped", ())
    assert [h.open_sessions for h in cluster.hosts] == [0, 0, 0]


async def test_a_cancel_while_events_are_closed_skips_no_exit(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ends a run's reader may be cut off; the run is let go of all the same."""
    reached = cluster.hosts[1].hold("run")
    controller = cluster.controller(cluster.plan())

    async def cut_off(events: RunEvents) -> None:
        cluster.hosts[1].gates["run"].set()
        raise asyncio.CancelledError

    monkeypatch.setattr(RunEvents, "close", cut_off)
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(60), Run(controller):
            await reached.wait()
    assert cluster.left() == []
    assert not controller.stored.is_followed


async def test_a_host_that_was_restarted_since_it_was_probed_is_refused(cluster: Cluster) -> None:
    """Its GPUs, mounts and addresses may not be what the plan takes them for; nothing is started anywhere."""
    for host in cluster.hosts[1:]:
        host.files["/proc/sys/kernel/random/boot_id"] = b"b2\n"
    facts = {name: facts_of(name, 11 + n, boot_id="b1") for n, name in enumerate(cluster.names)}
    ended = await cluster.run(cluster.plan(facts=facts))

    assert (ended.outcome, ended.exit, ended.leftovers) == ("launch_failed", 3, ())
    assert "h[2-3]: it was restarted since it was probed" in cluster.said()
    assert not any("run" in h.verbs() for h in cluster.hosts)


# two launches with one name


def claimed(cluster: Cluster, host: int, owner: str = "bob@desk") -> str:
    """Another launch has the run's folder on a host; returns the folder."""
    folder = cluster.plan().tasks[host].run_dir
    cluster.hosts[host].files[f"{folder}/launch"] = Claim(owner, 0.0).text.encode()
    return folder


async def test_a_name_that_is_being_started_is_refused(cluster: Cluster) -> None:
    """Exit 3 and who it is; folders taken on other hosts are released, the other's is left alone."""
    folder = claimed(cluster, 1)
    ended = await cluster.run(cluster.plan())

    assert (ended.outcome, ended.exit, ended.leftovers) == ("launch_failed", 3, ())
    assert "h2: a run named r1 is being started or is there already" in cluster.said()
    assert "of bob@desk since 1970-01-01 00:00:00 UTC" in cluster.said()
    assert cluster.left() == [f"h2: {folder}/launch"]
    assert not any(touched(h) for h in cluster.hosts)


@pytest.mark.parametrize("whole", [True, False], ids=["ours", "another launch's"])
async def test_a_rendezvous_file_goes_with_the_launch_that_made_it(cluster: Cluster, whole: bool) -> None:
    """Undone on all hosts it is removed; where a host is held by another launch of that name it is that one's."""
    path = "/mnt/shared/rendezvous-r1"
    plan = replace(cluster.plan(), rendezvous_host_path=path)
    cluster.hosts[0].files[path] = b""
    if whole:
        cluster.hosts[2].fails["run"] = refused("run", "docker: no", 125)
    else:
        claimed(cluster, 1)
    await cluster.run(plan)

    assert (path in cluster.hosts[0].files) is not whole


async def test_a_launch_that_was_killed_does_not_hold_its_name(cluster: Cluster) -> None:
    """Its folder is minutes old and no task is there: it is taken over."""
    cluster.hosts[1].stale.add(claimed(cluster, 1))
    assert (await cluster.run(cluster.plan())).exit == 0
    assert cluster.left() == []


async def test_an_old_folder_with_tasks_is_not_taken_over(cluster: Cluster) -> None:
    """Tasks of the other launch that appear after the look at names still hold the name."""
    host, task = cluster.hosts[0], cluster.plan().tasks[0]
    host.stale.add(claimed(cluster, 0))
    host.engine.exits.clear()
    reached = host.hold("take")

    async def appear() -> None:
        await reached.wait()
        host.files[task.env_file] = b""
        assert host.engine.run(task.start).ok
        host.gates["take"].set()

    ended = await cluster.run(cluster.plan(), appear())
    assert ended.exit == 3
    assert [c.status for c in host.containers] == ["running"]


async def test_two_at_once(cluster: Cluster) -> None:
    """Both see the name free: the second is refused and takes nothing of the first along, which runs to its end."""
    rival = Cluster(cluster.store.root / "rival", 3)
    rival.hosts, rival.connector = cluster.hosts, cluster.connector
    reached = cluster.hosts[0].hold("put")

    async def second() -> None:
        await reached.wait()
        try:
            refused_one = await rival.run(cluster.plan())
        finally:
            cluster.hosts[0].gates["put"].set()
        assert refused_one.exit == 3
        assert "of ann@desk since" in rival.said()
        assert not any("rm" in h.verbs() or "folder" in h.verbs() for h in cluster.hosts)

    assert (await cluster.run(cluster.plan(), second())).exit == 0
    assert cluster.left() == []


async def test_a_container_of_another_launch_is_never_removed(cluster: Cluster) -> None:
    """Two people with one engine and homes of their own: the engine refuses the name, the roll-back spares theirs."""
    host, task = cluster.hosts[1], cluster.plan().tasks[1]
    for other in cluster.hosts:
        other.engine.exits.clear()
    reached = host.hold("run")

    async def appear() -> None:
        await reached.wait()
        host.files[task.env_file] = b""
        assert host.engine.run(task.start).ok
        host.containers[0].labels["distui.owner"] = "bob@desk"
        host.gates["run"].set()

    ended = await cluster.run(cluster.plan(), appear())
    assert (ended.exit, ended.leftovers) == (5, ())
    assert [c.status for c in host.containers] == ["running"]
    assert cluster.left() == ["h2: distui-r1-1"]


async def test_the_engine_s_own_words_are_not_its_advice(cluster: Cluster) -> None:
    """docker ends what it says with where its flags are described."""
    words = "docker: Error response from daemon: bad thing.\nSee 'docker run --help'."
    cluster.hosts[2].fails["run"] = refused("run", words, 125)
    await cluster.run(cluster.plan())
    assert "bad thing" in cluster.said()
    assert "--help" not in cluster.said()


# stopping meanwhile


async def test_a_stop_before_the_start(cluster: Cluster) -> None:
    """Ctrl-C while the image is pulled: 130, no container was ever made."""
    for host in cluster.hosts:
        host.engine.registry = dict(host.engine.images)
    reached = cluster.hosts[1].hold("pull")
    controller = cluster.controller(cluster.plan(pull="always"))

    async def stop() -> None:
        await reached.wait()
        controller.request_stop("user")

    ended = await cluster.drive(controller, stop())
    assert (ended.outcome, ended.exit) == ("stopped", 130)
    assert "before anything was started" in cluster.said()
    assert all(touched(h) == set() for h in cluster.hosts)


async def test_a_stop_while_starting(cluster: Cluster) -> None:
    """Ctrl-C between two starts: what was begun is finished, then undone; 130 and nothing is left."""
    for host in cluster.hosts:
        host.engine.exits.clear()
    reached = cluster.hosts[1].hold("run")
    controller = cluster.controller(cluster.plan())

    async def stop() -> None:
        await reached.wait()
        await cluster.hosts[0].engine.born.wait()
        controller.request_stop("user")
        cluster.hosts[1].gates["run"].set()

    ended = await cluster.drive(controller, stop())
    assert (ended.outcome, ended.exit, ended.leftovers) == ("stopped", 130, ())
    assert cluster.left() == []
    assert cluster.of(StopAsked) == []


async def test_a_stop_says_whose_start_it_waits_for(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that hangs over `docker run` keeps a stop for two minutes; who waits knows for whom. Ranks of the other
    hosts are stopped meanwhile.
    """
    monkeypatch.setattr(launch_module, "HELD_UP_SECONDS", 0.02)
    for host in cluster.hosts:
        host.engine.exits.clear()
    reached = cluster.hosts[1].hold("run")
    controller = cluster.controller(cluster.plan())

    async def stop() -> None:
        await reached.wait()
        await asyncio.gather(*(cluster.hosts[i].engine.born.wait() for i in (0, 2)))
        controller.request_stop("user")
        while any(c.status == "running" for i in (0, 2) for c in cluster.hosts[i].containers):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        cluster.hosts[1].gates["run"].set()

    async with asyncio.timeout(20):
        ended = await cluster.drive(controller, stop())
    assert (ended.outcome, ended.exit, ended.leftovers) == ("stopped", 130, ())
    assert "h2: its engine has not answered a start that has begun" in cluster.said()


async def test_a_stop_that_waits_for_every_host_speaks_of_no_others(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch_module, "HELD_UP_SECONDS", 0.02)
    reached = [host.hold("run") for host in cluster.hosts]
    controller = cluster.controller(cluster.plan())

    async def stop() -> None:
        await asyncio.gather(*(one.wait() for one in reached))
        controller.request_stop("user")
        while "a start that has begun" not in cluster.said():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        for host in cluster.hosts:
            host.gates["run"].set()

    async with asyncio.timeout(20):
        await cluster.drive(controller, stop())
    assert "other hosts" not in cluster.said()


async def test_who_waits_no_longer_until_a_start_is_undone(cluster: Cluster) -> None:
    """The third Ctrl-C, while an engine hangs in the clean-up: at once, and it is said where something may be left."""
    for host in cluster.hosts:
        host.engine.exits.clear()
    reached, removing = cluster.hosts[1].hold("run"), cluster.hosts[1].hold("rm")
    controller = cluster.controller(cluster.plan())

    async def leave() -> None:
        await reached.wait()
        controller.request_stop("user")
        controller.request_stop("user", grace=0)
        cluster.hosts[1].gates["run"].set()
        await removing.wait()
        controller.request_detach()

    ended = await cluster.drive(controller, leave())
    assert (ended.outcome, ended.exit) == ("stopped", 130)
    assert [words.partition(":")[0] for words in ended.leftovers] == ["h1", "h2", "h3"]
    assert cluster.hosts[1].containers and not cluster.hosts[1].gates["rm"].is_set()


async def test_a_stop_that_another_distui_here_asks_for(cluster: Cluster) -> None:
    """`distui stop` beside a launch that has nothing on its hosts yet: it ends with 143."""
    reached = cluster.hosts[1].hold("image")
    controller = cluster.controller(cluster.plan())

    async def stop() -> None:
        await reached.wait()
        controller.stored.ask_stop()

    ended = await cluster.drive(controller, stop())
    assert (ended.outcome, ended.exit, ended.leftovers) == ("stopped", 143, ())
    assert "before anything was started" in cluster.said()
    assert cluster.left() == []


@pytest.mark.parametrize("begun", [False, True])
async def test_a_stop_from_elsewhere_takes_the_folder_away(cluster: Cluster, begun: bool) -> None:
    """Whether its tasks then fail for want of an env file or start all the same: it is told, and undoes itself."""
    for host in cluster.hosts:
        host.engine.exits.clear()
    h1, h2 = cluster.hosts[:2]
    if not begun:
        h2.fails["run"] = lambda argv: refused("run", "docker: open env-1: no such file or directory.")
    reached = h2.hold("run")

    async def sweep() -> None:
        await reached.wait()
        await h1.engine.born.wait()
        for path in [path for path in h2.files if not begun or path.endswith("/launch")]:
            del h2.files[path]  # the env file first, or only whose the folder is
        h2.gates["run"].set()

    ended = await cluster.run(cluster.plan(), sweep())
    assert (ended.outcome, ended.exit, ended.leftovers) == ("stopped", 143, ())
    assert cluster.said() == "stopped from elsewhere while starting"
    assert cluster.left() == []


@pytest.mark.parametrize("stopped", [False, True])
async def test_ports_are_not_changed_over_what_could_not_be_undone(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, stopped: bool
) -> None:
    """What is left has the run's name: it is told, and not taken for another run. A stop at that moment is a stop."""
    plan = cluster.plan()
    tried: list[RunPlan] = []

    async def refuse(attempt: Attempt, options: LaunchOptions) -> None:
        tried.append(attempt.plan)
        if stopped:
            attempt.run.requests.ask_stop("user")
        refusal = PortsTaken([])
        refusal.leftovers = ("h1: a folder",)
        raise refusal

    async def again(*_: object) -> NextAttempt:
        return NextAttempt(plan, {})

    monkeypatch.setattr(controller_module, "launch", refuse)
    ended = await cluster.run(plan, planner=again)
    assert (ended.outcome, ended.leftovers) == ("stopped" if stopped else "launch_failed", ("h1: a folder",))
    assert tried == [plan]


async def test_a_terminal_closed_before_the_start(cluster: Cluster) -> None:
    """The run goes on, as after the start: it is launched to its end and left alone."""
    reached = cluster.hosts[1].hold("image")
    controller = cluster.controller(cluster.plan())

    async def leave() -> None:
        await reached.wait()
        controller.request_detach()
        cluster.hosts[1].gates["image"].set()

    for host in cluster.hosts:
        host.engine.exits.clear()
    ended = await cluster.drive(controller, leave())
    assert (ended.outcome, ended.exit) == ("detached", 0)
    assert [c.status for h in cluster.hosts for c in h.containers] == ["running"] * 3


async def test_detach_returns_once_all_have_started(cluster: Cluster) -> None:
    """--detach: exit 0, containers run on, env files are gone, no follower was begun."""
    for host in cluster.hosts:
        host.engine.exits.clear()
    ended = await cluster.run(cluster.plan(), detach=True)

    assert (ended.outcome, ended.exit) == ("detached", 0)
    assert [c.status for h in cluster.hosts for c in h.containers] == ["running"] * 3
    assert {Path(f).name for h in cluster.hosts for f in h.files} == {"launched"}, "env files are gone"
    states = [e.state for e in cluster.of(RankChanged)]
    assert sorted(states) == ["running"] * 3 + ["starting"] * 3


# secrets


async def test_a_secret_is_in_the_env_file_and_nowhere_else(cluster: Cluster) -> None:
    """Its value reaches the container; no event, argv, stored file or left file has it; the env file was 0600."""
    plan = cluster.plan(secrets=("HF_TOKEN",))
    seen: list[dict[str, str]] = []

    def start(argv: tuple[str, ...]) -> Completed:
        done = cluster.hosts[0].engine.run(argv)
        seen.append(cluster.hosts[0].containers[-1].env)
        return done

    cluster.hosts[0].fails["run"] = start
    assert (await cluster.run(plan, secrets={"HF_TOKEN": "hunter2"})).exit == 0

    assert seen[0]["HF_TOKEN"] == "hunter2"
    assert {mode for h in cluster.hosts for _, _, mode in h.puts} == {0o600}
    output = [repr(cluster.events), *(repr(h.ran) for h in cluster.hosts), repr(plan)]
    output += [p.read_text() for p in cluster.store.root.rglob("*") if p.is_file()]
    assert not [text for text in output if "hunter2" in text]
    assert cluster.left() == []


@pytest.mark.parametrize(
    ("error", "said"),
    [(errno.ENOSYS, "lock can't be locked: Function"), (errno.ENOSPC, "r1: No space left on dev")],
)
async def test_a_run_that_cannot_be_locked_here_was_not_started(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, error: int, said: str
) -> None:
    """On a file system without locks, or on a full one: as any start that is refused."""

    def refuse(*_: object) -> int:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(*(fcntl, "flock", refuse) if error == errno.ENOSYS else (runs, "open_fd", refuse))
    ended = await cluster.run(cluster.plan())

    assert ended.outcome == "launch_failed"
    assert said in cluster.said()
    assert cluster.left() == []


async def test_a_secret_that_is_not_set(cluster: Cluster) -> None:
    """A missing secret is named, never started without."""
    ended = await cluster.run(cluster.plan(secrets=("HF_TOKEN",)), secrets={})

    assert ended.outcome == "launch_failed"
    assert "secret HF_TOKEN is not set" in cluster.said()
    assert not any("run" in h.verbs() for h in cluster.hosts)
    assert cluster.left() == []


async def test_a_host_that_was_waited_for_as_a_start_is_undone_is_not_waited_for_twice(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while its sshd hangs: it took 20 seconds to stop what may be there, and as long again to remove it."""
    controller = cluster.controller(cluster.plan())
    gone, refuses = controller.attempt.hosts["h1"], controller.attempt.hosts["h2"]

    async def lost() -> None:
        raise SessionLost("h1", "it no longer answers")

    async def refused() -> None:
        raise HostCommandError("h2", "docker: no")

    monkeypatch.setattr(gone, "found", lost)
    monkeypatch.setattr(refuses, "found", refused)
    await cleanup.kill_found(gone)
    with pytest.raises(HostCommandError):
        await cleanup.kill_found(refuses)
    assert (gone.reconnect_timeout, refuses.reconnect_timeout > 0) == (0.0, True)
