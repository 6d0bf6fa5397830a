"""Bare `distui` where there is no hosts.yaml: the screen that makes one, then the app over it with a new job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from distui.cli import wiring
from distui.cli.actions import demo, hosts_change
from distui.cli.console import Console
from distui.cli.runs import opening
from distui.cli.settings import Settings
from distui.cluster.backend.backend import ClusterBackend
from distui.cluster.hosts import first_hosts
from distui.cluster.hosts.first_hosts import Answer, FirstHost, look
from distui.cluster.hosts.inventory_file import InventoryFile
from distui.errors import ExitCode
from distui.homes import home
from distui.spec.hosts.inventory import Inventory

WAYS = (
    ("distui hosts import ssh-config --write", "creates hosts.yaml from the hosts in ~/.ssh/config"),
    ("distui hosts add NAME --addr ADDRESS", "creates hosts.yaml with one host, or adds a host"),
    ("distui demo", "needs no hosts: it starts two on this machine"),
)
"""What to begin with without a terminal."""


class FirstStart:
    """What the screen works at: hosts that other tools know, and the file that is written."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.found = look(home(settings.environ), settings.cwd)
        self.target = hosts_change.target(settings)

    async def ask(self, hosts: Sequence[FirstHost], on_answer: Callable[[str, Answer], None]) -> None:
        """See `first_hosts.ask`."""
        await first_hosts.ask(hosts, on_answer)

    def write(self, names: Sequence[str]) -> None:
        """Write hosts.yaml. Raises UsageError when nothing may be written, or it can't be."""
        self.settings.refuse_readonly("hosts.yaml")
        file = InventoryFile(self.target)
        if file.merge(self.found.chosen(names)):
            file.save()


def begin(settings: Settings, out: Console) -> int:
    """The screen, and what it leads to."""
    code, outcome = wiring.run_async(_pick(settings, FirstStart(settings)))
    match outcome:
        case "hosts":
            return opening.open_views(settings, out, "new job")
        case "demo":
            return demo.act(settings, out, docker=False, image="", epochs=8, count=2, headless=False)
        case None:
            return code


async def _pick(settings: Settings, start: FirstStart) -> tuple[int, Literal["hosts", "demo"] | None]:
    """The exit code, and what the screen led to."""
    from distui.tui.first.app import FirstApp
    from distui.tui.run_app import run_app

    backend = ClusterBackend(settings.places, Inventory(()), (), title="no hosts.yaml")
    async with backend:
        app = FirstApp(backend, start, **opening.look(settings))
        code = await run_app(app)
    return code, app.outcome


def off_a_terminal(out: Console) -> int:
    """How to begin, for one who can't see screens."""
    width = max(len(command) for command, _ in WAYS)
    for command, words in WAYS:
        out.say(f"{command:<{width}}  {words}")
    return ExitCode.USAGE
