"""Job files on this machine: read as text, written whole or not at all."""

from __future__ import annotations

import difflib
from pathlib import Path

from distui.amounts import counted
from distui.errors import UsageError
from distui.files import absent, read_text, reason, replace_text, writing


def read(path: Path) -> str:
    """The text of a file. Raises UsageError."""
    try:
        return read_text(path).replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8") from None
    except OSError as error:
        raise UsageError(f"{path} {reason(error)}") from None


def write(path: Path, text: str) -> None:
    """Write a file by another name and a rename, with the line ends it has; a link stays one. Raises UsageError."""
    with writing(path):
        replace_text(path.resolve(), text.replace("\n", "\r\n") if _from_windows(path) else text)


def _from_windows(path: Path) -> bool:
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError):
        return False
    return 0 < text.count("\n") == text.count("\r\n")


def changed(path: Path, before: str | None) -> bool:
    """Whether a file that had the text `before` (None: there was none) is another one now. Raises UsageError.

    One that is gone may be written again: nothing is lost.
    """
    return not absent(path) and read(path) != before


def difference(theirs: str, ours: str, most: int = 20) -> list[str]:
    """What would be different in the file, in lines of a diff."""
    found = difflib.unified_diff(theirs.splitlines(), ours.splitlines(), "theirs", "yours", lineterm="", n=0)
    lines = [line for line in found if not line.startswith("@@")]
    return lines if len(lines) <= most else [*lines[:most], f"and {counted(len(lines) - most, 'more line')}"]
