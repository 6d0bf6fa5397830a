"""What a session promises, against real commands on a demo host and against hosts that misbehave."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from distui.errors import HostCommandError, SessionLost
from distui.remote.pipes import CommandPipe
from distui.remote.session import SshSession
from distui.runs.hosts.reuse import ReusingConnector
from fakehosts.runs import until

exists = os.path.exists
SHELLS = [shell for name in ("bash", "dash", "zsh", "fish", "tcsh", "csh", "mksh") if (shell := shutil.which(name))]


@pytest.mark.parametrize("shell", SHELLS)
async def test_commands_run_alike_under_every_login_shell(farm: Any, shell: str) -> None:
    """argv, stdin, status and both outputs are right whatever the login shell is."""
    demo = await farm.demo(env={"SHELL": shell})
    session = await demo.connector().connect("demo1")
    script = 'printf "%s|" "$@"; cat; echo oops >&2; exit 3'
    done = await session.run(["sh", "-c", script, "sh", "it's", "$HOME", "!!", "a\nb"], input=b"\0in\xff")
    await session.close()
    assert (done.stdout, done.stderr, done.status) == (b"it's|$HOME|!!|a\nb|\0in\xff", b"oops\n", 3)


async def test_what_bashrc_prints_is_not_part_of_the_answer(farm: Any) -> None:
    """Noise on both outputs, without a newline at its end, is dropped."""
    bash = shutil.which("bash") or "/bin/bash"
    demo = await farm.demo(env={"SHELL": bash, "BASH_ENV": str(farm.home / "rc")})
    (farm.home / "rc").write_text("[ -n \"$SEEN\" ] || { export SEEN=1; printf 'Welcome!'; printf 'warning' >&2; }\n")
    session = await demo.connector().connect("demo1")
    done = await session.run(["sh", "-c", "echo out; echo err >&2"])
    await session.close()
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")


async def test_scripts_run_in_sh(farm: Any) -> None:
    """run_script takes here-documents, and its exit status is the answer's."""
    demo = await farm.demo()
    session = await demo.connector().connect("demo1")
    done = await session.run_script("cat <<E\n$((40+2))\nE\nexit 9")
    await session.close()
    assert (done.stdout, done.status) == (b"42\n", 9)


async def test_a_signal_is_told_as_128_and_its_number(farm: Any) -> None:
    """As shells say it; an unknown program is 127."""
    demo = await farm.demo()
    session = await demo.connector().connect("demo1")
    killed = await session.run(["sh", "-c", "kill -KILL $$"])
    missing = await session.run(["no-such-program"])
    await session.close()
    assert (killed.status, missing.status) == (137, 127)
    assert "no-such-program" in missing.error_text


async def test_a_flood_on_stderr_does_not_stall_stdout(farm: Any) -> None:
    """Both outputs share a window; stderr is read all the time, and only its end is kept beyond the limit."""
    demo = await farm.demo()
    session = await demo.connector().connect("demo1")
    script = "head -c 6000000 /dev/zero >&2; printf tail >&2; echo done"
    done = await session.run(["sh", "-c", script], limit=1 << 20)
    await session.close()
    assert (done.stdout, len(done.stderr), done.truncated) == (b"done\n", 1 << 20, True)
    assert done.stderr.endswith(b"tail")


async def test_more_output_than_the_limit_ends_the_command(farm: Any) -> None:
    """An endless answer is cut, said to be cut, and its command is gone from the host."""
    demo = await farm.demo()
    session = await demo.connector().connect("demo1")
    done = await session.run(["sh", "-c", "echo $$ >pid; exec yes"], limit=100_000)
    pid = int((farm.home / "demos" / "demo1" / "pid").read_text())
    await session.close()
    assert (len(done.stdout), done.truncated) == (100_000, True)
    assert not exists(f"/proc/{pid}")


