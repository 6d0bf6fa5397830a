"""Whether a host's kernel killed something of a container for lack of memory, by the kernel's own log. Pure.

The engine's flag alone is not enough: containerd learns of the kill by an event that may come after the container's
end on a busy host, and Docker does not look back, so `State.OOMKilled` stays false. The kernel writes its line before
it kills (`dump_oom_victim` of Linux's mm/oom_kill.c; before 5.0 in other words). A login that may not read that log
(`kernel.dmesg_restrict`) may often read the journal (group `adm` or `systemd-journal`); else the flag is all there is.
"""

from __future__ import annotations

from typing import Literal

MemoryKill = Literal["", "limit", "host"]
"""`limit`: its container was at its limit. `host`: the host had no memory left."""

ASK = """
{ dmesg 2>/dev/null || journalctl -k -q -n 4000 --no-pager 2>/dev/null; } |
  grep -F -e "$1" | grep -F -e oom-kill: -e 'killed as a result of limit' | tail -n 1
"""
"""Prints the newest such line that names the container `$1`."""


def memory_kill(line: str, container: str) -> MemoryKill:
    """What the kernel's line says of a container, by its full id; nothing where it names another one."""
    if not container or container not in line:
        return ""
    if "oom-kill:" in line:
        return "limit" if "constraint=CONSTRAINT_MEMCG" in line else "host"
    return "limit" if "killed as a result of limit" in line else ""
