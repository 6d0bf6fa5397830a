"""Demo hosts behave like hosts: own homes, real processes, only their key, and the ordinary ssh reaches them."""

from __future__ import annotations

import asyncio
import os
import shutil
from typing import Any

import asyncssh
import pytest

from distui.errors import HostAuthError, HostUnreachable, SessionLost
from distui.remote.pool import SshConnector

SSH = [tool for tool in [shutil.which("ssh")] if tool]


async def test_each_host_has_a_home_of_its_own_and_a_small_environment(farm: Any, monkeypatch: Any) -> None:
    """Nothing of the caller's secrets, everything a login has."""
    monkeypatch.setenv("AWS_SECRET", "x")
    demo = await farm.demo(2, env={"EXTRA": "1"})
    connector = demo.connector()
    for name in demo.hosts:
        session = await connector.connect(name)
        said = (await session.run(["sh", "-c", 'pwd; echo "$HOME $USER $EXTRA $AWS_SECRET"'])).text.split()
        assert said == [str(farm.home / "demos" / name)] * 2 + ["demo", "1"]


async def test_what_was_started_with_setsid_outlives_the_connection_and_the_rest_does_not(farm: Any) -> None:
    """As under sshd for the first; the second is tidier than sshd."""
    demo = await farm.demo()
    session = await demo.connector().connect("demo1")
    script = "setsid sh -c 'echo $$ >far; exec sleep 30' </dev/null >/dev/null 2>&1 & echo $$ >near; exec cat"
    stream = await session.open(["sh", "-c", script])
    home = farm.home / "demos" / "demo1"
    await session.run(["sh", "-c", "while [ ! -s near ] || [ ! -s far ]; do sleep 0.02; done"])
    near, far = int((home / "near").read_text()), int((home / "far").read_text())
    await stream.close()
    await session.run(["sh", "-c", f"while [ -d /proc/{near} ]; do sleep 0.02; done"])
    os.kill(far, 9)  # Fails if it is gone.


async def test_only_the_key_made_for_the_demo_is_let_in(farm: Any) -> None:
    """Loopback is shared by all users of a machine."""
    demo = await farm.demo()
    other = asyncssh.generate_private_key("ssh-ed25519")
    demo.client_key.unlink()
    other.write_private_key(demo.client_key)
    demo.client_key.with_suffix(".pub").unlink()
    demo.client_key.chmod(0o600)
    with pytest.raises(HostAuthError):
        await demo.connector().connect("demo1")
    assert {path.stat().st_mode & 0o077 for path in demo.config.parent.iterdir()} == {0}


async def test_unix_sockets_can_be_forbidden(farm: Any) -> None:
    """As sshd with AllowStreamLocalForwarding no."""
    demo = await farm.demo(unix_sockets=False)
    session = await demo.connector().connect("demo1")
    with pytest.raises(Exception, match="does not connect us"):
        await session.open_unix("/run/x")


async def test_many_channels_and_much_output_at_once(farm: Any) -> None:
    """24 commands of 2 MB each, with input, at once on one host."""
    demo = await farm.demo()
    session = await demo.connector().connect("demo1")
    work = [session.run(["sh", "-c", "cat; head -c 2000000 /dev/zero"], input=b"%d" % n) for n in range(24)]
    done = await asyncio.gather(*work)
    assert [one.stdout for one in done] == [b"%d" % n + bytes(2_000_000) for n in range(24)]


async def test_a_host_that_was_away_is_found_again(farm: Any) -> None:
    """Stopped and started on the same port with the same key: the connector gets a new session."""
    demo = await farm.demo()
    connector = demo.connector()
    session = await connector.connect("demo1")
    host = demo.hosts["demo1"]
    await host.stop()
    with pytest.raises(SessionLost):
        await session.run(["true"])
    with pytest.raises(HostUnreachable, match="refuses connections"):
        await connector.connect("demo1")
    await host.start()
    assert (await (await connector.connect("demo1")).run(["true"])).ok


@pytest.mark.parametrize("ssh", SSH)
async def test_the_ordinary_ssh_reaches_them_by_their_config(farm: Any, ssh: str) -> None:
    """`ssh -F CONFIG demo1`, strict about host keys."""
    demo = await farm.demo()
    process = await asyncio.create_subprocess_exec(
        ssh, "-F", demo.config, "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "demo1", "echo hi; exit 3",
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    assert (out, process.returncode) == (b"hi\n", 3)


async def test_a_connector_with_their_folder_as_home_needs_no_targets(farm: Any) -> None:
    """The ssh config in the demo's folder says it all."""
    demo = await farm.demo()
    connector = SshConnector((), home=demo.root, system=False, env={})
    session = await connector.connect("demo1")
    assert (await session.run(["true"])).ok
    await connector.close()
    await connector.close()