async def test_a_command_that_takes_too_long_is_ended_on_the_host(farm: Any) -> None:
    """The error says which command and how long; the process does not stay behind."""
    demo = await farm.demo()
    session = await demo.connector().connect("demo1")
    with pytest.raises(HostCommandError, match="sh did not finish within 5 s") as caught:
        await session.run(["sh", "-c", "trap '' TERM; echo $$ >pid; while :; do sleep 0.1; done"], timeout=5)
    pid = int((farm.home / "demos" / "demo1" / "pid").read_text())
    await session.run(["sh", "-c", f"while [ -d /proc/{pid} ]; do sleep 0.05; done"])
    await session.close()
    assert caught.value.code == "command_timeout"


async def test_input_and_output_larger_than_every_buffer(farm: Any) -> None:
    """A command may answer while it still reads."""
    demo = await farm.demo()
    session = await demo.connector().connect("demo1")
    data = bytes(range(256)) * 20_000
    done = await session.run(["cat"], input=data)
    await session.close()
    assert done.stdout == data


async def test_a_command_that_no_process_can_be_given_is_named_in_few_words(farm: Any) -> None:
    """Words may come from a host: the message has the first of them, not all."""
    demo = await farm.demo()
    session = await demo.connector().connect("demo1")
    with pytest.raises(HostCommandError, match=r"^demo1: can't run 'docker inspect x+': a command needs") as caught:
        await session.run(["docker", "inspect", "x" * 100_000 + "\0"])
    await session.close()
    assert len(caught.value.message) < 200


async def test_a_command_that_does_not_read_its_input_still_answers(farm: Any) -> None:
    """Closing stdin early is no error."""
    demo = await farm.demo()
    session = await demo.connector().connect("demo1")
    done = await session.run(["true"], input=b"x" * 5_000_000)
    await session.close()
    assert done.ok


@pytest.mark.parametrize("allowed", [1, 2, 10])
async def test_many_commands_at_once_within_max_sessions(farm: Any, allowed: int) -> None:
    """20 commands at once all succeed, though sshd refuses more than `allowed` channels."""

    async def slow(argv: Any, stdin: bytes) -> Any:
        await asyncio.sleep(0.01)
        return farm.reply(argv[1].encode())

    fake = await farm.start(commands={"echo": slow}, max_sessions=allowed)
    session = await farm.session()
    done = await asyncio.gather(*(session.run(["echo", str(n)]) for n in range(20)))
    assert [one.stdout for one in done] == [str(n).encode() for n in range(20)]
    assert fake.most_open <= min(allowed, 8) * len(fake.connections)


async def test_a_stream_does_not_block_commands_with_max_sessions_1(farm: Any) -> None:
    """The stream keeps its channel, commands get a connection of their own."""
    gate = asyncio.Event()

    async def follow(argv: Any, stdin: bytes) -> Any:
        await gate.wait()
        return farm.reply(b"bye")

    fake = await farm.start(commands={"follow": follow, "true": farm.says()}, max_sessions=1)
    session = await farm.session()
    stream = await session.open(["follow"])
    await stream.write_eof()
    assert (await session.run(["true"])).ok
    assert (await session.run(["true"])).ok
    assert fake.logins == 2
    gate.set()
    assert await stream.read() == b"bye"
    assert await stream.wait() == 0


async def test_a_login_shell_that_runs_no_commands_is_named_with_its_words(farm: Any) -> None:
    """nologin, ForceCommand, an expired password: code `rubbish`, the first words quoted harmlessly."""
    await farm.start(noise=b"This account is \x1b[31mclosed\n", shell=False)
    session = await farm.session()
    with pytest.raises(HostCommandError, match=r"This account is \\x1b\[31mclosed.* ended with status 1") as caught:
        await session.run(["true"])
    assert caught.value.code == "rubbish"
    assert "\x1b" not in str(caught.value)


async def test_a_login_shell_that_prints_for_ever_is_rubbish_too(farm: Any) -> None:
    """Neither memory nor patience is without end."""
    await farm.start(noise=b"y\n" * 2_000_000, shell=False)
    session = await farm.session()
    with pytest.raises(HostCommandError) as caught:
        await session.run(["true"])
    assert caught.value.code == "rubbish"


