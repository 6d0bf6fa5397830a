"""Opens files in folders that others may have written to: regular files only, never waiting, never without measure.

Opening a FIFO waits for its other end, a device may never end, and a file may be larger than the memory. Whatever lies
in the state or config folder is therefore opened here. Every way this fails is an OSError with its reason in words.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO, cast

from distui.errors import UsageError
from distui.whole import whole

MOST = 64 << 20
"""Bytes of a file that is read as a whole: the plan of 1,000 ranks is a tenth of it."""
MOST_LINES = 1 << 30
"""Bytes of a file that is read line by line."""
LONGEST = 16 << 20
"""Bytes of one line."""
_KINDS = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}

_ABSENT = "does not exist"


class NotAFile(OSError):
    """There is something, but no regular file."""


class NotOurs(OSError):
    """Somebody else may have written what is there: another login owns it, or others may write to it."""


class TooLarge(OSError):
    """A file is larger than what is ever written there."""


def real(path: Path) -> Path:
    """The same without links. Unlike `Path.resolve` it takes links that lead to each other, as those of others may."""
    return Path(os.path.realpath(path))


def exists(path: str | Path) -> bool:
    """Whether something is there; False of what can't be looked at, for which `Path.exists` and its like raise OSError:
    a name that is too long, as whole commands and sets of hosts are, or what is in a folder that may not be searched.
    """
    return _kind(path) != 0


def is_file(path: str | Path) -> bool:
    """Whether a regular file is there, or a link to one; as `exists`."""
    return _kind(path) == stat.S_IFREG


def is_folder(path: str | Path) -> bool:
    """Whether a folder is there, or a link to one; as `exists`."""
    return _kind(path) == stat.S_IFDIR


def _kind(path: str | Path) -> int:
    try:
        return stat.S_IFMT(Path(path).stat().st_mode)
    except (OSError, ValueError):
        return 0


def absent(path: str | Path) -> bool:
    """Whether surely nothing is there. Not so of what can't be looked at, as while a file server is away: whoever would
    write in its place, or take another file for it, reads it first and says why that fails.
    """
    return why_not_there(Path(path)) == _ABSENT


def why_not_there(path: Path) -> str:
    """Why nothing is to be seen there, in words that follow the path; empty where something is."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return _ABSENT
    except (OSError, ValueError) as error:
        return f"can't be looked at: {getattr(error, 'strerror', None) or error}"
    return ""


def why_no_folder(path: Path) -> str:
    """The same of what is to be a folder."""
    return "" if is_folder(path) else why_not_there(path) or "is not a folder"


def open_fd(path: str | Path, flags: int, mode: int = 0o600) -> int:
    """A descriptor of a regular file, as from os.open, and closed on exec; to read, of /dev/null, too. Never waits.

    Raises OSError: IsADirectoryError for a folder, NotAFile for what is no regular file.
    """
    try:
        handle = os.open(path, flags | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK, mode)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket; a FIFO without a reader, opened to write
            raise NotAFile(error.errno, "is not a regular file", str(path)) from None
        raise
    try:
        _refuse_others(os.fstat(handle), path, reads=not flags & (os.O_WRONLY | os.O_RDWR))
    except OSError:
        os.close(handle)
        raise
    return handle


def _refuse_others(status: os.stat_result, path: str | Path, *, reads: bool) -> None:
    mode = status.st_mode
    if reads and stat.S_ISCHR(mode) and status.st_rdev == Path(os.devnull).stat().st_rdev:
        return  # how users say "no file", as in `UserKnownHostsFile /dev/null`
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise NotAFile(errno.EINVAL, f"is {kind}, not a regular file", str(path))


def _refuse_strangers(status: os.stat_result, path: str | Path) -> None:
    """Raise NotOurs for what belongs to neither us nor root; of root under sudo, to neither root nor its caller."""
    trusted = {0, os.geteuid()}
    if os.geteuid() == 0 and (caller := whole(os.environ.get("SUDO_UID", ""))) is not None:
        trusted.add(caller)
    if status.st_uid not in trusted:
        raise NotOurs(errno.EPERM, f"belongs to another login (uid {status.st_uid})", str(path))


