"""Disks that fill up while a run goes on: told in time, once, and once more when full."""

from __future__ import annotations

from distui.facts.host import Disk
from distui.runs.watch.disks import DiskWatch, worth_watching

GB = 10**9


def news_of(free: list[float], total: float = 100.0) -> list[str]:
    """What is said when a disk of `total` GB has this many GB free, second after second."""
    watch = DiskWatch()
    return [
        text
        for at, left in enumerate(free)
        for text in watch.news(float(at), {"/var/lib/docker": (int(left * GB), int(total * GB))})
    ]


def test_growth_is_reported_once_with_its_rate_then_that_it_is_full() -> None:
    """How much is free, how fast it goes, when it ends."""
    first, last = news_of([4.0, 3.0, 2.0, 1.0, 0.5, 0.0, 0.0])
    assert "/var/lib/docker fills up: 2.0 GB free, 1.0 GB less each second: full in 2s" in first
    assert "is full" in last


def test_room_for_hours_is_not_reported() -> None:
    """A checkpoint written to a large disk is no news, nor is a disk that does not change."""
    assert news_of([50.0, 49.9, 49.8, 49.7]) == []
    assert news_of([1.0] * 20) == []


def test_freed_and_filled_again_is_reported_again() -> None:
    """Only once there was room again."""
    assert len(news_of([4.0, 3.0, 2.0, 60.0, *[60.0] * 11, 40.0, 20.0, 5.0, 2.0, 1.0])) == 2


def test_growth_is_reported_though_the_host_s_clock_was_set_back() -> None:
    """By an hour; what was measured before is not kept for that hour."""
    watch, free = DiskWatch(), [50.0] * 20 + [4.0, 3.0, 2.0]
    texts = [
        text
        for second, left in enumerate(free)
        for text in watch.news(second if second > 4 else second + 3600.0, {"/": (int(left * GB), 100 * GB)})
    ]
    assert len(texts) == 1 and "full in" in texts[0]


def test_one_file_system_is_reported_once() -> None:
    """Two paths on it: the more exact one is named."""
    watch = DiskWatch()
    texts = [
        text
        for at, free in enumerate((4, 3, 2))
        for text in watch.news(float(at), {"/": (free * GB, 100 * GB), "/var/lib/docker": (free * GB, 100 * GB)})
    ]
    assert len(texts) == 1
    assert "/var/lib/docker" in texts[0]


def test_scratch_and_memory_are_not_watched() -> None:
    """The engine's folder and the home are."""
    disks = tuple(Disk(path, GB, GB) for path in ("/", "/root", "/dev/shm", "/tmp", "/var/lib/docker"))
    assert worth_watching(disks) == ("/", "/root", "/var/lib/docker")
