"""ssh keys of the lab and a HOME for whoever logs in to its hosts."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from lab.network import ETH, address
from lab.shell import sh


def make_key(path: Path, comment: str) -> str:
    """Make an ed25519 key pair and return the public line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path))
    return path.with_name(path.name + ".pub").read_text().strip()


def known_hosts_line(name: str, index: int, public: str) -> str:
    """A known_hosts row with the host's alias and its address."""
    return f"{name},{address(ETH, index)} {' '.join(public.split()[:2])}"


def write_client(folder: Path, key: Path, hosts: Iterable[tuple[str, int]], known: Iterable[str]) -> None:
    """Fill a `.ssh` folder: the key, `known_hosts`, and a `config` with one stanza per host.

    The paths in `config` are absolute, so it serves any program, whatever it takes for the home folder.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    shutil.copy(key, folder / "id_ed25519")
    shutil.copy(key.with_name(key.name + ".pub"), folder / "id_ed25519.pub")
    (folder / "id_ed25519").chmod(0o600)
    (folder / "known_hosts").write_text("\n".join(known) + "\n")
    (folder / "config").write_text("\n".join(stanza(folder, name, index) for name, index in hosts))


def stanza(folder: Path, name: str, index: int) -> str:
    return f"""Host {name}
    HostName {address(ETH, index)}
    User root
    IdentityFile {folder}/id_ed25519
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known_hosts
"""


SSHD_CONFIG = """# sshd of a lab host: Debian's defaults, keys only.
HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
PrintMotd no
AcceptEnv LANG LC_*
PidFile /run/sshd.pid
Subsystem sftp /usr/lib/openssh/sftp-server
"""
