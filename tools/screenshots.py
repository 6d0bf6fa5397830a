"""Pictures of every screen for the docs, from real runs on the test cluster: `make screenshots` (root).

Brings a lab up, runs a good and a failing job through the app itself, and writes one SVG a screen to docs/screens/.
GPU figures come from stand-ins, and the 64 hosts are made up: no such machines are here.
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
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "docs" / "screens"
WAIT = 90.0
"""Seconds to wait for anything at the most."""
FRAMES = 30
"""Seconds after which the figures of the stand-in GPUs begin again."""
REPLAY = """\
while :; do for i in $(seq 0 29); do
  docker ps -q --filter label=distui.run | grep -q . || i=idle
  cp /.lab/host/frames/$i/gpus.csv /etc/lab/gpus.part && mv /etc/lab/gpus.part /etc/lab/gpus.csv
  sleep 1
done; done"""


@dataclass(frozen=True, slots=True)
class _Look:
    """A window and a theme; pictures get `suffix` after their name."""

    suffix: str = ""
    size: tuple[int, int] = (120, 36)
    theme: str = ""
    ascii: bool = False


PLAIN = _Look()
LIGHT = _Look("-light", theme="distui-light")
BESIDE = (
    LIGHT,
    _Look("-80x24", (80, 24)),
    _Look("-200x50", (200, 50)),
    _Look("-ansi", theme="ansi-dark"),
    _Look("-ascii", ascii=True),
)
"""The other ways in which hosts and a run are seen."""

HOSTS = """\
version: 1
hosts:
  h[1-3]: {labels: {gpu: h100}}
  h4: {}
groups:
  h100: h[1-3]
"""

TRAIN = """\
version: 1
name: digits
hosts: h[1-2]
image: lab/pytorch:1
launcher: torchrun
ranks: {per_host: 2}
gpus_per_host: 8
backend: gloo
fabric: {kind: ib}
volumes: ["/mnt/pytorch:/pytorch"]
workdir: /pytorch/trainers
command: [mnist.py, --backend, gloo, --device, cpu, --epochs, "6000", --log-every, "10", --lr, "0.00003"]
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
        for host in lab.hosts:
            _loaded(host)
        home = lab.ssh_home(Path(folder))
        shutil.copytree(ROOT / "trainers", lab.share / "trainers", ignore=shutil.ignore_patterns("__pycache__"))
        (home / "hosts.yaml").write_text(HOSTS)
        (home / "jobs").mkdir()
        (home / "jobs/digits.yaml").write_text(TRAIN)
        (home / "jobs/oom.yaml").write_text(FAILS)
        env = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "COLORTERM": "truecolor"}
        command = lab.command(sys.executable, str(Path(__file__).resolve()), "inside")
        return subprocess.run(command, cwd=home, env=env, check=False).returncode


def _loaded(host: Any) -> None:
    """Eight stand-in GPUs, which say that they work while a container of a run is on their host.

    On h3 a stranger has one, on h2 one is too warm: what remarks look like.
    """
    from lab.faults_machine import put_gpus  # type: ignore[import-not-found]
    from lab.gpus import write_gpus  # type: ignore[import-not-found]

    strangers = {7: 41_000} if host.name == "h3" else {}
    put_gpus(host, 8, strangers)
    frames = host.folder / "frames"
    for number in range(FRAMES):
        changes = {gpu: _busy(gpu, number, warm=(host.name, gpu) == ("h2", 5)) for gpu in range(8)}
        write_gpus(frames / str(number), host.index, 8, strangers, changes)
    write_gpus(frames / "idle", host.index, 8, strangers)
    host.exec(f"setsid sh -c '{REPLAY}' >/dev/null 2>&1 </dev/null &")


def _busy(gpu: int, frame: int, *, warm: bool) -> dict[str, object]:
    """What one GPU says in one second of work; every so often all wait for a checkpoint."""
    load = 97 - (frame * 7 + gpu * 3) % 6 if frame not in (11, 12) else 22
    return {
        "utilization.gpu": load,
        "memory.used": 77_900,
        "memory.free": 81_559 - 551 - 77_900,
        "temperature.gpu.tlimit": 3 if warm else 17,
        "temperature.gpu": 84 if warm else 69 + gpu * 5 % 4,
        "power.draw": f"{590 + load % 7 * 8:.2f}",
        "clocks.sm": 1980,
        "clocks.current.sm": 1980,
    }


async def inside() -> None:
    """The sessions that are photographed, in order: one run through all of them, then one that fails."""
    OUT.mkdir(parents=True, exist_ok=True)
    for look in (PLAIN, *BESIDE):
        await _first(look)
    async with _session(PLAIN) as camera:
        await camera.starting()
        await camera.training()
        await camera.hosts()
    for look in BESIDE:
        async with _session(look) as camera:
            await camera.around()
            await camera.beside()
    async with _session(PLAIN) as camera:
        await camera.failing()
        await camera.afterwards()
    for look in BESIDE:
        async with _session(look) as camera:
            await camera.ended()
    await _many()


