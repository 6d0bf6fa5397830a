"""`exec` and `ssh`: which container is meant, and what the terminal is handed to."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from distui import homes
from distui.cli import console as consoles
from distui.cli import wiring
from distui.cli.actions import exec as exec_verb
from distui.cli.actions.ssh import become
from distui.cli.runs import execs
from distui.cli.runs.execs import END, VARIABLE
from distui.cluster.attach import places
from distui.cluster.attach.places import RunLocation
from distui.cluster.backend.backend_hosts import ssh_login
from distui.cluster.hosts.selection import host_named
from distui.errors import ContactLost, DistuiError, NotFound, UsageError
from distui.facts.host import Trouble
from distui.plan.labels import TaskLabels
from distui.runs.hosts.discover import FoundRun, FoundTask
from distui.spec.hosts.inventory import Host, Inventory
from fakehosts.runs import plan_for, until


def task(index: int, ranks: tuple[int, ...], *, running: bool = True, engine: str = "docker") -> FoundTask:
    """One task as its host tells it."""
    labels = TaskLabels("r1", index, ranks, f"h{index + 1}", "j", engine=engine)
    return FoundTask(f"h{index + 1}", f"id{index}", labels, {}, running, "running" if running else "exited")


def test_a_rank_s_container() -> None:
    """With torchrun several ranks share one; a run of one container needs no rank."""
    found = FoundRun("r1", (task(0, (0, 1)), task(1, (2, 3))))
    assert [exec_verb._task(found, rank, {}).id for rank in (0, 1, 2, 3)] == ["id0", "id0", "id1", "id1"]
    assert exec_verb._task(FoundRun("r1", (task(0, (0, 1)),)), None, {}).id == "id0"


@pytest.mark.parametrize(
    ("tasks", "rank", "kind", "words"),
    [
        ((task(0, (0,)), task(1, (1,))), 2, NotFound, "has no rank 2 on its hosts (ranks there: 0-1)"),
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
        exec_verb._task(FoundRun("r1", tasks), rank, {})
    assert words in caught.value.message


def test_a_rank_that_may_be_on_a_host_that_does_not_answer() -> None:
    """Contact is lost, which is not that there is no such rank: with the hosts, and why."""
    silent = {"h2": Trouble("command_timeout", "h2: docker did not finish within 15 s", "")}
    with pytest.raises(ContactLost) as caught:
        exec_verb._task(FoundRun("r1", (task(0, (0,)),)), 1, silent)
    assert caught.value.message.splitlines() == [
        "rank 1 of r1 is on no host that answers (ranks there: 0); not reached:",
        "  h2: docker did not finish within 15 s",
    ]
    assert exec_verb._task(FoundRun("r1", (task(0, (0,)),)), 0, silent).id == "id0"


@pytest.mark.parametrize(
    ("first", "asks"),
    [("runs", [("h2",)]), ("has ended", [("h2",), ("h1", "h2")]), ("hangs", [("h2",), ("h1",)])],
)
async def test_the_host_of_a_rank_is_asked_before_the_others(
    monkeypatch: pytest.MonkeyPatch, first: str, asks: list[tuple[str, ...]]
) -> None:
    """Where the plan is recorded here: a docker that hangs elsewhere took 15 seconds.

    All are, where the rank is not there; one that did not answer is not asked again.
    """
    asked: list[tuple[str, ...]] = []

    @asynccontextmanager
    async def connected(*_: object) -> AsyncIterator[Any]:
        yield None

    async def find(_: object, place: RunLocation, *enough: object) -> Any:
        asked.append(tuple(host.name for host in place.hosts))
        if asked[-1] == ("h2",) and first == "hangs":
            return None, {"h2": Trouble("command_timeout", "h2: docker did not finish within 15 s", "")}
        there = [task(0, (0,)), task(1, (1,), running=first == "runs")]
        return FoundRun("r1", tuple(t for t in there if t.host in asked[-1])), {}

    monkeypatch.setattr(wiring, "connected", connected)
    monkeypatch.setattr(places, "find", find)
    monkeypatch.setattr(places, "find_again", find)
    monkeypatch.setattr(exec_verb, "stored_plan", lambda _: plan_for("h1", "h2"))
    place = RunLocation("r1", SimpleNamespace(), (Host("h1"), Host("h2")))  # type: ignore[arg-type]
    ends: dict[str, Any] = {
        "runs": contextlib.nullcontext(),
        "has ended": pytest.raises(UsageError, match="does not run any more"),
        "hangs": pytest.raises(ContactLost, match=r"(?s)rank 1 of r1 is on no host that answers.*did not finish"),
    }
    with ends[first]:
        host, found = await exec_verb._find(SimpleNamespace(cluster=None), place, 1)  # type: ignore[arg-type]
        assert (host.name, found.id) == ("h2", "id1")
    assert asked == asks


def test_ssh_gets_what_hosts_yaml_adds() -> None:
    """A command gets a terminal only where there is one."""
    host = Host("gw1", addr="10.0.0.1", user="ann", port=2222)
    options = ("-p", "2222", "-l", "ann", "-o", "HostName=10.0.0.1", "--", "gw1")
    assert ssh_login(host, tty=True) == ("ssh", *options)
    assert ssh_login(host, ("ls", "a b"), tty=True) == ("ssh", "-t", *options, "ls 'a b'")
    assert ssh_login(host, ("ls", "a b"), tty=False) == ("ssh", *options, "ls 'a b'")


def test_ssh_goes_where_distui_goes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenSSH takes the home of the login, whatever HOME says: where that is another it is named the config, the host
    keys, which it asked about, the keys, and what an Include beside the config says of the host.
    """
    folder = home / ".ssh"
    folder.mkdir(exist_ok=True)
    (folder / "config").write_text("Include more\nHost gw1\n  HostName 10.0.0.1\n")
    (folder / "more").write_text("Host gw1\n  User ann\n")
    (folder / "id_ed25519").write_text("a key")
    kept = f'UserKnownHostsFile="{folder}/known_hosts"'
    options = ("-F", f"{folder}/config", "-o", kept, "-i", f"{folder}/id_ed25519", "-p", "22", "-l", "ann")
    assert ssh_login(Host("gw1")) == ("ssh", *options, "-o", "HostName=10.0.0.1", "--", "gw1")
    (folder / "config").write_text("Host gw1\n  UserKnownHostsFile /k/h\n")
    assert 'UserKnownHostsFile="/k/h"' in ssh_login(Host("gw1"))
    (home / "keys").mkdir()
    for name in ("keys/mine", "keys/hosts", ".ssh/known_hosts2"):
        (home / name).write_text("kept")
    (folder / "config").write_text("IdentityFile ~/keys/mine\nUserKnownHostsFile /k/h ~/none ~/keys/hosts\n")
    options = ssh_login(Host("gw1"))
    assert f'UserKnownHostsFile="/k/h" "{home}/keys/hosts"' in options, "all that there are, and where one is kept"
    assert options[options.index("-i") + 1] == f"{home}/keys/mine"
    (home / "keys/my cert.pub").write_text("kept")
    (folder / "config").write_text('CertificateFile "~/keys/my cert.pub"\nCertificateFile ~/keys/none.pub\n')
    options = ssh_login(Host("gw1"))
    assert [word for word in options if "Certificate" in word] == [f'CertificateFile="{home}/keys/my cert.pub"']
    long = f"~/{'k' * 300}"
    looked_at = "".join(f"{key} {long}\n" for key in ("IdentityFile", "CertificateFile"))
    (folder / "config").write_text(f"{looked_at}UserKnownHostsFile /k/h {long}\n")
    assert not [word for word in ssh_login(Host("gw1")) if "kkk" in word], "what can't be looked at is not there"
    (folder / "config").write_text("Host\n")
    assert ssh_login(Host("gw1")) == ("ssh", "-F", f"{folder}/config", "--", "gw1"), "ssh says what is wrong there"
    written = ("-p", "2222", "-l", "ann", "-o", "HostName=10.0.0.9")
    options = ssh_login(Host("gw1", addr="10.0.0.9", user="ann", port=2222))
    assert options == ("ssh", "-F", f"{folder}/config", *written, "--", "gw1"), "it still goes to no other machine"
    (folder / "config").unlink()
    monkeypatch.setenv("LOGNAME", "ann")
    login = home / "login"
    (login / ".ssh").mkdir(parents=True)
    (login / ".ssh" / "config").write_text("Host gw1\n  ProxyJump far\n")
    monkeypatch.setattr(homes.pwd, "getpwuid", lambda _: SimpleNamespace(pw_dir=str(login)))
    monkeypatch.setattr(homes, "SSH_CONFIG", home / "none")
    assert ssh_login(Host("gw1"))[:3] == ("ssh", "-F", "none"), "distui does not read that of the login"
    monkeypatch.setattr(homes, "SSH_CONFIG", folder)
    assert ssh_login(Host("gw1"))[:3] == ("ssh", "-F", str(folder)), "that of the machine it reads"
    own = SimpleNamespace(pw_dir=str(home))
    monkeypatch.setattr(homes.pwd, "getpwuid", lambda _: own)
    assert ssh_login(Host("gw1")) == ("ssh", "--", "gw1")


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


