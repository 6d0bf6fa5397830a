"""The files people write: read, where every way this can fail is a Problem, and begun for them."""

from __future__ import annotations

import sys
from pathlib import Path

from distui.errors import Problem, SpecError
from distui.files import NotAFile, make_private, new_file, open_to_read, reason, writing
from distui.spec.yaml.nodes import Source, place
from distui.spec.yaml.problems import nearest

MAX_BYTES = 8 << 20
_HANDED_OVER = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""What a shell opened for distui, a pipe as a rule: `distui plan <(make-job)`."""


def read_text(path: str, *, any_bytes: bool = False) -> str:
    """The text of a file, or of standard input for `-`, without the mark that editors of Windows put in front.

    `any_bytes`: what is not UTF-8 is taken as U+FFFD. Raises SpecError.
    """
    try:
        data = _read(path)
    except (OSError, ValueError) as error:
        raise _failed(path, _why(path, error)) from None
    if len(data) > MAX_BYTES:
        raise _failed(path, f"larger than {MAX_BYTES >> 20} MiB; this can't be the right file")
    try:
        return data.decode(errors="replace" if any_bytes else "strict").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise _not_utf8(path, data, error) from None


def write_new(path: Path, name: str, text: str, *, hint: str = "give another name", private: bool = False) -> None:
    """A file that is not there yet, called `name` in messages, its folder made for us alone. Raises UsageError."""
    with writing(name, hint=hint):
        if private:
            make_private(path.parent)
        with new_file(path) as target:
            target.write(text.encode())


def _read(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    if path.startswith(_HANDED_OVER):
        with Path(path).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    with open_to_read(Path(path)) as file:
        return file.read(MAX_BYTES + 1)


def _why(path: str, error: OSError | ValueError) -> str:
    match error:
        case ValueError():
            return f"can't be read: {error}"
        case FileNotFoundError():
            return f"there is no such file{_similar(Path(path))}"
        case IsADirectoryError():
            return "this is a folder; name a file in it"
        case PermissionError():
            return "you may not read this file"
        case NotAFile():
            return f"this {error.strerror}; `-` reads standard input"
        case OSError():
            return reason(error)


def _similar(path: Path) -> str:
    """The file beside it with a name like this one: a suffix that most of them share makes none alike."""
    try:
        names = [p.name for p in path.parent.iterdir()]
    except OSError:
        return ""
    stem = nearest(path.stem, {Path(name).stem for name in names})
    alike = sorted(name for name in names if Path(name).stem == stem)
    return f", did you mean '{nearest(path.name, alike) or alike[0]}'?" if alike else ""


def _not_utf8(path: str, data: bytes, error: UnicodeDecodeError) -> SpecError:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _failed(path, "this is UTF-16; save it as UTF-8")
    before = data[: error.start].decode()
    line, column = place(before, len(before))
    snippet = Source(path, data.decode("utf-8", "replace")).line(line)
    message = f"the byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8"
    return SpecError((Problem(path, line, column, "", message, snippet),))


def _failed(path: str, message: str) -> SpecError:
    return SpecError((Problem(path, 0, 0, "", message),))