def _settings() -> Any:
    from distui import config
    from distui.cli.settings import Settings

    environ = dict(os.environ)
    return Settings(environ, Path.cwd(), config.load({}, environ, Path.cwd(), None))


async def _first(look: _Look) -> None:
    """What is shown where there is no hosts.yaml: the hosts of ~/.ssh/config. Nothing is written."""
    from distui.cli.actions.first_start import FirstStart
    from distui.cluster.backend.backend import ClusterBackend
    from distui.spec.hosts.inventory import Inventory
    from distui.tui.first.app import FirstApp

    settings = _settings()
    async with ClusterBackend(settings.places, Inventory(()), (), title="no hosts.yaml") as backend:
        app = FirstApp(backend, FirstStart(settings), theme=look.theme, ascii=look.ascii)
        async with app.run_test(size=look.size) as pilot:
            camera = _Camera(app, pilot, look)
            await camera.until("answers in")
            await camera.rest(1)
            camera.shot("first")


@contextlib.asynccontextmanager
async def _session(look: _Look) -> AsyncIterator[_Camera]:
    from distui.cluster.backend.backend import ClusterBackend
    from distui.tui.app import DistuiApp

    settings = _settings()
    found = settings.selection.inventory()
    async with ClusterBackend(settings.places, found, found.chosen(settings.selection.picks(found))) as backend:
        app = DistuiApp(backend, theme=look.theme, ascii=look.ascii)
        async with app.run_test(size=look.size) as pilot:
            yield _Camera(app, pilot, look)


async def _many() -> None:
    """64 hosts: made-up values, because no such cluster is here; the picture's title says so."""
    sys.path.insert(0, str(ROOT / "tests" / "screens"))
    from fakes import FakeBackend, facts, gpu  # type: ignore[import-not-found]  # beside the tests

    from distui.facts.host import Gpus, HostDown, Trouble
    from distui.spec.hosts.inventory import Host
    from distui.tui.app import DistuiApp

    names = tuple(f"node{number:02}" for number in range(1, 65))
    with tempfile.TemporaryDirectory() as folder:
        backend = FakeBackend(Path(folder))
        backend.hosts = tuple(Host(name) for name in names)
        backend.groups = {"rack1": names[:32], "rack2": names[32:]}
        for number, name in enumerate(names, 1):
            cards = tuple(gpu(i, busy=(number * 37 + i * 11) % 100 if number % 3 else 0.0) for i in range(8))
            backend.answers[name] = facts(name, number, gpu=Gpus(cards))
        backend.answers["node40"] = HostDown("node40", Trouble("timeout", "no answer in 10 s"))
        backend.title = "64 made-up hosts"
        app = DistuiApp(backend)
        async with app.run_test(size=(200, 50)) as pilot:
            camera = _Camera(app, pilot, PLAIN)
            await camera.rest(3)
            await camera.keys("Z")
            await camera.rest(1)
            camera.shot("hosts-64-folded")


