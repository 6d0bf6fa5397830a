"""Job files on this machine: read as text, written whole or not at all."""

from __future__ import annotations

from pathlib import Path

from distui.errors import UsageError


def read(path: Path) -> str:
    """The text of a file. Raises UsageError."""
    try:
        return path.read_text()
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8") from None
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror or error}") from None


def write(path: Path, text: str) -> None:
    """Write a file by another name and a rename. Raises UsageError."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text)
        part.replace(path)
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror or error}") from None


def save(path: Path, text: str, *, before: str | None) -> None:
    """Write a file that had the text `before` when it was read (None: there was none). Raises UsageError.

    What somebody else wrote meanwhile is not overwritten.
    """
    there = read(path) if path.exists() else None
    if before is None and there is not None:
        raise UsageError(f"{path} exists already", hint="give the job another name")
    if before is not None and there not in (None, before):
        raise UsageError(f"{path} was changed by somebody else", hint="e shows your text; save it under another name")
    write(path, text)
