"""IPv6 addresses as they are typed for ssh: no names of hosts, which can't have colons."""

from __future__ import annotations

from ipaddress import IPv6Address

from distui.frozen import frozen
from distui.regex import regex

_SIX = regex(
    r"(?:(?P<user>[^@\s\[\]]{1,64})@)?"
    r"(?:\[(?P<in>[0-9A-Fa-f]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[\w.-]+)?)\](?::(?P<port>[0-9]{1,5}))?"
    r"|(?P<bare>[0-9A-Fa-f]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[\w.-]+)?))"
)


@frozen
class SixLogin:
    """`user@[fd00::1]:2222`, taken apart."""

    addr: str
    user: str = ""
    port: str = ""

    @property
    def name(self) -> str:
        """What the host may be called in hosts.yaml."""
        return "ip-" + "".join(letter if letter.isalnum() else "-" for letter in self.addr)

    @property
    def advice(self) -> str:
        """What makes a host of it."""
        user, port = self.user and f" --user {self.user}", self.port and f" --port {self.port}"
        return f"distui hosts add NAME --addr {self.addr}{user}{port}"


def six_login(text: str) -> SixLogin | None:
    """An IPv6 address, also with a user or a port; None for anything else."""
    found = _SIX.fullmatch(text) if text.count(":") > 1 and len(text) < 200 else None
    if found is None:
        return None
    addr = found["in"] or found["bare"]
    try:
        IPv6Address(addr.partition("%")[0])
    except ValueError:
        return None
    return SixLogin(addr, found["user"] or "", found["port"] or "")
