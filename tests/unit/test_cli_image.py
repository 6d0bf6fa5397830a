"""`distui image`: what is asked of whom, before any host is contacted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from distui.cli.jobs.images import PushLines, words
from distui.errors import HostCommandError, HostUnreachable
from distui.runs.images.push import Pushed
from distui.session import Completed

HOSTS = "version: 1\nhosts:\n  n[1-3]: {}\n  p1: {docker: process}\n"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("ls", "Not An Image"), "is not an image"),
        (("ls", "-x"), "no such option"),
        (("ls", "missing.yaml"), "missing.yaml"),
        (("push", "a@sha256:00"), "named by its digest"),
        (("push", "a:1", "--to", "n9"), "n9"),
        (("push", "a:1", "--from", "n9"), "there is no host 'n9'"),
        (("push", "a:1", "--to", "p1"), "none of these hosts has a container engine"),
        (("push", "plain.yaml"), "job plain names no image"),
        (("push", "a:1", "--readonly"), "image push is refused: read-only"),
        (("pull", "a:1"), "there is no `image` command 'pull'"),
    ],
)
def test_mistakes(cli: Any, args: tuple[str, ...], said: str) -> None:
    """Exit 2 or 7, with what to do; nothing was contacted."""
    Path("hosts.yaml").write_text(HOSTS)
    Path("plain.yaml").write_text("version: 1\nname: plain\ncommand: [x]\n")
    done = cli("image", *args)
    assert done.code in (2, 7)
    assert said.lower() in done.err.lower()


def test_a_host_that_does_not_say_what_it_has_is_asked_once(cli: Any, fake_hosts: Any) -> None:
    """It is told with its reason, as one that can't be reached is; the others are served."""
    Path("hosts.yaml").write_text(HOSTS)
    asked: list[str] = []
    facts = {"Id": "sha256:" + "a" * 64, "RootFS": {"Layers": ["sha256:" + "b" * 64]}, "Size": 5, "Config": {}}

    def answer(host: str, argv: Sequence[str]) -> Completed:
        asked.append(host)
        if host == "n2":
            raise HostCommandError(host, "n2: docker did not finish within 15 s", code="command_timeout")
        return Completed(tuple(argv), 0, json.dumps(facts).encode(), b"")

    fake_hosts(answer, n3=HostUnreachable("n3", "n3 refuses connections"))
    done = cli("image", "push", "a:1")
    assert done.code == 1
    assert "n2  failed: n2: docker did not finish within 15 s\nn3  failed: n3 refuses connections\n" in done.err
    assert "2 of 2 hosts did not get a:1" in done.err
    assert asked.count("n2") == 1


@pytest.mark.parametrize(
    ("pushed", "said"),
    [
        (Pushed("h", "present"), "already present"),
        (Pushed("h", "sending", 1_500_000, 3_000_000, 1, 4), "1.5 MB of ~3.0 MB, 1 of 4 layers"),
        (Pushed("h", "sending", 1_500_000, 2, 1, 4), "1.5 MB, 1 of 4 layers"),
        (Pushed("h", "loading", 1_500_000), "1.5 MB sent, unpacking"),
        (Pushed("h", "loaded", 1_500_000, 0, 1, 4), "now there: 1.5 MB sent, 1 of 4 layers"),
        (Pushed("h", "failed", words="no\x1b[2J room"), "failed: no"),
    ],
)
def test_words(pushed: Pushed, said: str) -> None:
    """How far a host is; nothing in it can steer a terminal."""
    assert words(pushed).startswith(said)
    assert "\x1b" not in words(pushed)


def test_lines_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """One line for each state and host, not one for each piece that is sent."""
    import sys

    from distui.cli.console import Console

    lines = PushLines(Console(sys.stdout, sys.stderr, False, False, 0), "table")
    for sent in range(1000):
        lines.show(Pushed("h1", "sending", sent))
    lines.show(Pushed("h1", "loading", 1000))
    lines.show(Pushed("h1", "loaded", 1000))
    assert len(capsys.readouterr().err.splitlines()) == 3
