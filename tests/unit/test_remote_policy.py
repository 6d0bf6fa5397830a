"""Small decisions of the ssh side: algorithms, pace of retries, gates, and words that are safe to print."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import asyncssh
import pytest

from distui.remote.config import Sources, resolve
from distui.remote.login import algorithms
from distui.remote.login.errors import no_connection, quoted, through_jump
from distui.remote.login.gates import Gate, Gates
from distui.remote.login.known_hosts import Entry, KnownHost
from distui.remote.login.login import KEEPALIVE_COUNT, KEEPALIVE_INTERVAL
from distui.spec.hosts.inventory import Host


def entry(kind: str, marker: str = "") -> Entry:
    return Entry(Path("f"), 1, marker, "h", kind, b"")  # type: ignore[arg-type]


def test_the_fast_cipher_comes_first_unless_the_config_says_otherwise() -> None:
    """aes128-gcm costs least; a Ciphers line is the user's word."""
    assert algorithms.ciphers("")[0] == "aes128-gcm@openssh.com"
    assert algorithms.ciphers("aes256-ctr,aes128-ctr") == ["aes256-ctr", "aes128-ctr"]
    assert "aes256-ctr" not in algorithms.ciphers("-aes256-ctr")


@pytest.mark.parametrize(
    ("setting", "chosen"),
    [("", ["a", "b"]), ("+c", ["a", "b", "c"]), ("^b", ["b", "a"]), ("-a", ["b"]), ("c,zz", ["c"]), ("zz", ["a", "b"])],
)
def test_algorithm_lists_are_read_as_in_ssh_config(setting: str, chosen: list[str]) -> None:
    """+ appends, ^ puts first, - removes; unknown names are passed over."""
    assert algorithms.select(setting, ["a", "b"], ["a", "b", "c"]) == chosen


def test_a_host_is_asked_for_the_kind_of_key_we_know() -> None:
    """Otherwise a host with an RSA and an Ed25519 key would look changed."""
    assert algorithms.host_keys("", KnownHost("h", (entry("ssh-rsa"),)))[:2] == ["rsa-sha2-512", "rsa-sha2-256"]
    assert algorithms.host_keys("", KnownHost("h"))[0] == "ssh-ed25519"


def test_certificates_are_asked_for_only_where_an_authority_is_known() -> None:
    """asyncssh would take a certificate of an unknown authority for a wrong key."""
    assert not any("-cert-" in name for name in algorithms.host_keys("", KnownHost("h")))
    trusted = KnownHost("h", authorities=(entry("ssh-ed25519"),))
    assert algorithms.host_keys("", trusted)[0] == "ssh-ed25519-cert-v01@openssh.com"


def test_sha1_is_offered_only_on_request() -> None:
    """HostKeyAlgorithms +ssh-rsa brings old hosts back."""
    assert "ssh-rsa" not in algorithms.host_keys("", KnownHost("h"))
    assert "ssh-rsa" in algorithms.host_keys("+ssh-rsa", KnownHost("h"))


def test_a_connection_that_dies_silently_is_noticed_within_15_seconds() -> None:
    """asyncssh counts one interval more than its keepalives (measured)."""
    assert KEEPALIVE_INTERVAL * (KEEPALIVE_COUNT + 1) <= 15


def test_what_a_host_prints_is_shown_without_its_control_characters() -> None:
    """Escape codes, bidi marks and invalid UTF-8 are spelled out, long text is cut."""
    assert quoted("\x1b[31mred\u202e\n\xe9".encode() + b"\xff\n") == "'\\x1b[31mred\\u202e\\né\\xff'"
    assert len(quoted(b"x" * 10_000)) < 200


@pytest.mark.parametrize(
    ("number", "reason", "code"),
    [
        (2, "Connection refused", "refused"),
        (2, "Name or service not known", "dns"),
        (2, "No route to host", "no_route"),
        (2, "Connection timed out", "timeout"),
        (1, "open failed", "no_route"),
    ],
)
def test_what_a_jump_host_says_becomes_the_code_a_direct_connection_would_get(
    number: int, reason: str, code: str
) -> None:
    """OpenSSH tells the reason only in words; the jump host is named in every message."""
    sources = Sources(Path("/nonexistent"), {}, Path("/nonexistent/config"), system=False)
    error = through_jump(resolve(Host("node01"), sources), asyncssh.ChannelOpenError(number, reason), "gate")
    assert (error.code, "jump host gate" in error.message) == (code, True)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EHOSTUNREACH, "can't be reached: no route to host"),
        (errno.ENETUNREACH, "can't be reached: network is unreachable"),
        (errno.ETIMEDOUT, ": connection timed out"),
    ],
)
def test_why_there_is_no_connection_is_said_in_the_systems_words(number: int, words: str) -> None:
    """A host that is switched off: asyncio has one sentence for all such errors."""
    sources = Sources(Path("/nonexistent"), {}, Path("/nonexistent/config"), system=False)
    error = no_connection(resolve(Host("node01"), sources), OSError(number, "Connect call failed ('10.0.0.7', 22)"))
    assert error.message.endswith(words)
    assert "call failed" not in error.message


async def test_a_gate_lets_only_so_many_through_and_narrows() -> None:
    """Never more inside than its width, and half as many after a refusal, down to one."""
    gate, inside, most = Gate(4), 0, 0

    async def pass_through() -> None:
        nonlocal inside, most
        async with gate.passing():
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*(pass_through() for _ in range(20)))
    assert most == 4
    most = 0
    for _ in range(5):
        gate.narrow()
    await asyncio.gather(*(pass_through() for _ in range(20)))
    assert most == 1


async def test_a_crowded_server_does_not_hold_up_the_others() -> None:
    """Waiting for one server's gate takes no place among all."""
    gates, reached = Gates(7), asyncio.Event()
    hold = asyncio.Event()

    async def visit(server: str) -> None:
        async with gates.passing(server):
            if server == "other":
                reached.set()
            await hold.wait()

    crowd = [asyncio.ensure_future(visit("one")) for _ in range(30)]
    other = asyncio.ensure_future(visit("other"))
    async with asyncio.timeout(60):
        await reached.wait()
    hold.set()
    await asyncio.gather(*crowd, other)
