"""How to mend the finding under the cursor: its command to copy, or run where it is safe and after a question."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from distui.doctor.finding import Finding
from distui.doctor.fixes import Fix, fix_of
from distui.session import Completed
from distui.spec.hosts.inventory import Host
from distui.tui.dialogs.confirm import Dialog
from distui.tui.frame.actions import Action
from distui.tui.frame.base import View
from distui.tui.frame.context import app_of
from distui.tui.frame.parts import Part

LOOK_S, PULL_S = 30.0, 3600.0
"""Seconds that a command may take."""
EFFECTS = {
    "looks": "It only looks: nothing is changed by it.",
    "pulls": "It fetches the image on that host, as the start of a run would.",
    "changes": "It changes the host: distui does not run it. Copy it, and know what it does.",
}


class FixDialog(Dialog):
    """What was seen, what it means, what to do, and the command; dismisses with `copy`, `run` or ""."""

    def __init__(self, title: str, found: Finding, fix: Fix | None, pasted: str, *, readonly: bool) -> None:
        lines = [f"{label:<7}{words}" for label, words in (("saw", found.saw), ("means", found.means)) if words]
        lines += [f"do     {found.do}"] if found.do else []
        buttons = [("cancel", "Close")]
        if fix is not None:
            where = "here" if fix.where == "here" else f"on {found.host}"
            lines += ["", f"run    {pasted}", "", EFFECTS[fix.effect]]
            buttons.append(("copy", "Copy"))
            if fix.safe and not (readonly and fix.effect != "looks"):
                buttons.append(("run", f"Run {where}"))
        super().__init__(title, tuple(lines), tuple(buttons))


class Fixing(Part):
    """What can be done about a finding, from Doctor."""

    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("fix", "how to fix", ("f",), "View", "fix", footer=True,
               help="What to do about the finding, with its command to copy; a safe one is run after a question."),
    )  # fmt: skip

    def __init__(self, view: View, finding: Callable[[], Finding | None], again: Callable[[], None]) -> None:
        self.view = view
        self.finding = finding
        """The one under the cursor."""
        self.again = again
        """Asks again for what a command has changed."""

    @property
    def needed(self) -> bool:
        """Whether there is something to do about the finding under the cursor."""
        found = self.finding()
        return found is not None and found.verdict in ("warn", "fail", "pull")

    def action_fix(self) -> None:
        """The dialog."""
        found = self.finding()
        if found is None or not self.needed:
            app_of(self.view).tell("there is nothing to fix here; n goes to the next finding")
        else:
            self.view.work(self._ask(found), name="fix")

    async def _ask(self, found: Finding) -> None:
        backend = self.view.backend
        host = next((host for host in backend.hosts if host.name == found.host), Host(found.host))
        result = backend.facts.get(found.host)
        fix = fix_of(found, result, host) if result is not None else None
        pasted = fix.to_copy(await backend.ssh_argv(found.host)) if fix is not None else ""
        title = f"{found.host}: how to fix this"
        answer = await self.view.app.push_screen_wait(FixDialog(title, found, fix, pasted, readonly=backend.readonly))
        if fix is not None and answer == "copy":
            app_of(self.view).copy(pasted)
        elif fix is not None and answer == "run":
            ask = f"`{fix.text}` on {found.host}" if fix.effect == "pulls" else ""
            # Beside those of other findings.
            self.view.work(self._run(found.host, fix), name="run fix", alone=False, ask=ask)

    async def _run(self, host: str, fix: Fix) -> None:
        pulls = fix.effect == "pulls"
        if pulls:
            app_of(self.view).tell(f"{host} pulls; it may take minutes, and goes on when you go elsewhere")
        done = await self.view.backend.command(host, fix.words, timeout=PULL_S if pulls else LOOK_S)
        if done.ok and pulls:
            app_of(self.view).tell(f"{host} has it now")
            self.again()
        elif self.view.is_active:
            app_of(self.view).open_text(f"{host}: {fix.words[0]}", _said(fix, done))
        else:  # minutes later one may be busy elsewhere, or with a dialog
            last = (done.error_text or done.text).strip().splitlines()[-1:]
            ended = "has ended" if done.ok else f"failed with exit {done.status}"
            app_of(self.view).tell(": ".join([f"`{fix.text}` on {host} {ended}", *last]), level="warning")


def _said(fix: Fix, done: Completed) -> str:
    """The command, what it printed, and how it ended."""
    ended = () if done.ok else (f"exit {done.status}",)
    return "\n".join([f"$ {fix.text}", "", *filter(None, (done.text.rstrip(), done.error_text)), *ended])
