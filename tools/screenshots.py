"""Pictures of every screen for the docs, from real runs on the test cluster: `make screenshots` (root).

Brings a lab up, runs a good and a failing job through the app itself, and writes one SVG a screen to docs/screens/.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "docs" / "screens"
WAIT = 90.0
"""Seconds to wait for anything at the most."""


@dataclass(frozen=True, slots=True)
class _Look:
    """A window and a theme, and the screens to keep of it (all when empty)."""

    suffix: str
    size: tuple[int, int]
    theme: str = ""
    screens: tuple[str, ...] = ()


LOOKS = (
    _Look("", (120, 36)),
    _Look("-light", (120, 36), "distui-light", ("hosts", "run-failed")),
    _Look("-80x24", (80, 24), screens=("hosts", "launch", "run")),
    _Look("-200x50", (200, 50), screens=("hosts", "run")),
)

HOSTS = "version: 1\nhosts:\n  h[1-3]: {labels: {gpu: h100}}\ngroups:\n  h100: h[1-3]\n"

TRAIN = """\
version: 1
name: digits
hosts: h[1-2]
image: lab/pytorch:1
launcher: torchrun
ranks: {per_host: 2}
gpus_per_host: 2
backend: gloo
fabric: {kind: ib}
volumes: ["/mnt/pytorch:/pytorch"]
workdir: /pytorch/trainers
command: [mnist.py, --backend, gloo, --device, cpu, --epochs, "60", --log-every, "5"]
progress: {regex: 'step (?P<step>\\d+) loss (?P<loss>[\\d.]+)'}
"""

FAILS = """\
version: 1
name: oom
hosts: h[1-3]
image: lab/python:1
gpus_per_host: 1
ranks: {per_host: 1}
command:
  - sh
  - -c
  - |
    for i in 1 2 3 4 5 6; do echo "step $i loss 2.$((9 - i))"; sleep 0.3; done
    [ "$RANK" = 1 ] || sleep 60
    echo "Traceback (most recent call last):" >&2
    echo "  File \\"train.py\\", line 88, in step" >&2
    echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB" >&2
    exit 1
"""


def outside() -> int:
    """Bring a lab up and take the pictures from its login node."""
    sys.path.insert(0, str(ROOT / "tests"))
    from lab.lab import Lab  # type: ignore[import-not-found]  # beside the tests, not installed

    with Lab("shots") as lab, tempfile.TemporaryDirectory() as folder:
        lab.up(3)
        home = lab.ssh_home(Path(folder))
        shutil.copytree(ROOT / "trainers", lab.share / "trainers", ignore=shutil.ignore_patterns("__pycache__"))
        (home / "hosts.yaml").write_text(HOSTS)
        (home / "jobs").mkdir()
        (home / "jobs/digits.yaml").write_text(TRAIN)
        (home / "jobs/oom.yaml").write_text(FAILS)
        env = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "COLORTERM": "truecolor"}
        command = lab.command(sys.executable, str(Path(__file__).resolve()), "inside")
        return subprocess.run(command, cwd=home, env=env, check=False).returncode


async def inside() -> None:
    """The session that is photographed, in order."""
    OUT.mkdir(parents=True, exist_ok=True)
    for look in LOOKS:
        await _session(look)


async def _session(look: _Look) -> None:
    from distui import config
    from distui.cli import wiring
    from distui.cli.desk import CliDesk
    from distui.cli.settings import Settings
    from tui.app import DistuiApp

    environ = dict(os.environ)
    told = Settings(environ, Path.cwd(), config.load({}, environ, Path.cwd(), None))
    found = wiring.inventory(told)
    async with CliDesk(told, found, wiring.hosts_of(found, wiring.picks(found, told))) as desk:
        app = DistuiApp(desk, theme=look.theme)
        async with app.run_test(size=look.size) as pilot:
            camera = _Camera(app, pilot, look)
            await camera.tour()


class _Camera:
    """Drives the app by keys, as a person would, and keeps a picture of each screen."""

    def __init__(self, app: Any, pilot: Any, look: _Look) -> None:
        self.app, self.pilot, self.look = app, pilot, look

    async def tour(self) -> None:
        """Every screen, with a run that trains and one that fails."""
        await self.until("up ")
        await self.rest(3)
        self.shot("hosts")
        await self.keys("enter")
        await self.rest(2)
        self.shot("host-detail")
        await self.keys("escape", "2")
        await self.until("digits")
        self.shot("jobs")
        await self.keys("enter")
        await self.until("launch")
        await self.rest(2)
        self.shot("launch")
        await self.run_it()
        await self.until("SUCCEEDED", shot=("run", "step 40"))
        await self.keys("M")
        await self.rest(1)
        self.shot("merged")
        await self.keys("escape", "escape", "2")
        await self.rest(1)
        if "oom" not in self.text():  # the launch screen of the first job is still there
            await self.keys("escape")
        await self.until("oom")
        await self.keys("j", "enter")
        await self.rest(2)
        await self.run_it()
        await self.until("FAILED")
        await self.rest(1)
        self.shot("run-failed")
        await self.keys("escape", "3")
        await self.rest(2)
        self.shot("runs")
        await self.keys("4")
        await self.rest(2)
        self.shot("doctor")
        await self.keys("question_mark")
        await self.rest(1)
        self.shot("help")

    async def run_it(self) -> None:
        """L, and yes."""
        await self.keys("L")
        await self.rest(0.5)
        await self.keys("tab", "enter")

    async def keys(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
            await self.pilot.pause()

    async def rest(self, seconds: float) -> None:
        """Let figures come in: what is photographed is live."""
        await asyncio.sleep(seconds)
        await self.pilot.pause()

    def text(self) -> str:
        """What the screen shows now."""
        lines = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in line) for line in lines)

    async def until(self, words: str, *, shot: tuple[str, str] | None = None) -> None:
        """Wait until the screen shows `words`; take a picture on the way when `shot`'s words appear."""
        end = asyncio.get_running_loop().time() + WAIT
        while words not in self.text():
            if shot is not None and shot[1] in self.text():
                self.shot(shot[0])
                shot = None
            if asyncio.get_running_loop().time() > end:
                raise TimeoutError(f"the screen never showed {words!r}:\n{self.text()}")
            await self.rest(0.2)

    def shot(self, name: str) -> None:
        """One picture, when this look keeps one of that screen."""
        if self.look.screens and name not in self.look.screens:
            return
        target = OUT / f"{name}{self.look.suffix}.svg"
        picture = self.app.export_screenshot(title=f"distui {name}")
        target.write_text(re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL))  # no fonts from the network
        with contextlib.suppress(ValueError):
            print(f"wrote {target.relative_to(ROOT)}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["inside"]:
        asyncio.run(inside())
    else:
        sys.exit(outside())