async def test_a_login_shell_that_prints_too_much_before_it_runs_the_command_is_rubbish(farm: Any) -> None:
    """What it printed is quoted; it is not taken for a command that answered nothing."""
    await farm.start(noise=b"y\n" * 530_000)
    session = await farm.session()
    with pytest.raises(HostCommandError, match="printed 'y") as caught:
        await session.run(["true"])
    assert caught.value.code == "rubbish"


async def test_unknown_commands_are_refused_by_the_scripted_host(farm: Any) -> None:
    """The harness itself: nothing runs that a test did not name."""
    fake = await farm.start()
    session = await farm.session()
    assert (await session.run(["rm", "-rf", "a\nb"])).status == 127
    assert fake.refused == [("rm", "-rf", "a\nb")]


async def test_a_connection_that_breaks_in_a_command_is_lost_not_finished(farm: Any) -> None:
    """run and read raise SessionLost, and so does everything after."""
    demo = await farm.demo()
    session = await demo.connector().connect("demo1")
    stream = await session.open(["sh", "-c", "echo here; exec cat"])
    assert await stream.read() == b"here\n"
    running = asyncio.ensure_future(session.run(["sleep", "60"]))
    await session.run(["true"])
    demo.hosts["demo1"].drop()
    with pytest.raises(SessionLost, match="lost the connection to demo1"):
        await running
    with pytest.raises(SessionLost):
        await stream.read()
    with pytest.raises(SessionLost):
        await stream.write(b"x")
    with pytest.raises(SessionLost):
        await session.run(["true"])
    with pytest.raises(SessionLost):
        await session.open_unix("/x")
    assert await stream.wait() == -1
    await session.close()


async def test_streams_carry_bytes_both_ways_and_keep_the_end_of_stderr(farm: Any) -> None:
    """A stream has stdin, stdout, a bounded tail of stderr and an exit status."""
    demo = await farm.demo()
    session = await demo.connector().connect("demo1")
    stream = await session.open(["sh", "-c", "head -c 3000000 /dev/zero >&2; echo end >&2; cat; exit 4"])
    await stream.write(b"\xff\0there")
    await stream.write_eof()
    assert await stream.read() == b"\xff\0there"
    assert await stream.read() == b""
    assert await stream.wait() == 4
    assert len(stream.stderr_tail()) <= 8192
    assert stream.stderr_tail().endswith(b"end\n")
    await stream.close()
    await stream.close()
    await session.close()


async def test_a_slow_reader_slows_the_command_and_loses_nothing(farm: Any) -> None:
    """What nobody reads is not collected without bound, and comes in order when it is read."""
    demo = await farm.demo()
    session = await demo.connector().connect("demo1")
    stream = await session.open(["sh", "-c", "seq 1 2000000"])
    await session.run(["sleep", "0.2"])
    assert stream._pipe._held < 6_000_000
    data = bytearray()
    while piece := await stream.read():
        data += piece
    await session.close()
    assert bytes(data).split() == [b"%d" % n for n in range(1, 2_000_001)]


