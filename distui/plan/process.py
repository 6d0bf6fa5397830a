"""x"""

from __future__ import annotations

from distui.plan.model import Task


def start(task: Task, command: tuple[str, ...], *, workdir: str) -> tuple[str, ...]:
    return command


def workdir(path: str | None, home: str | None) -> str:
    return path or home or "/"
