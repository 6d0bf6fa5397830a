"""Logging in: which keys are shown, and what is said when it does not work."""

from __future__ import annotations

import asyncio
import re
import shutil
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from distui.errors import HostAuthError, HostError, HostUnreachable
from distui.remote.login import tcp
from distui.spec.hosts.inventory import Host
from fakehosts.ports import held_port


async def failure(farm: Any, kind: type[HostError] = HostUnreachable, **how: Any) -> HostError:
    with pytest.raises(HostError) as caught:
        await farm.connector(**how).connect("node01")
    assert type(caught.value) is kind
    assert caught.value.host == "node01"
    assert caught.value.hint
    return caught.value


@asynccontextmanager
async def agent(folder: Path, keys: list[Any]) -> AsyncIterator[str]:
    """An ssh-agent with `keys`, in this order."""
    path = folder / "agent"
    process = await asyncio.create_subprocess_exec("ssh-agent", "-D", "-a", path, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        async with asyncssh.connect_agent(str(path)) as client:
            await client.add_keys(keys)
        yield str(path)
    finally:
        process.terminate()
        await process.wait()


async def test_a_key_with_a_passphrase_and_no_agent_is_named(farm: Any) -> None:
    """No prompt, no hang: the error names the key and ssh-add."""
    fake = await farm.start()
    path = farm.write_key("id_ed25519", farm.client_key, passphrase="secret")
    error = await failure(farm, HostAuthError)
    assert error.code == "key_passphrase"
    assert str(path) in error.message
    assert f"ssh-add {path}" in error.hint
    assert fake.logins == 0


async def test_a_key_file_of_the_config_that_is_not_there_is_named(farm: Any) -> None:
    """A slip in its name, most often: it was said that there is no key at all, and to make one."""
    await farm.start()
    farm.configure("IdentityFile ~/.ssh/labkye\n")
    error = await failure(farm, HostAuthError)
    assert f"; the key {farm.folder}/labkye that ssh's config names is not there; no key was tried" in error.message
    assert error.hint.startswith("correct IdentityFile in ~/.ssh/config; ") and "ssh-keygen" not in error.hint
    farm.configure("IdentityFile ~/.ssh/id_rsa\n")
    assert "you have no key" in (await failure(farm, HostAuthError)).hint


@pytest.mark.parametrize("tool", [tool for tool in [shutil.which("ssh-keygen")] if tool])
async def test_a_key_locked_by_ssh_keygen_is_known_as_locked(farm: Any, tool: str) -> None:
    """In OpenSSH's own format too, which takes bcrypt to open and nothing to recognize."""
    await farm.start()
    path = farm.folder / "id_ed25519"
    locking = await asyncio.create_subprocess_exec(tool, "-q", "-p", "-N", "secret", "-f", path)
    assert await locking.wait() == 0
    assert (await failure(farm, HostAuthError)).code == "key_passphrase"


async def test_a_locked_key_is_no_problem_when_another_key_works(farm: Any) -> None:
    """It is passed over."""
    await farm.start()
    farm.write_key("id_rsa", asyncssh.generate_private_key("ecdsa-sha2-nistp256"), passphrase="secret")
    await farm.session()


@pytest.mark.parametrize("tool", [tool for tool in [shutil.which("ssh-agent")] if tool])
async def test_an_agent_holds_the_locked_key(farm: Any, tool: str) -> None:
    """SSH_AUTH_SOCK of the environment given."""
    await farm.start()
    farm.write_key("id_ed25519", farm.client_key, passphrase="secret")
    async with agent(farm.folder, [farm.client_key]) as path:
        session = await farm.session(env={"SSH_AUTH_SOCK": path})
        await session.close()


@pytest.mark.parametrize("tool", [tool for tool in [shutil.which("ssh-agent")] if tool])
async def test_the_key_named_in_the_config_comes_before_twenty_others_of_the_agent(farm: Any, tool: str) -> None:
    """A server gives up after six keys, so the right one must be among the first."""
    fake = await farm.start()
    path = farm.write_key("lab", farm.client_key, passphrase="secret")
    (farm.folder / "id_ed25519").unlink()
    farm.configure(f"IdentityFile {path}\n")
    others = [asyncssh.generate_private_key("ssh-ed25519") for _ in range(20)]
    async with agent(farm.folder, [*others, farm.client_key]) as socket_path:
        session = await farm.session(env={"SSH_AUTH_SOCK": socket_path})
        await session.close()
    assert set(fake.keys_shown) == {farm.client_key.public_data}


@pytest.mark.parametrize("tool", [tool for tool in [shutil.which("ssh-agent")] if tool])
async def test_identities_only_keeps_the_agents_other_keys_back(farm: Any, tool: str) -> None:
    """IdentitiesOnly yes shows no key that was not named."""
    fake = await farm.start()
    path = farm.write_key("lab", asyncssh.generate_private_key("ssh-ed25519"))
    farm.configure(f"IdentityFile {path}\nIdentitiesOnly yes\n")
    async with agent(farm.folder, [farm.client_key]) as socket_path:
        await failure(farm, HostAuthError, env={"SSH_AUTH_SOCK": socket_path})
    assert farm.client_key.public_data not in fake.keys_shown


async def test_a_dead_agent_is_named_but_stops_nobody(farm: Any) -> None:
    """Key files still work; if they do not, the agent is part of the advice."""
    await farm.start()
    await farm.session(env={"SSH_AUTH_SOCK": "/nonexistent/agent"})
    (farm.folder / "id_ed25519").unlink()
    error = await failure(farm, HostAuthError, env={"SSH_AUTH_SOCK": "/nonexistent/agent"})
    assert "/nonexistent/agent" in error.hint


async def test_a_key_that_others_may_read_is_not_used(farm: Any) -> None:
    """As ssh refuses it: with the mode and the cure."""
    fake = await farm.start()
    farm.write_key("id_ed25519", farm.client_key, mode=0o644)
    error = await failure(farm, HostAuthError)
    assert error.code == "key_unreadable"
    assert "0644" in error.message
    assert fake.keys_shown == []


async def test_a_wrong_key_is_an_auth_failure_with_what_was_tried(farm: Any) -> None:
    """User and key files are named."""
    await farm.start()
    path = farm.write_key("id_ed25519", asyncssh.generate_private_key("ssh-ed25519"))
    error = await failure(farm, HostAuthError)
    assert error.code == "auth"
    assert "as tester" in error.message
    assert str(path) in error.message
    assert "ssh-copy-id -p " in error.hint and " node01" in error.hint


async def test_a_host_that_wants_a_password_is_told_so_and_never_gets_one(farm: Any) -> None:
    """The methods offered are named; nothing prompts."""
    await farm.start(password_only=True)
    error = await failure(farm, HostAuthError)
    assert re.search("it offers .*password", error.message)
    assert "only logs in with keys" in error.message
    assert "PubkeyAuthentication" in error.hint and "ssh-copy-id" not in error.hint


async def test_no_answer_no_greeting_and_no_name_are_different(farm: Any) -> None:
    """Refused, silent, something else, unknown name: each with its own code."""

    async def silent(writer: asyncio.StreamWriter) -> None: ...

    async def web(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.0 400 Bad\r\n\r\n" + b"x" * 5000)

    await farm.listen("node01", silent)
    error = await failure(farm, connect_timeout=1)
    assert (error.code, "no ssh greeting" in error.message) == ("timeout", True)

    await farm.listen("node01", web)
    error = await failure(farm)
    assert (error.code, "HTTP/1.0 400 Bad" in error.message) == ("not_ssh", True)

    with held_port() as port:
        farm.hosts["node01"].port = port
        error = await failure(farm)
        assert (error.code, str(port) in error.message) == ("refused", True)

    farm.configure("Host node01\n HostName no.such.name.invalid\n")
    error = await failure(farm)
    assert (error.code, "no.such.name.invalid" in error.message) == ("dns", True)


async def test_a_server_that_greets_and_then_hangs_is_a_slow_login(farm: Any) -> None:
    """The limit holds for the login too, and the message says how far it came."""

    async def greets(writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-Slow\r\n")

    await farm.listen("node01", greets)
    error = await failure(farm, connect_timeout=3)
    assert error.code == "timeout"
    assert "did not finish the login" in error.message


async def test_a_server_that_refuses_us_for_a_while_is_not_asked_again(farm: Any) -> None:
    """PerSourcePenalties: trying again at once would make it worse."""
    visits = 0

    async def refuses(writer: asyncio.StreamWriter) -> None:
        nonlocal visits
        visits += 1
        writer.write(b"Not allowed at this time\r\n")
        writer.close()

    await farm.listen("node01", refuses)
    error = await failure(farm)
    assert (error.code, visits) == ("penalty", 1)


async def test_a_server_that_drops_logins_at_random_is_asked_again(farm: Any, monkeypatch: Any) -> None:
    """MaxStartups: hanging up before the greeting is worth another try, and is named when it goes on."""
    monkeypatch.setattr("distui.remote.pool._FIRST_WAIT", 0.001)
    visits = 0

    async def hangs_up(writer: asyncio.StreamWriter) -> None:
        nonlocal visits
        visits += 1
        writer.write(b"Exceeded MaxStartups\r\n" if visits % 2 else b"")
        writer.close()

    await farm.listen("node01", hangs_up)
    error = await failure(farm)
    assert (error.code, visits) == ("unreachable", 8)
    assert "MaxStartups" in error.hint


async def test_a_broken_ssh_config_is_reported_with_its_line(farm: Any) -> None:
    """Nothing is contacted then."""
    fake = await farm.start()
    farm.configure("Host node01\n  Port ssh\n")
    assert (await failure(farm)).code == "ssh_config"
    assert fake.logins == 0


async def test_hosts_behind_a_jump_host_share_one_connection_to_it(farm: Any) -> None:
    """ProxyJump by alias, with many hosts at once: one login at the jump host."""
    gate = await farm.start("gate", forwards=True)
    commands = {"true": farm.says()}
    fakes = [await farm.start(f"node0{n}", commands) for n in range(1, 7)]
    farm.configure("Host node0*\n ProxyJump gate\n")
    connector = farm.connector()
    sessions = await asyncio.gather(*(connector.connect(fake.name) for fake in fakes))
    done = await asyncio.gather(*(session.run(["true"]) for session in sessions))
    assert all(one.ok for one in done)
    assert gate.logins == 1


async def test_jump_hosts_may_be_chained(farm: Any) -> None:
    """`ProxyJump a,b`, and a jump host with a ProxyJump of its own."""
    gates = [await farm.start(name, forwards=True) for name in ("out", "mid", "inner")]
    await farm.start("node01", {"true": farm.says()})
    farm.configure("Host mid\n ProxyJump out\nHost node01\n ProxyJump mid,inner\n")
    session = await farm.session()
    assert (await session.run(["true"])).ok
    assert [gate.logins for gate in gates] == [1, 1, 1]


async def test_a_lost_jump_host_is_dialled_again(farm: Any) -> None:
    """After a loss the next connect makes a new connection to the jump host."""
    gate = await farm.start("gate", forwards=True)
    await farm.start("node01", {"true": farm.says()})
    farm.configure("Host node01\n ProxyJump gate\n")
    connector = farm.connector()
    first = await connector.connect("node01")
    gate.drop()
    with pytest.raises(HostError):
        await first.run(["true"])
    second = await connector.connect("node01")
    assert (await second.run(["true"])).ok
    assert gate.logins == 2


async def test_trouble_with_a_jump_host_names_it(farm: Any) -> None:
    """It refuses to forward, nobody listens behind it, its key is unknown: for each, who says so."""
    await farm.start("gate", forwards=False)
    await farm.start("node01")
    farm.configure("Host node01\n ProxyJump gate\n")
    error = await failure(farm)
    assert (error.code, "jump host gate does not forward" in error.message) == ("no_route", True)

    farm.hosts["gate"].forwards = True
    with held_port() as farm.hosts["node01"].port:
        error = await failure(farm)
    assert "can't be reached, says the jump host gate" in error.message

    (farm.folder / "known_hosts").unlink()
    with pytest.raises(HostError, match="its jump host fails: gate") as caught:
        await farm.connector().connect("node01")
    assert caught.value.code == "host_key_unknown"


async def test_a_jump_host_that_is_the_host_itself_is_refused(farm: Any) -> None:
    """Instead of a circle without end."""
    await farm.start()
    farm.configure("Host *\n ProxyJump node01\n")
    assert "leads back to itself" in (await failure(farm)).message


@pytest.mark.parametrize("tool", [tool for tool in [shutil.which("python3")] if tool])
async def test_a_proxy_command_carries_the_connection(farm: Any, tool: str) -> None:
    """ProxyCommand with %h and %p."""
    fake = await farm.start("node01", {"true": farm.says()})
    script = farm.home / "proxy.py"
    script.write_text(
        "import socket,sys,threading,os\ns=socket.create_connection((sys.argv[1],int(sys.argv[2])))\n"
        "def up():\n while (d:=os.read(0,65536)): s.sendall(d)\n s.shutdown(1)\n"
        "threading.Thread(target=up,daemon=True).start()\n"
        "while (d:=s.recv(65536)): os.write(1,d)\n"
    )
    name = f"[127.0.0.1]:{fake.port}"
    assert name in (farm.folder / "known_hosts").read_text()
    farm.configure(f"Host node01\n ProxyCommand {tool} {script} %h %p\n")
    session = await farm.session()
    assert (await session.run(["true"])).ok
    await session.close()


async def test_the_safe_options_are_always_set(farm: Any, monkeypatch: Any) -> None:
    """known_hosts is never None, nothing is forwarded, the fast cipher is used, keepalive is on."""
    seen: dict[str, Any] = {}
    real = asyncssh.connect

    async def spy(*args: Any, **kwargs: Any) -> Any:
        seen.update(kwargs)
        return await real(*args, **kwargs)

    monkeypatch.setattr(asyncssh, "connect", spy)
    await farm.start()
    session = await farm.session()
    assert seen["known_hosts"] is not None
    assert (seen["agent_forwarding"], seen["x11_forwarding"], seen["config"]) == (False, False, None)
    assert seen["keepalive_interval"] * seen["keepalive_count_max"] <= 15
    assert session._links.first.get_extra_info("send_cipher") == "aes128-gcm@openssh.com"


async def test_fifty_logins_at_one_server_never_exceed_its_startups(farm: Any) -> None:
    """At most six unauthenticated connections at one address at a time."""
    fake = await farm.start()
    connector = farm.connector()
    for n in range(50):
        connector._hosts[f"n{n}"] = Host(f"n{n}", "127.0.0.1", "tester", fake.port)
    sessions = await asyncio.gather(*(connector.connect(f"n{n}") for n in range(50)))
    assert len(sessions) == fake.logins == 50
    assert fake.most_entering <= 6


async def test_names_that_dns_has_no_answer_for_hold_up_no_other_host(
    farm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes half a minute in a thread: hosts with addresses waited for them, and were called down."""
    await farm.start()
    over, look_up = threading.Event(), socket.getaddrinfo

    def asked(host: str, *args: Any, **more: Any) -> Any:
        if host.endswith(".invalid") and over.wait(60):
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return look_up(host, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", asked)
    dead = [asyncio.ensure_future(tcp.connect(f"h{n}.invalid", 22, family=0, bind=None)) for n in range(40)]
    await asyncio.sleep(0.1)
    try:
        await (await farm.session(connect_timeout=10)).close()
    finally:
        over.set()
        found = await asyncio.gather(*dead, return_exceptions=True)
    assert {type(one) for one in found} == {socket.gaierror}


async def test_a_machine_that_has_no_further_thread_reaches_no_host_in_words(
    farm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A login node with a small `ulimit -u`, and many names that DNS has no answer for: it was a traceback."""
    await farm.start()

    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(tcp, "in_thread", _without_threads(tcp.in_thread, start))
        with pytest.raises(HostUnreachable, match="no further thread can be started here"):
            await farm.session()


def _without_threads(work: Any, start: Any) -> Any:
    async def alone(*args: Any, **more: Any) -> Any:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(threading.Thread, "start", start)
            return await work(*args, **more)

    return alone