async def test_forwarded_sockets_carry_bytes_or_are_refused(farm: Any, tmp_path: Path) -> None:
    """open_unix reaches a socket on the host; nothing listening there is `forward_refused`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"got " + await reader.readline())
        writer.close()

    path = str(tmp_path / "socket")
    server = await asyncio.start_unix_server(serve, path)
    demo = await farm.demo()
    session = await demo.connector().connect("demo1")
    channel = await session.open_unix(path)
    await channel.write(b"this\n")
    assert await channel.read() == b"got this\n"
    assert await channel.read() == b""
    assert await channel.wait() == 0
    assert channel.stderr_tail() == b""
    await channel.close()
    with pytest.raises(HostCommandError, match="does not connect us") as caught:
        await session.open_unix("/nowhere")
    assert caught.value.code == "forward_refused"
    await session.close()
    server.close()
    await server.wait_closed()


async def test_a_cancelled_command_does_not_stay_behind(farm: Any) -> None:
    """Cancelling the task ends the process on the host."""
    demo = await farm.demo()
    session = await demo.connector().connect("demo1")
    pid_file = farm.home / "demos" / "demo1" / "pid"
    running = asyncio.ensure_future(session.run(["sh", "-c", "echo $$ >pid.new; mv pid.new pid; exec sleep 60"]))
    await session.run(["sh", "-c", "while [ ! -e pid ]; do sleep 0.02; done"])
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    pid = int(pid_file.read_text())
    assert (await session.run(["sh", "-c", f"while [ -d /proc/{pid} ]; do sleep 0.02; done"])).ok
    await session.close()


async def test_a_stream_that_is_cancelled_as_it_opens_gives_its_place_back(
    farm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While its command is sent, which takes a while where that is long: the shell that waits for it is ended."""
    demo = await farm.demo()
    session = await demo.connector().connect("demo1")
    sending = asyncio.Event()

    async def write(pipe: CommandPipe, data: bytes) -> bool:
        sending.set()
        await asyncio.Event().wait()
        return True

    with monkeypatch.context() as patch:
        patch.setattr(CommandPipe, "write", write)
        opening = asyncio.ensure_future(session.open(["cat"]))
        await sending.wait()
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
    (link,) = session._links._links
    await until(lambda: (link.asked, link.streams) == (0, 0))
    await session.close()


async def test_how_long_a_shell_waited_for_us_is_told(farm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may take that for a login shell that is slow to start."""
    demo = await farm.demo()
    session = await demo.connector().connect("demo1")
    opened = SshSession._started

    async def busy(self: SshSession, mark: str, limit: int) -> CommandPipe:
        pipe = await opened(self, mark, limit)
        await asyncio.sleep(0.2)
        return pipe

    monkeypatch.setattr(SshSession, "_started", busy)
    assert (await session.run(["true"])).waited >= 0.2
    await session.close()


async def test_a_command_is_ended_on_the_host_also_when_nobody_waits_for_that(farm: Any) -> None:
    """It had taken too long, and whoever had asked for it left while it was being ended."""
    demo = await farm.demo()
    session = await demo.connector().connect("demo1")
    asked = asyncio.ensure_future(
        session.run(["sh", "-c", "trap 'echo >ending' TERM; echo $$ >pid; while :; do sleep 0.1; done"], timeout=2)
    )
    home = farm.home / "demos" / "demo1"
    await until(lambda: exists(home / "ending"))
    pid = int((home / "pid").read_text())
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    await until(lambda: not exists(f"/proc/{pid}"))
    await session.close()


async def test_a_command_that_took_too_long_says_so_also_where_its_connection_is_closed_then(farm: Any) -> None:
    """As one is that a follower finds broken: whoever had asked for the command seemed to be cancelled."""
    demo = await farm.demo()
    session: Any = await demo.connector().connect("demo1")
    killing = asyncio.Event()

    async def kill(name: str, pid: int) -> bool:
        killing.set()
        return True  # a moment for it to end, before it is killed

    session._kill = kill
    asked = asyncio.ensure_future(session.run(["sh", "-c", "trap : TERM; while :; do sleep 0.1; done"], timeout=2))
    await killing.wait()
    await session.close()
    with pytest.raises(HostCommandError, match="did not finish within 2 s"):
        await asked


async def test_a_connection_that_broke_between_two_steps_is_made_again(farm: Any) -> None:
    """It was kept for the next one, and a laptop slept meanwhile."""
    host = await farm.start(commands={"uptime": farm.says(b"up")})
    connector = ReusingConnector(farm.connector())
    for _ in range(2):
        session = await connector.connect("node01")
        assert (await session.run(["uptime"])).stdout == b"up"
        await session.close()
        host.drop()
        await until(lambda: not connector._shelf["node01"].alive)  # type: ignore[attr-defined]
    assert host.logins == 2
    await connector.close()
