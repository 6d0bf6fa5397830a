"""Verbs as docker, kubectl, gh and Slurm call them, and what they are called here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from distui.spec.yaml.problems import how_near, nearest

_RUNS: Mapping[str, str] = {
    "list": "ps", "ls": "ps", "status": "ps", "state": "ps", "runs": "ps", "jobs": "ps", "get": "ps", "squeue": "ps",
    "queue": "ps", "history": "ps -a", "sacct": "ps -a",
    "describe": "show", "inspect": "show", "info": "show", "result": "show", "report": "show --report",
    "log": "logs", "tail": "logs -f", "follow": "attach", "watch": "attach", "cancel": "stop", "abort": "stop",
    "end": "stop", "terminate": "stop", "down": "stop", "scancel": "stop", "delete": "rm", "del": "rm", "remove": "rm",
    "purge": "rm --purge", "clean": "rm", "prune": "rm", "start": "run", "launch": "run", "submit": "run",
    "apply": "run", "up": "run", "srun": "run", "sbatch": "run -d", "create": "job new",
    "init": "hosts add", "setup": "hosts add", "new": "job new", "validate": "job validate", "lint": "job validate",
    "check": "doctor", "preflight": "doctor", "diagnose": "doctor", "verify": "doctor", "nodes": "hosts ls",
    "host": "hosts", "inventory": "hosts ls", "add": "hosts add", "import": "hosts import", "export": "hosts export",
    "shell": "ssh", "login": "ssh", "sh": "ssh", "gpus": "top", "stats": "top", "nvidia-smi": "top", "facts": "probe",
    "ping": "probe", "sinfo": "probe", "images": "image ls", "push": "image push", "pull": "image push",
    "settings": "config show", "ui": "tui", "man": "help", "dry-run": "plan", "rerun": "run",
}  # fmt: skip
_IN_GROUPS: Mapping[str, str] = {
    "list": "ls", "get": "show", "describe": "show", "inspect": "show", "info": "show", "cat": "show", "print": "show",
    "delete": "rm", "del": "rm", "remove": "rm", "create": "new", "init": "new", "check": "validate",
    "lint": "validate", "verify": "validate", "set": "init", "edit": "init", "paths": "path", "copy": "push",
    "prune": "clean", "purge": "clean",
}  # fmt: skip


def suggest(word: str, known: Iterable[str], group: str = "") -> str:
    """`; did you mean 'probe'?`, or nothing. `group` is the verb whose verbs `known` are, "" for distui's own.

    A slip in another tool's word leads to our verb, too.
    """
    names = list(known)
    others = {w: meant for w, meant in (_IN_GROUPS if group else _RUNS).items() if meant.partition(" ")[0] in names}
    near = word.lower() if word.lower() in others else _nearest(word.lower(), names, others)
    return f"; did you mean '{others.get(near, near)}'?" if near else ""


def _nearest(word: str, names: Iterable[str], others: Iterable[str]) -> str:
    """The verb, or another tool's, that `word` is most like, or "". A verb of ours may be less like it."""
    found = [near for near in (nearest(word, names, 0.5), nearest(word, others, 0.7)) if near]
    return max(found, key=lambda near: how_near(word, near), default="")
