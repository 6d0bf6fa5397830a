# ruff: noqa: UP031
# Python 3.6 runs this, and every import costs a start on the host.
"""The TCP connections of a host: what each has sent, and how much of that again, because it was lost on the way.

`ss` tells of each connection, to any login; where there is none, the kernel's counters tell of the whole host.
"""

import re
import subprocess

from distui.agent.ranks.processes import read

TYPE_CHECKING = False
if TYPE_CHECKING:  # the annotations below are text, which Python 3.6 never evaluates
    from typing import Any

COMMAND = ("ss", "-tinH", "state", "established")
SECONDS, BYTES = 3, 4 << 20
MOST = 256
"""Connections that are reported: those that have sent the most."""

FIGURES = ("bytes_sent", "data_segs_out", "retrans", "dsack_dups", "busy", "rwnd_limited")
"""Counters of a connection; the last two are milliseconds in which it had something to send, and in which the other end
had no room for it (`tcp_get_info_chrono_stats` of Linux's tcp.c).
"""
_FIGURE = re.compile(
    r"\b(bytes_sent|data_segs_out|dsack_dups|busy|rwnd_limited):(\d+)"
    r"|\bretrans:\d+/(\d+)|\brtt:([0-9.]+)|\bdelivery_rate (\d+)bps"
)


def connections() -> "dict[tuple[str, str], dict[str, float]]":
    """Both ends of each connection -> its counters, its round trip in ms, and the bytes that wait to be sent."""
    text = output()
    found = {}  # type: dict[tuple[str, str], dict[str, float]]
    ends = ("", "")
    for line in text.splitlines():
        if not line[:1].isspace():
            words = line.split()
            ends = (address(words[2]), address(words[3])) if len(words) > 3 else ("", "")
            if len(words) > 3 and not ends[0].startswith("127.") and words[1].isdigit():
                found[ends] = {"queued": int(words[1])}
        elif ends in found:
            found[ends].update(figures(line))
    return found


def output() -> str:
    """What ss prints; nothing where there is none."""
    try:
        done = subprocess.run(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout[:BYTES].decode("utf-8", "replace")


def address(word: str) -> str:
    """`[::ffff:10.0.0.1]:80` and `10.0.0.1%eth0:80` as `10.0.0.1:80`."""
    place, _, port = word.rpartition(":")
    place = place.strip("[]").partition("%")[0].strip("[]")
    return "%s:%s" % (place[7:] if place.startswith("::ffff:") else place, port)


def figures(line: str) -> "dict[str, float]":
    """Of the line that follows a connection."""
    found = {}  # type: dict[str, float]
    for name, count, again, trip, rate in _FIGURE.findall(line):
        if name:
            found[name] = int(count)
        elif again:
            found["retrans"] = int(again)
        elif rate:
            found["rate"] = int(rate) / 8
        else:
            found.setdefault("rtt", float(trip))
    return found


def grown(before: "dict[tuple[str, str], dict[str, float]]", now: "dict[tuple[str, str], dict[str, float]]") -> "Any":
    """Rows of own address, peer, bytes sent, segments sent, segments sent again, round trip (ms), bytes that wait,
    ms in which there was something to send that the other end had room for, and bytes a second as the kernel measured
    last how fast they got there.
    """
    rows = []  # type: list[tuple[str, str, float, float, float, float, float, float, float]]
    for ends, figure in now.items():
        old = before.get(ends, {})
        counts = [max(0, figure.get(name, 0) - old.get(name, 0)) for name in FIGURES]
        sent, segments, again, twice, busy, full = counts
        if sent:
            lost = max(0, again - twice)  # what the peer says to have got twice was never lost
            trip, rate = figure.get("rtt", 0.0), figure.get("rate", 0.0)
            rows.append((*ends, sent, segments, lost, trip, figure["queued"], max(0, busy - full), rate))
    return sorted(rows, key=lambda row: -row[2])[:MOST]


def host_counters() -> "dict[str, int]":
    """Segments that all connections of this host have sent, and sent again."""
    rows = [line.split() for line in read("/proc/net/snmp").splitlines() if line.startswith("Tcp:")]
    names = dict(zip(rows[0], rows[1])) if len(rows) == 2 else {}  # noqa: B905  # Python 3.10
    wanted = {"segments": "OutSegs", "again": "RetransSegs"}
    return {name: int(names[word]) for name, word in wanted.items() if names.get(word, "").isdigit()}
