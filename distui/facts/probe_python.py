# ruff: noqa: UP045, SIM105
# Python 3.6 runs this, and every import costs a start on the host: that of `os` or `socket` more than all this does.
"""The part of the probe that one python3 does on a host, where it would take ten programs; `probe.sh` starts it.

Says python3's version, the ports that are listened on, what Docker's daemon says of itself and who has the host's own
name, each framed as `part` in `probe.sh` does it. What could not be said is for `probe.sh` to ask by other programs.
"""

import _socket
import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # the annotations below are text, which Python 3.6 never evaluates
    from typing import Optional

MOST, SECONDS = 300000, 3
"""Bytes an engine's answer may have, and seconds that the kernel or a daemon may take for each piece of one."""

NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, REQUEST_DUMP, TCP_LISTEN, NLMSG_ERROR, NLMSG_DONE = 4, 20, 0x301, 10, 2, 3


def say(text: bytes) -> None:
    """All of `text` to stdout."""
    while text:
        text = text[posix.write(1, text) :]


def part(word: bytes, name: bytes, text: bytes, status: int = 0) -> None:
    """One framed answer."""
    say(b"\n%s part %s\n%s\n%s rc %d\n" % (word, name, text, word, status))


def number(value: int, size: int) -> bytes:
    """A whole number as the kernel of this machine has it in memory."""
    return value.to_bytes(size, sys.byteorder)


def listening() -> "Optional[set[int]]":
    """The TCP ports that are listened on, as `ss -ltn` asks for them (man 7 sock_diag). None where nobody tells.

    Reading /proc/net/tcp lets the kernel walk over a table that grows with its memory: 5 ms and more.
    """
    kernel = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW, NETLINK_SOCK_DIAG)
    kernel.settimeout(SECONDS)
    ports: set[int] = set()
    for family in _socket.AF_INET, _socket.AF_INET6:
        request = bytes((family, _socket.IPPROTO_TCP, 0, 0)) + number(1 << TCP_LISTEN, 4) + bytes(48)
        header = number(16 + len(request), 4) + number(SOCK_DIAG_BY_FAMILY, 2) + number(REQUEST_DUMP, 2) + bytes(8)
        kernel.send(header + request)
        kind = 0
        while kind != NLMSG_DONE:
            said = kernel.recv(65536)
            if not said:
                return None
            while said:
                size, kind = int.from_bytes(said[:4], sys.byteorder), int.from_bytes(said[4:6], sys.byteorder)
                if kind == NLMSG_ERROR or size < 16:
                    return None
                if kind == SOCK_DIAG_BY_FAMILY:
                    ports.add(int.from_bytes(said[20:22], "big"))
                said = said[(size + 3) & ~3 :]
    return ports


def say_ports(word: bytes) -> bool:
    """Whether the ports could be said."""
    try:
        ports = listening()
    except OSError:
        return False
    if ports is None:
        return False
    part(word, b"ports", b"".join(b"LISTEN 0 0 *:%d *:*\n" % port for port in sorted(ports)))
    return True


def docker_socket() -> "Optional[bytes]":
    """What Docker's client asks in its default context, where that is a socket that this login may open."""
    host = posix.environ.get(b"DOCKER_HOST") or b"unix:///var/run/docker.sock"
    path = host[7:] if host.startswith(b"unix:///") else b""
    return path if path and posix.access(path, posix.R_OK | posix.W_OK) else None


def ask_docker(path: bytes) -> "Optional[bytes]":
    """What the daemon behind a socket says of itself, as JSON; None when it does not say. Raises OSError."""
    asked = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    asked.settimeout(SECONDS)
    asked.connect(path)
    asked.send(b"GET /info HTTP/1.0\r\nHost: docker\r\n\r\n")
    said = b""
    while len(said) < MOST:
        more = asked.recv(65536)
        if not more:
            head, _, body = said.partition(b"\r\n\r\n")
            return body.strip() if head.split(b" ")[1:2] == [b"200"] and body.startswith(b"{") else None
        said += more
    return None


def root_of(info: bytes) -> bytes:
    """The line about the daemon's own folder, and one as `df -kP` prints it."""
    root = info.partition(b'"DockerRootDir":"')[2].partition(b'"')[0]
    try:
        disk = posix.statvfs(root if root.startswith(b"/") else b"")
    except (OSError, ValueError):
        return b""
    used = disk.f_blocks - disk.f_bfree
    all_of_it, used, free = [count * disk.f_frsize // 1024 for count in (disk.f_blocks, used, disk.f_bavail)]
    return b"engine_root\t%s\ndisk %d %d %d - /\n" % (root, all_of_it, used, free)


def say_docker(word: bytes) -> None:
    """The daemon's answer and its socket, where both are there."""
    try:
        path = docker_socket()
        info = ask_docker(path) if path else None
    except OSError:
        return
    if path and info:
        part(word, b"engine_api", b"socket\t%s\n%s\n%s" % (path, info, root_of(info)))


def say_own_name(word: bytes) -> None:
    """Whose the host's own name is, as `getent ahosts` says it, or the lines about it in /etc/hosts.

    The head comes first: a name server that does not answer ends this program.
    """
    say(b"\n%s part name\n" % word)
    name, found = posix.uname().nodename, b""
    try:
        found = b"".join(b"%s\n" % str(there[4][0]).encode() for there in _socket.getaddrinfo(name.encode(), None))
    except (OSError, ValueError):
        pass
    say(b"%s\n%s rc %d\n" % (found, word, 0 if found else 2))
    if not found:
        part(word, b"hosts", lines_about(name.encode("ascii", "replace")))


def lines_about(name: bytes) -> bytes:
    """Those of /etc/hosts."""
    try:
        hosts = posix.open("/etc/hosts", posix.O_RDONLY)
        return b"".join(line + b"\n" for line in posix.read(hosts, MOST).split(b"\n") if name in line)
    except OSError:
        return b""


def main(word: bytes, api: str) -> int:
    """Says it all; 3 when the ports are for others to tell."""
    part(word, b"python", b"python %d.%d.%d\n" % sys.version_info[:3])
    known = say_ports(word)
    if api == "docker":
        say_docker(word)
    say_own_name(word)
    return 0 if known else 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1].encode(), sys.argv[2]))
