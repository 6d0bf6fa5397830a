"""What a killed launch left, removed by its own token; this machine's own shell is the host."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from distui.errors import HostUnreachable
from distui.run import lease
from distui.run.folder import Claim, take
from distui.run.sweep import sweep
from distui.session import Completed
from distui.spec.inventory import Host


class Here:
    """A connector whose hosts are this machine, with a home of its own; h9 can't be reached."""

    def __init__(self, home: Path) -> None:
        self.home = home

    async def connect(self, host: str) -> Any:
        """Itself as the session."""
        if host == "h9":
            raise HostUnreachable(host, "h9 does not answer", code="timeout")
        return self

    async def run(self, argv: Sequence[str]) -> Completed:
        """Run a command with that home."""
        env = os.environ | {"HOME": str(self.home)}
        process = await asyncio.create_subprocess_exec(*argv, stdout=-1, stderr=-1, env=env)
        out, err = await process.communicate()
        return Completed(tuple(argv), process.returncode or 0, out, err)

    async def close(self) -> None:
        """Nothing to close."""


async def test_only_what_has_the_token_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Env files of the killed launch go with its folder; one of the same name by another launch stays."""
    freed: list[str] = []

    async def free(_: Any, token: str) -> None:
        freed.append(token)

    monkeypatch.setattr(lease, "free", free)
    here: Any = Here(tmp_path)
    hosts = [Host("h1"), Host("h2"), Host("h9")]
    for name, token in (("h1", "killed-1"), ("h2", "another-1")):
        folder = tmp_path / ".local/state/distui/hosts" / name / "r"
        assert (await take(here.run, name, str(folder), Claim("ann@desk", 0.0, token))).state == "taken"
        (folder / "env-0").write_text("SECRET=1\n")

    assert await sweep(here, hosts, "r", "") == ()
    assert await sweep(here, hosts, "r", "killed-1") == ("h1",)
    assert freed == ["killed-1", "killed-1"]
    top = tmp_path / ".local/state/distui/hosts"
    assert [(top / name / "r/env-0").exists() for name in ("h1", "h2")] == [False, True]
    assert await sweep(here, hosts, "r", "killed-1") == (), "it may be repeated"
