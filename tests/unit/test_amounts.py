"""Counts, sizes and lengths of time for people."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from distui.amounts import counted, duration, gib, memory_words, size_words


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [(0, "host", "0 hosts"), (1, "host", "1 host"), (2, "host", "2 hosts"), (1, "process", "1 process"),
     (2, "process", "2 processes")],
)  # fmt: skip
def test_one_of_a_thing_is_not_several(count: int, noun: str, text: str) -> None:
    """`1 host`, as docker and kubectl write it, never `1 hosts`."""
    assert counted(count, noun) == text


def test_plurals_are_made_in_one_place() -> None:
    """A noun that is given its s where it is printed will miss it, or have it too many, somewhere else."""
    made = re.compile(r"""['"]e?s['"] \* \([^()]*(\([^()]*\)[^()]*)*!= 1\)""")
    root = Path(__file__).parents[2]
    files = [path for room in ("distui", "remote", "tui") for path in (root / room).rglob("*.py")]
    assert made.search("f\"{n} host{'s' * (len(n) != 1)}\"") is not None
    assert [str(path.relative_to(root)) for path in files if made.search(path.read_text("utf-8"))] == []


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (512, "512 B"), (999, "999 B"), (999.6, "1.0 kB"), (2048, "2.0 kB"), (9_960_000, "10 MB"),
     (77 << 30, "83 GB"), (1.2e12, "1.2 TB"), (5e15, "5000 TB")],
)  # fmt: skip
def test_bytes_are_decimal(count: float, text: str) -> None:
    """As disks are sold and networks are rated."""
    assert size_words(count) == text


@pytest.mark.parametrize(
    ("mib", "words", "number"),
    [(0, "0 MiB", "0"), (240, "240 MiB", "0.2"), (1024, "1.0 GiB", "1.0"), (7500, "7.3 GiB", "7.3"),
     (81559, "80 GiB", "80"), (2 << 20, "2048 GiB", "2048")],
)  # fmt: skip
def test_memory_is_binary(mib: int, words: str, number: str) -> None:
    """As nvidia-smi and free count."""
    assert (memory_words(mib), gib(mib)) == (words, number)


@pytest.mark.parametrize(
    ("seconds", "text", "coarse"),
    [(-1, "0s", "0s"), (0, "0s", "0s"), (0.04, "0.0s", "0s"), (94, "1m 34s", "94s"), (5, "5s", "5s"),
     (9.96, "10s", "10s"), (59.7, "1m", "60s"),
     (190, "3m 10s", "3m"), (3599.8, "1h", "60m"), (4364, "1h 12m", "72m"), (3605, "1h", "60m"),
     (266_400, "3d 2h", "3d"), (30 * 86400, "30d", "30d")],
)  # fmt: skip
def test_time_is_written_as_in_a_job_file(seconds: float, text: str, coarse: str) -> None:
    """At most two units; an age has one."""
    assert (duration(seconds), duration(seconds, coarse=True)) == (text, coarse)