def test_a_marked_command_and_all_that_it_started_is_ended() -> None:
    """By SIGTERM, by SIGKILL where that is not heeded; what has another mark, or none, goes on."""
    ours, other = (f"{VARIABLE}={os.getpid():07x}{end}" for end in "ab")
    heeds = "trap 'echo heard; exit 9' TERM; sleep 100 & echo begun; wait"
    stubborn = "trap '' TERM; sleep 100 & echo begun; wait; wait"
    programs = [
        subprocess.Popen(("env", mark, "sh", "-c", script), stdout=subprocess.PIPE, text=True)
        for mark, script in ((ours, heeds), (ours, stubborn), (other, "echo begun; exec sleep 100"))
    ]
    try:
        for program in programs:
            assert program.stdout is not None
            assert program.stdout.readline() == "begun\n"
        argv = ("sh", "-c", END, "distui-end", ours)
        done = subprocess.run(argv, capture_output=True, timeout=300, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        assert [programs[0].wait(60), programs[1].wait(60), programs[2].poll()] == [9, -9, None]
        assert subprocess.run(argv, timeout=300, check=False).returncode == 0  # nothing is there any more
    finally:
        for program in programs:
            program.kill()
            program.communicate()


class Talking:
    """A session whose command never ends; `asked` are the commands run beside it."""

    host = "h1"

    def __init__(self, *, shell: bool = True) -> None:
        self.started: tuple[str, ...] = ()
        self.asked: list[tuple[str, ...]] = []
        self.shell = shell

    async def open(self, argv: tuple[str, ...], **_: object) -> Talking:
        self.started = argv
        return self

    async def read(self, _: int) -> bytes:
        return b"more\n"

    async def write_eof(self) -> None:
        return

    async def run(self, argv: tuple[str, ...], **_: object) -> Any:
        self.asked.append(argv)
        return SimpleNamespace(ok=self.shell)

    async def close(self) -> None:
        return


@pytest.mark.parametrize("shell", [True, False])
async def test_a_command_ends_when_nobody_reads_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], shell: bool
) -> None:
    """`| head`: it went on in its container. Where it can't be ended, that is said."""
    session = Talking(shell=shell)

    @asynccontextmanager
    async def connected(*_: object) -> AsyncIterator[Any]:
        yield SimpleNamespace(connect=lambda _: made())

    async def made() -> Talking:
        return session

    async def find(*_: object) -> tuple[Host, FoundTask]:
        return Host("h1"), task(0, (0,))

    monkeypatch.setattr(wiring, "connected", connected)
    monkeypatch.setattr(exec_verb, "_find", find)
    monkeypatch.setattr(exec_verb, "_stdin", lambda: None)
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stdout, pytest.raises(BrokenPipeError):
        monkeypatch.setattr(sys, "stdout", stdout)
        await exec_verb._exec(Told(), consoles.of(Told()), SimpleNamespace(hosts=[]), 0, ("yes",))  # type: ignore[arg-type]
    mark = session.started[4]
    assert session.started == ("docker", "exec", "-i", "-e", mark, "id0", "yes")
    assert session.asked[:2] == [("docker", "exec", "id0", "sh", "-c", END, "distui-end", mark), ("true",)]
    assert ("may still run in the container on h1" in capfd.readouterr().err) == (not shell)


