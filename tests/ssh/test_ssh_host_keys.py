"""Host keys over a real handshake: known ones pass, unknown and changed ones are two different refusals."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from typing import Any

import asyncssh
import pytest

from distui.errors import HostKeyError, HostUnreachable


def new_key(kind: str = "ssh-ed25519") -> Any:
    return asyncssh.generate_private_key(kind)


async def refusal(farm: Any, **how: Any) -> HostKeyError:
    with pytest.raises(HostKeyError) as caught:
        await farm.connector(**how).connect("node01")
    error = caught.value
    assert error.host == "node01"
    assert error.hint
    return error


async def test_an_unknown_key_is_refused_with_its_fingerprint_and_the_way_to_accept_it(farm: Any) -> None:
    """Nothing is accepted silently and nothing is written."""
    fake = await farm.start(known=False)
    error = await refusal(farm)
    assert error.code == "host_key_unknown"
    assert fake.key.get_fingerprint() in error.message
    assert re.search(r"accept it: `ssh .* node01`", error.hint)
    assert fake.logins == 0
    assert not (farm.folder / "known_hosts").exists()


async def test_a_changed_key_is_another_louder_refusal(farm: Any) -> None:
    """Old and new fingerprint, the line, and the command that forgets the old key."""
    fake = await farm.start(known=False)
    old = new_key()
    farm.trust(fake, old)
    error = await refusal(farm, accept_new=True)
    assert error.code == "host_key_changed"
    assert "HAS CHANGED" in error.message
    for words in (fake.key.get_fingerprint(), old.get_fingerprint(), f"{farm.folder / 'known_hosts'}:1"):
        assert words in error.message
    assert f"ssh-keygen -R '[127.0.0.1]:{fake.port}'" in error.hint


async def test_known_hosts_that_cannot_be_read_is_said(farm: Any) -> None:
    """As an error of that host, which is tried again, and by the file's name."""
    await farm.start(known=False)
    (farm.folder / "known_hosts").mkdir()
    with pytest.raises(HostUnreachable, match="known_hosts is a folder, not a file") as caught:
        await farm.connector().connect("node01")
    assert "ls -ld" in caught.value.hint


async def test_a_changed_kind_of_key_is_a_change_too(farm: Any) -> None:
    """The host no longer has a key of the kind we know."""
    fake = await farm.start(known=False)
    farm.trust(fake, new_key("ecdsa-sha2-nistp256"))
    assert (await refusal(farm)).code == "host_key_changed"


async def test_accept_new_writes_the_unknown_key_down_and_holds_to_it(farm: Any) -> None:
    """The second login finds the line; another key is then a change."""
    fake = await farm.start(known=False)
    connector = farm.connector(accept_new=True)
    await connector.connect("node01")
    assert (farm.folder / "known_hosts").read_bytes().startswith(f"[127.0.0.1]:{fake.port} ssh-ed25519 ".encode())
    await farm.session()
    assert len((farm.folder / "known_hosts").read_bytes().splitlines()) == 1


async def test_a_hashed_name_is_honoured(farm: Any) -> None:
    """HashKnownHosts yes is Debian's default."""
    fake = await farm.start(known=False)
    salt = b"s" * 20
    name = hmac.new(salt, f"[127.0.0.1]:{fake.port}".encode(), hashlib.sha1).digest()
    line = b"|1|%s|%s " % (base64.b64encode(salt), base64.b64encode(name))
    (farm.folder / "known_hosts").write_bytes(line + fake.key.export_public_key())
    assert (await farm.session()).host == "node01"


async def test_host_key_alias_and_user_known_hosts_file_are_honoured(farm: Any) -> None:
    """Both come from the ssh config."""
    fake = await farm.start(known=False)
    (farm.folder / "lab_hosts").write_bytes(b"farm " + fake.key.export_public_key())
    farm.configure("Host node01\n HostKeyAlias farm\n UserKnownHostsFile ~/.ssh/lab_hosts\n")
    await farm.session()


async def test_a_revoked_key_is_refused_even_if_it_is_also_trusted(farm: Any) -> None:
    """@revoked is final."""
    fake = await farm.start()
    with (farm.folder / "known_hosts").open("ab") as file:
        file.write(b"@revoked * " + fake.key.export_public_key())
    error = await refusal(farm, accept_new=True)
    assert error.code == "host_key_revoked"
    assert fake.key.get_fingerprint() in error.message
    assert "certificate" not in error.message


def signed(key: Any, authority: Any, principals: list[str], **how: Any) -> Any:
    return authority.generate_host_certificate(key, "node01", principals=principals, **how)


async def test_a_certificate_of_a_known_authority_is_good(farm: Any) -> None:
    """@cert-authority lines sign hosts we have never seen."""
    key, authority = new_key(), new_key()
    certificate = signed(key, authority, ["127.0.0.1"])
    await farm.start(known=False, key=key, certificate=certificate)
    line = b"@cert-authority [127.0.0.1]:* " + authority.export_public_key()
    (farm.folder / "known_hosts").write_bytes(line)
    await farm.session()


@pytest.mark.parametrize(
    ("principals", "how", "words"),
    [(["elsewhere"], {}, "principal"), (["127.0.0.1"], {"valid_before": 1}, "expired|not valid|validity")],
)
async def test_a_bad_certificate_is_refused_with_the_reason(
    farm: Any, principals: list[str], how: dict[str, Any], words: str
) -> None:
    """For another host, or out of date."""
    key, authority = new_key(), new_key()
    how = {"valid_after": 0, **how} if how else how
    await farm.start(known=False, key=key, certificate=signed(key, authority, principals, **how))
    (farm.folder / "known_hosts").write_bytes(b"@cert-authority * " + authority.export_public_key())
    with pytest.raises(HostKeyError, match=f"(?i)certificate that is not good.*({words})"):
        await farm.connector().connect("node01")


async def test_a_certificate_of_an_unknown_authority_does_not_hide_a_known_key(farm: Any) -> None:
    """As in ssh: the plain key is compared then."""
    key = new_key()
    await farm.start(key=key, certificate=signed(key, new_key(), ["127.0.0.1"]))
    await farm.session()


async def test_of_several_host_keys_the_known_one_is_asked_for(farm: Any) -> None:
    """A host with RSA and Ed25519 keys, of which we know the RSA one."""
    rsa = asyncssh.generate_private_key("ssh-rsa", key_size=2048)
    fake = await farm.start(known=False, more_keys=[rsa])
    farm.trust(fake, rsa)
    await farm.session()
