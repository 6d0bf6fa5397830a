"""Ending one process of a host: a question that shows exactly which, then SIGTERM or SIGKILL."""

from __future__ import annotations

from distui.amounts import memory_words
from distui.monitor.host_board import HostBoard
from distui.monitor.processes import Outcome, SeenProcess
from distui.plan.labels import format_ranks
from distui.tui.dialogs.confirm import Dialog
from distui.tui.frame.base import View
from distui.tui.frame.context import app_of
from distui.tui.hosts.tabs import Process, use_at


async def kill(view: View, host: HostBoard, found: Process) -> None:
    """Look what the process is now, ask, signal it, and say what became of it."""
    typed = view.typed
    seen = await view.backend.process(host.name, found.process.pid)
    if not view.may_ask(f"process {seen.pid} on {seen.host} is left alone: K asks again", typed):
        return
    signals = (("cancel", "Cancel"), ("term", "SIGTERM"), ("kill", "SIGKILL"))
    asked = Dialog(f"End process {seen.pid} on {seen.host}?", tuple(_lines(host, found, seen)), signals)
    answer = await view.app.push_screen_wait(asked)
    if not answer:
        return
    outcome = await view.backend.signal(seen, kill=answer == "kill")
    words, well = outcome_words(seen, outcome, kill=answer == "kill")
    app_of(view).tell(words, level="info" if well else "warning")
    app_of(view).probe((host.name,))


def _lines(host: HostBoard, found: Process, seen: SeenProcess) -> list[str]:
    size = found.process.memory_mib
    lines = [
        f"pid      {seen.pid}",
        f"command  {seen.command[:300]}",
        f"user     {seen.user}" + (f" (we are {seen.login})" if seen.login != seen.user else ""),
        f"host     {seen.host}",
        f"GPU      {found.gpu}" + (f", holds {memory_words(size)}" if size else ""),
    ]
    use = use_at(host, found)
    if use is not None:
        ranks = format_ranks(use.gpus.get(found.gpu) or use.ranks)
        lines.append(f"run      {use.run}" + (f" rank {ranks}" if ranks else "") + ": the run will fail")
    else:
        lines.append("run      none of distui's")
    return [*lines, "", "SIGTERM asks it to end; SIGKILL ends it at once, nothing is saved"]


def outcome_words(seen: SeenProcess, outcome: Outcome, *, kill: bool) -> tuple[str, bool]:
    """What became of it in a sentence, and whether that is what was wanted."""
    who = f"process {seen.pid} on {seen.host}"
    match outcome:
        case "ended":
            return f"{who} has ended", True
        case "gone":
            return f"{who} had ended before; nothing was signalled", True
        case "refused":
            return f"{seen.login} may not signal {who}: it is {seen.user}'s", False
        case "lives":
            more = "it is stuck in the kernel or its driver" if kill else "K again, SIGKILL"
            return f"{who} still lives 3 s after SIG{'KILL' if kill else 'TERM'}: {more}", False