def check_folder(path: Path) -> None:
    """Raise NotOurs for a folder that is not ours or that others may write to: they could put anything into it.

    One that is not there is right. Raises OSError for one that can't be looked at.
    """
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return
    _refuse_strangers(status, path)
    if status.st_mode & 0o022:
        mode = stat.S_IMODE(status.st_mode)
        raise NotOurs(errno.EPERM, f"can be written to by others (mode {mode:04o})", str(path))


def make_private(folder: Path) -> None:
    """Make a folder and what lacks above it, each 0700 whatever the umask. Raises OSError, as `check_folder` does."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for level in reversed(missing):
        try:
            level.mkdir(mode=0o700)
        except FileExistsError:
            continue
    check_folder(missing[0] if missing else folder)


def lock_alone(handle: int, *, tries: int, pause: float) -> None:
    """Lock an open file or folder for whoever opened it alone; closing it lets go.

    Raises BlockingIOError where somebody else still has it after so many tries, `pause` seconds apart, and another
    OSError where it can't be locked (NFS).
    """
    for left in reversed(range(tries)):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if not left:
                raise
            time.sleep(pause)


def open_to_read(path: Path, *, buffering: int = -1) -> BinaryIO:
    """A regular file, to read bytes from. Raises OSError."""
    return os.fdopen(open_fd(path, os.O_RDONLY), "rb", buffering)


def open_private(path: Path, mode: str = "ab", buffering: int = -1) -> IO[bytes]:
    """A regular file to write bytes to, 0600 when it is made here. Raises OSError."""
    return cast("IO[bytes]", open(path, mode, buffering, opener=open_fd))


def read_bytes(path: Path, most: int = MOST, *, ours: bool = False) -> bytes:
    """All of a regular file. Raises OSError: TooLarge beyond `most` bytes; with `ours` NotOurs for another login's."""
    with open_to_read(path) as file:
        if ours:
            _refuse_strangers(os.fstat(file.fileno()), path)
        data = file.read(most + 1)
    if len(data) > most:
        raise TooLarge(errno.EFBIG, f"is larger than {_limit(most)}", str(path))
    return data


def _limit(most: int) -> str:
    return f"{most >> 20} MiB" if most >= 1 << 20 else f"{most >> 10} KiB"


def read_below(folder: Path, name: str, most: int) -> bytes:
    """All of the regular file `name`, a relative path, in a folder that may be a stranger's: no link in it is followed.

    Raises OSError: NotAFile for a link and for what is no file, TooLarge beyond `most` bytes.
    """
    *above, last = name.split("/")
    here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in above:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = below
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        with os.fdopen(os.open(last, flags, dir_fd=here), "rb") as file:
            _refuse_others(os.fstat(file.fileno()), folder / name, reads=False)
            data = file.read(most + 1)
    except OSError as error:
        error.filename = str(folder / name)
        if error.errno == errno.ELOOP:
            raise NotAFile(error.errno, "is a link, which is not followed here", error.filename) from None
        raise
    finally:
        os.close(here)
    if len(data) > most:
        raise TooLarge(errno.EFBIG, f"is larger than {_limit(most)}", str(folder / name))
    return data


def read_text(path: Path, most: int = MOST, errors: str = "strict") -> str:
    """All of a regular file as UTF-8, line ends as they are. Raises OSError, UnicodeDecodeError."""
    return read_bytes(path, most).decode("utf-8", errors)


def lines_of(path: Path) -> Iterator[bytes]:
    """The lines of a regular file, without their ends, of a file beyond MOST_LINES bytes the last ones.

    A line beyond LONGEST comes cut. Raises OSError when the file can't be opened or read.
    """
    with open_to_read(path) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - MOST_LINES))
        while line := file.readline(LONGEST):
            yield line.rstrip(b"\r\n")
            while line and not line.endswith(b"\n"):
                line = file.readline(LONGEST)


def last_bytes(path: Path, most: int) -> tuple[bytes, bool]:
    """The last `most` bytes of a regular file, and whether that is all of it. Raises OSError."""
    with open_to_read(path) as file:
        start = max(0, os.fstat(file.fileno()).st_size - most)
        file.seek(start)
        return file.read(most), start == 0