class _Camera:
    """Drives the app by keys, as a person would, and keeps a picture of each screen."""

    def __init__(self, app: Any, pilot: Any, look: _Look) -> None:
        self.app, self.pilot, self.look = app, pilot, look

    async def starting(self) -> None:
        """From the job to its start."""
        await self.until("3 up")
        await self.keys("2")
        await self.until("digits")
        self.shot("jobs")
        await self.keys("enter")
        await self.until("launch")
        await self.rest(2)
        self.shot("launch")
        await self.keys("L")
        await self.rest(0.5)
        self.shot("launch-confirm")
        await self.keys("tab", "enter")
        await self.until("step")

    async def training(self) -> None:
        """A run that trains."""
        await self.rest(25)
        self.shot("run")
        await self.newer()
        await self.keys("escape", "escape", "3", "enter")
        await self.until("loss")
        await self.keys("question_mark")
        await self.rest(1)
        self.shot("help")
        await self.keys("escape", "M")
        await self.rest(2)
        await self.keys("k", "k", "z")
        await self.rest(1)
        self.shot("merged")
        await self.keys("escape", "escape")

    async def hosts(self) -> None:
        """The hosts while it trains."""
        await self.keys("1", "r", "g", "j")
        await self.rest(20)
        self.shot("hosts")
        await self.keys("Z")
        await self.rest(1.5)
        self.shot("hosts-folded")
        await self.keys("Z", "g", "j", "enter")
        await self.tabs("gpu", "net", "", "containers", "facts", "log")
        await self.keys("escape", "j", "enter")
        await self.tabs("", "", "procs")

    async def tabs(self, *names: str) -> None:
        """The tabs of a host, those that have a name here."""
        for name in names:
            await self.rest(2)
            if name:
                self.shot(f"host-{name}")
            await self.keys("right_square_bracket")

    async def beside(self) -> None:
        """Hosts and the run in another window or theme, found on the hosts and followed from here."""
        await self.until("3 up")
        await self.rest(8)
        self.shot("hosts")
        await self.keys("2")
        await self.until("digits")
        await self.keys("enter")
        await self.rest(3)
        self.shot("launch")
        await self.keys("3")
        await self.until("digits-")
        await self.keys("enter")
        await self.until("loss")
        await self.rest(4)
        self.shot("run")
        await self.newer()

    async def around(self) -> None:
        """Beside the run that trains: the help over it, its merged log, a host, the jobs."""
        await self.until("3 up")
        await self.keys("3")
        await self.until("digits-")
        await self.keys("enter")
        await self.until("wrap off")
        await self.rest(4)
        await self.keys("question_mark")
        await self.until("type to find")
        await self.rest(1)
        self.shot("help")
        await self.keys("escape", "M")
        await self.until("fold on")
        await self.rest(2)
        await self.keys("k", "k", "z")
        await self.rest(1)
        self.shot("merged")
        await self.keys("escape", "escape", "1", "g", "j", "enter")
        await self.rest(6)
        self.shot("host-gpu")
        await self.keys("escape", "2")
        await self.until("digits")
        await self.rest(1)
        self.shot("jobs")
        await self.keys("1")

    async def newer(self) -> None:
        """From a run that trains: what it measured, what is not well, a finding and how to fix it, a job as text."""
        await self.keys("p")
        await self.until("Step time")
        await self.rest(2)
        self.shot("metrics")
        await self.keys("escape", "exclamation_mark")
        await self.until("problems")
        await self.rest(1)
        self.shot("problems")
        await self.keys("escape", "4")
        await self.until("hosts reach each other" if self.look.size[1] > 24 else "Reach")
        await self.rest(6)
        await self.keys("n", "f")
        await self.until("how to fix this")
        self.shot("doctor-fix")
        await self.keys("escape", "2")
        await self.until("digits")
        await self.keys("enter")
        await self.rest(2)
        await self.keys("left_square_bracket", *["down"] * 40, "l", "a")
        await self.rest(1)
        self.shot("launch-text")

    async def failing(self) -> None:
        """The training is stopped, as its GPUs are wanted; then a run whose rank 1 runs out of memory."""
        await self.until("3 up")
        await self.keys("3")
        await self.until("digits-")
        await self.keys("S")
        await self.rest(0.5)
        await self.keys("tab", "enter")
        await self.until("0 live")
        await self.keys("2")
        await self.until("oom")
        await self.keys("j", "enter")
        await self.rest(2)
        await self.run_it()
        await self.until("FAILED")
        await self.rest(2)
        self.shot("run-failed")
        await self.keys("d")
        await self.rest(1)
        self.shot("evidence")
        await self.keys("escape", "escape")

    async def afterwards(self) -> None:
        """What is told of runs and hosts without a run in front."""
        await self.keys("3", "r")
        await self.until("failed 1")
        await self.keys("g")
        await self.rest(1)
        self.shot("runs")
        await self.keys("space", "j", "space", "d")
        await self.rest(1)
        self.shot("compare")
        await self.keys("escape", "ctrl+p")
        await self.rest(1)
        self.shot("palette")
        await self.keys("escape", "4")
        await self.until("hosts reach each other")
        await self.rest(4)
        await self.keys("n")
        await self.rest(1)
        self.shot("doctor")
        await self.keys("slash", *"reach each", "enter", "enter")
        await self.rest(1)
        self.shot("reach")

    async def ended(self) -> None:
        """The runs that ended, in another window or theme: the one that failed is played again from what is kept."""
        await self.until("3 up")
        await self.keys("3", "r")
        await self.until("oom-")
        await self.keys("g")
        await self.rest(2)
        self.shot("runs")
        await self.keys("space", "j", "space", "d")
        await self.rest(1)
        self.shot("compare")
        await self.keys("escape", "slash", *"oom", "enter", "enter")
        await self.until("to the line" if self.look.size[1] > 24 else "FAILED")
        await self.rest(2)
        self.shot("run-failed")
        await self.keys("d")
        await self.rest(1)
        self.shot("evidence")
        await self.keys("escape", "4")
        await self.until("hosts reach each other" if self.look.size[1] > 24 else "Reach")
        await self.rest(4)
        await self.keys("n")
        await self.rest(1)
        self.shot("doctor")

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

    async def until(self, words: str) -> None:
        """Wait until the screen shows `words`."""
        end = asyncio.get_running_loop().time() + WAIT
        while words not in self.text():
            if asyncio.get_running_loop().time() > end:
                raise TimeoutError(f"the screen never showed {words!r}:\n{self.text()}")
            await self.rest(0.2)

    def shot(self, name: str) -> None:
        """One picture."""
        target = OUT / f"{name}{self.look.suffix}.svg"
        picture = self.app.export_screenshot(title=f"distui {name}")
        picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)  # no fonts from the network
        target.write_text(picture.replace("<text ", '<text xml:space="preserve" '))  # else leading blanks are lost
        print(f"wrote {target.relative_to(ROOT)}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["inside"]:
        asyncio.run(inside())
    else:
        sys.exit(outside())