class Slow(Talking):
    """A host that takes its time to end a command, or answers nothing at all."""

    def __init__(self, *, up: bool) -> None:
        super().__init__()
        self.up = up

    async def run(self, argv: tuple[str, ...], **_: object) -> Any:
        self.asked.append(argv)
        await asyncio.sleep((0.0 if argv == ("true",) else 1.0) if self.up else 600.0)
        return SimpleNamespace(ok=True)


@pytest.mark.parametrize("up", [True, False])
async def test_a_command_is_waited_for_only_where_its_host_answers(monkeypatch: pytest.MonkeyPatch, up: bool) -> None:
    """A network that was cut: Ctrl-C took as long as ssh takes to notice."""
    monkeypatch.setattr(execs, "ANSWER_SECONDS", 0.2)
    session: Any = Slow(up=up)
    marked = execs.Marked(("docker",), "id0", ("yes",))
    assert await asyncio.wait_for(marked.end(session), 15) is up


class Hung(Talking):
    """A host that answers, and whose engine does not."""

    async def run(self, argv: tuple[str, ...], **_: object) -> Any:
        self.asked.append(argv)
        await asyncio.sleep(0.0 if argv == ("true",) else 600.0)
        return SimpleNamespace(ok=True)


async def test_an_engine_that_hangs_is_soon_waited_for_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C took 20 seconds."""
    monkeypatch.setattr(execs, "ENGINE_SECONDS", 0.2)
    session: Any = Hung()
    assert not await asyncio.wait_for(execs.Marked(("docker",), "id0", ("yes",)).end(session), 15)
    assert session.asked[-1][:2] == ("docker", "version")


async def test_a_second_ctrl_c_says_that_the_command_may_still_run(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The first one waits for the engine to end it, the second no longer."""
    session: Any = Hung()

    @asynccontextmanager
    async def connected(*_: object) -> AsyncIterator[Any]:
        async def connect(host: str) -> Any:
            return session

        yield SimpleNamespace(connect=connect)

    async def find(*_: object) -> tuple[Host, FoundTask]:
        return Host("h1"), task(0, (0,))

    async def interrupted(*_: object, **__: object) -> int:
        raise asyncio.CancelledError

    monkeypatch.setattr(wiring, "connected", connected)
    monkeypatch.setattr(exec_verb, "_find", find)
    monkeypatch.setattr(exec_verb, "_stdin", lambda: None)
    monkeypatch.setattr(exec_verb, "pass_through", interrupted)
    place: Any = SimpleNamespace(hosts=[])
    running = asyncio.create_task(exec_verb._exec(Told(), consoles.of(Told()), place, 0, ("yes",)))  # type: ignore[arg-type]
    await until(lambda: bool(session.asked))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert "may still run in the container on h1" in capfd.readouterr().err


class Told(dict[str, str]):
    """Settings without any file."""

    def __init__(self) -> None:
        super().__init__(color="never")
        self.environ: dict[str, str] = {}
        self.quiet, self.output = False, "table"
