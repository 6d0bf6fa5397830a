"""Host keys are judged as ssh judges them, and an unknown key is told from a changed one."""

from __future__ import annotations

import base64
import shutil
import subprocess
from pathlib import Path

import pytest

from distui.remote.login.known_hosts import KnownHost, KnownHosts, fingerprint, host_name, matches, parse

A, B, C = (base64.b64encode(b"\0\0\0\x0bssh-ed25519" + letter * 32) for letter in (b"A", b"B", b"C"))


def blob(text: bytes) -> bytes:
    return base64.b64decode(text)


def known(tmp_path: Path, text: bytes, host: str = "node01", port: int = 22, alias: str | None = None) -> KnownHost:
    path = tmp_path / "known_hosts"
    path.write_bytes(text)
    return KnownHosts().known((path,), host, port, alias)


def test_known_unknown_and_changed_are_three_answers(tmp_path: Path) -> None:
    """The same key is known; no line is unknown; another key is changed, and the line is named."""
    found = known(tmp_path, b"# comment\n\nnode01 ssh-ed25519 " + A + b" a comment\n")
    assert found.verdict(blob(A)) == "known"
    assert found.verdict(blob(B)) == "changed"
    assert found.keys[0].place == f"{tmp_path / 'known_hosts'}:3"
    assert known(tmp_path, b"other ssh-ed25519 " + A).verdict(blob(A)) == "unknown"


def test_a_key_of_another_type_than_the_known_one_counts_as_changed(tmp_path: Path) -> None:
    """Somebody in between could choose the type, so it is no way around the warning."""
    assert known(tmp_path, b"node01 ssh-rsa " + A).verdict(blob(B)) == "changed"


def test_a_revoked_key_is_never_known(tmp_path: Path) -> None:
    """@revoked wins over a line that trusts the key."""
    found = known(tmp_path, b"node01 ssh-ed25519 " + A + b"\n@revoked * ssh-ed25519 " + A)
    assert found.verdict(blob(A)) == "revoked"


def test_an_authority_is_no_host_key(tmp_path: Path) -> None:
    """@cert-authority keys sign certificates; shown as a host's own key they are unknown."""
    found = known(tmp_path, b"@cert-authority *.lab,node* ssh-ed25519 " + A)
    assert found.trusts_authority(blob(A))
    assert not found.trusts_authority(blob(B))
    assert found.verdict(blob(A)) == "unknown"


def test_a_revoked_authority_signs_nothing(tmp_path: Path) -> None:
    """@revoked wins over @cert-authority."""
    text = b"@cert-authority * ssh-ed25519 " + A + b"\n@revoked * ssh-ed25519 " + A
    assert not known(tmp_path, text).trusts_authority(blob(A))


def test_another_port_is_another_name_but_the_plain_name_may_vouch(tmp_path: Path) -> None:
    """As in ssh: `[h]:2222` first; a key under the plain name is good, another there is no change."""
    assert known(tmp_path, b"[node01]:2222 ssh-ed25519 " + A, port=2222).verdict(blob(B)) == "changed"
    plain = known(tmp_path, b"node01 ssh-ed25519 " + A, port=2222)
    assert (plain.verdict(blob(A)), plain.verdict(blob(B))) == ("known", "unknown")


def test_host_key_alias_replaces_name_and_port(tmp_path: Path) -> None:
    """HostKeyAlias is looked up as it is."""
    assert known(tmp_path, b"cluster ssh-ed25519 " + A, port=2222, alias="Cluster").verdict(blob(A)) == "known"
    assert host_name("h", 2222, "x") == "x"


@pytest.mark.parametrize(
    ("names", "name", "expected"),
    [
        ("node01,10.0.0.1", "10.0.0.1", True),
        ("node*", "node77", True),
        ("node?", "node77", False),
        ("node*,!node7*", "node77", False),
        ("NODE01", "node01", True),
        ("[node01]:*", "[node01]:2222", True),
        ("|1|bad", "node01", False),
        ("|1|!!|!!", "node01", False),
    ],
)
def test_names_match_as_sshd_8_says(names: str, name: str, expected: bool) -> None:
    """Lists, wildcards, exclusions, upper and lower case."""
    assert matches(names, name) is expected


def test_lines_that_can_not_be_read_are_passed_over() -> None:
    """Rubbish in the file spoils only its own line, and line numbers stay right."""
    entries = parse(b"\xff\xfe\nnode01 ssh-ed25519 %%%\nnode01 ssh-ed25519 " + A + b"\n", Path("f"))
    assert [entry.line for entry in entries] == [3]


@pytest.mark.parametrize("tool", [tool for tool in [shutil.which("ssh-keygen")] if tool])
def test_hashed_names_and_fingerprints_are_those_of_ssh_keygen(tool: str, tmp_path: Path) -> None:
    """`ssh-keygen -H` hashes names with a salt; its -l prints the fingerprint we show."""
    key = tmp_path / "key"
    subprocess.run([tool, "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    kind, text = key.with_suffix(".pub").read_bytes().split()[:2]
    path = tmp_path / "known_hosts"
    path.write_bytes(b"[node01]:2222 %s %s\n" % (kind, text))
    subprocess.run([tool, "-q", "-H", "-f", path], check=True, capture_output=True)
    assert path.read_bytes().startswith(b"|1|")
    assert KnownHosts().known((path,), "node01", 2222, None).verdict(blob(text)) == "known"
    shown = subprocess.run([tool, "-lf", key], check=True, capture_output=True, text=True).stdout
    assert fingerprint(blob(text)) in shown


def test_added_keys_are_found_at_once_and_end_a_broken_last_line(tmp_path: Path) -> None:
    """Adding makes folder and file, private, and never glues two lines together."""
    hosts, path = KnownHosts(), tmp_path / "new" / "known_hosts"
    assert hosts.known((path,), "node01", 22, None).verdict(blob(A)) == "unknown"
    hosts.add(path, "node01", "ssh-ed25519", blob(A))
    assert hosts.known((path,), "node01", 22, None).verdict(blob(A)) == "known"
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_bytes(path.read_bytes().rstrip())
    hosts.add(path, "node02", "ssh-ed25519", blob(B))
    assert len(path.read_bytes().splitlines()) == 2