def first_lines(path: Path, most: int) -> list[bytes]:
    """The whole lines among the first `most` bytes of a regular file. Raises OSError."""
    with open_to_read(path) as file:
        head = file.read(most)
    return head[: head.rfind(b"\n") + 1].splitlines()


def tail_lines(path: Path, most: int) -> list[bytes]:
    """The whole lines among the last `most` bytes of a regular file; none where it is not there or can't be read."""
    try:
        data, whole = last_bytes(path, most)
    except OSError:
        return []
    return data.splitlines()[0 if whole else 1 :]


def lines_back(path: Path, block: int) -> Iterator[list[bytes]]:
    """All lines of a regular file, its last ones first, in parts of about `block` bytes; each part in its order.

    None where the file is not there or can't be read. A line longer than a part comes without its beginning.
    """
    with contextlib.suppress(OSError), open_to_read(path) as file:
        at, rest, cut = file.seek(0, os.SEEK_END), b"", False
        while at:
            start = max(0, at - block)
            file.seek(start)
            data = file.read(at - start)
            if cut:  # what is read here of the line that `rest` is the end of
                data = data[: data.rfind(b"\n") + 1]
                cut = not data
            data, at = data + rest, start
            first, newline, others = data.partition(b"\n") if start else (b"", b"", data)
            cut = cut or len(first) >= block
            rest = (first + newline)[-block:]
            yield others.splitlines()


def reason(error: OSError | ValueError) -> str:
    """Why a file can't be read, in words that follow its name: `is a FIFO, not a regular file`."""
    match error:
        case NotAFile() | TooLarge() | NotOurs():
            return str(error.strerror)
        case IsADirectoryError():
            return "is a folder, not a file"
        case OSError():
            return f"can't be read: {error.strerror or error}"
        case _:
            return f"can't be read: {error}"


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file that is not there yet, to write bytes to; gone again when that fails. Raises OSError."""
    with path.open("xb") as file, removed_on_error(path):
        yield file
        file.flush()


@contextlib.contextmanager
def writing(path: Path | str, *, hint: str = "give another name") -> Iterator[None]:
    """Write a file, or a folder, in the block. Raises UsageError, with `hint` where it is there already."""
    try:
        yield
    except FileExistsError as error:
        raise UsageError(f"{path} exists", hint=hint) from error
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror or error}") from error


def replace_text(path: Path, text: str) -> None:
    """Write a file as UTF-8 by another name and a rename, so that it is whole or as it was; its mode stays.

    Others may have filled its folder, such as who wrote a repository that was cloned: the other name can't be guessed,
    and whatever is there by that name is neither followed nor written over. Raises OSError.
    """
    refuse_device(path)
    mode = _mode(path)
    part = path.with_name(f".{os.urandom(8).hex()}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(part, flags, 0o666 if mode is None else 0o600)
    with removed_on_error(part):
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode())
            if mode is not None:
                os.fchmod(handle, mode)
        part.replace(path)


def _mode(path: Path) -> int | None:
    """The permissions of a file, None where there is none."""
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_mode & 0o7777
    return None


@contextlib.contextmanager
def removed_on_error(path: Path) -> Iterator[None]:
    """Leave nothing of a file half written: it takes the room of a full disk, and the name of the next try."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


def refuse_device(path: Path) -> None:
    """Raise NotAFile for what a rename would replace and is no regular file: /dev/null, say, when we are root."""
    with contextlib.suppress(FileNotFoundError):
        _refuse_others(path.stat(), path, reads=False)


def write_private(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Write a 0600 file by temp name and rename, so that a crash leaves the old one or the new one. Raises OSError.

    With `sync` it is on the disk, and its name in the folder, when this returns.
    """
    refuse_device(path)
    temp = path.with_name(f".{path.name}.{os.getpid()}")
    handle = open_fd(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        temp.replace(path)
        if sync:
            _sync_folder(path.parent)
    except BaseException:
        temp.unlink(missing_ok=True)
        raise


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
