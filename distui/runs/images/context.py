"""From the job's `build:` to one content: the folder read here, once, and written as one archive for all hosts."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tarfile
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from distui.errors import CheckFailed, UsageError
from distui.files import reason, why_no_folder
from distui.frozen import frozen
from distui.homes import expanded
from distui.plan.content.build import built_name, content_hash
from distui.plan.content.tree import Entry, Tree, readable
from distui.plan.model import BuildPlan
from distui.runs.code.git.lock import GivenUp, go_on
from distui.runs.code.ignore import advice, ignore_lines, pattern_errors
from distui.runs.code.limits import Sized, refuse_too_deep, refuse_too_large
from distui.runs.code.scan import hashed, in_order, pieces
from distui.runs.images.dockerignore import DockerIgnore
from distui.spec.job.job import Build, Job

IGNORE = ".dockerignore"

MOST = 500_000
"""Files and folders of a context that are looked at: with more it is no folder to build from."""
ENOUGH = 50_000
"""Of one that is too large so many tell what is large in it."""

_Found = tuple[str, os.stat_result]


@frozen
class BuildSource:
    """What an image is built from: what the plan says of it, its files, and the folder to read them from."""

    plan: BuildPlan
    tree: Tree
    root: Path

    def archive(self, given_up: threading.Event | None = None) -> IO[bytes]:
        """The context as a tar archive in a file without a name, so that it is gone when it is closed. Blocking.

        Raises CheckFailed when a file is not what was planned, or there is no room for it, and GivenUp once that is
        set.
        """
        given_up = given_up or threading.Event()
        file = tempfile.TemporaryFile()  # noqa: SIM115  # the caller's
        try:
            with tarfile.open(fileobj=file, mode="w|", format=tarfile.PAX_FORMAT) as tar:
                for entry in self.tree.entries:
                    _add(tar, self.root, entry, given_up)
            file.flush()
        except OSError as exc:
            file.close()
            raise CheckFailed(f"build: can't write the context into {tempfile.gettempdir()}: {exc}") from exc
        except BaseException:
            file.close()
            raise
        return file


def read_build(job: Job, given_up: threading.Event | None = None) -> BuildSource | None:
    """What the job's image is built from; None when it is not built. Blocking.

    Raises UsageError for a folder that can't be read, is too large, has no such Dockerfile, or holds what no archive
    can, and GivenUp once that is set.
    """
    build = job.build
    if build is None:
        return None
    root = build_path(job)
    if what := why_no_folder(root):
        raise UsageError(f"build: {readable(str(root))} {what}", hint="paths are relative to the job file's folder")
    tree = _scan(root, build, given_up)
    plan = BuildPlan(
        context=build.context,
        content=content_hash(tree.id, build),
        files=len(tree.files),
        bytes=tree.size,
        dockerfile=build.dockerfile,
        args=build.args,
        target=build.target,
        where=build.where,
    )
    return BuildSource(plan, tree, root)


def image_of(job: Job) -> str | None:
    """The job's image; of one that is built without a name, the name it gets. Blocking, raises as `read_build`."""
    if job.image is not None:
        return job.image
    source = read_build(job)
    return built_name(job.name, source.plan.content) if source is not None else None


def build_path(job: Job) -> Path:
    """The context's folder, made absolute: relative to the job file's, else to where distui was started."""
    assert job.build is not None
    written = expanded(job.build.context)
    beside = Path(job.path).parent if job.path and job.path != "-" else Path()
    return (beside / written).absolute()


def _scan(root: Path, build: Build, given_up: threading.Event | None) -> Tree:
    dockerfile = os.path.normpath(build.dockerfile)
    try:
        with pattern_errors("build", IGNORE):
            ignored = DockerIgnore(_rules(root, dockerfile))
            walk = _walk(root, "", ignored, frozenset({dockerfile, IGNORE}), given_up)
            found = _bounded(walk, root, build.max_size)
        entries = [_entry(root, name, status, given_up) for name, status in found]
    except OSError as exc:
        raise UsageError(f"build: {readable(str(exc.filename or root))} {reason(exc)}", hint=advice(exc)) from exc
    if not any(e.path == dockerfile and e.kind != "folder" for e in entries):
        where = readable(str(root))
        raise UsageError(
            f"build: there is no {readable(build.dockerfile)} in {where}", hint="name it: dockerfile: PATH"
        )
    return Tree.of(entries)


def _bounded(walk: Iterator[_Found], root: Path, most: int) -> tuple[_Found, ...]:
    """What the walk finds. Raises UsageError where that has more than `most` bytes, or is too many: soon, so that no
    folder of data keeps anybody waiting.
    """
    found: list[_Found] = []
    sizes: list[Sized] = []
    total, shown = 0, readable(str(root))
    for name, status in walk:
        found.append((name, status))
        if stat.S_ISREG(status.st_mode):
            sizes.append((name, status.st_size))
            total += status.st_size
        if total > most and len(found) >= ENOUGH:
            refuse_too_large("build", shown, sizes, most, _leave_out, whole=False)
        if len(found) > MOST:
            first = Counter(name.partition("/")[0] for name, _ in found).most_common(1)[0][0]
            raise UsageError(f"build: {shown} holds more than {MOST} files", hint=_leave_out(first))
    refuse_too_large("build", shown, sizes, most, _leave_out)
    return tuple(found)


def _rules(root: Path, dockerfile: str) -> list[str]:
    """The Dockerfile's own ignore file goes before the context's, as in BuildKit."""
    for name in (f"{dockerfile}{IGNORE}", IGNORE):
        if (lines := ignore_lines(root, name)) is not None:
            return [lines[0].lstrip("\ufeff"), *lines[1:]] if lines else []
    return []


def _leave_out(path: str) -> str:
    pattern = "".join(f"\\{c}" if c in "*?[\\" else c for c in path.rstrip("/"))
    return f"leave it out: write {readable(pattern)} into {IGNORE}; for data there are `volumes`"


def _walk(
    root: Path, path: str, ignored: DockerIgnore, always: frozenset[str], given_up: threading.Event | None
) -> Iterator[_Found]:
    """What is sent, with what `stat` tells of it; of folders those that are empty."""
    refuse_too_deep(path, "build")
    with os.scandir(root / path if path else root) as items:
        for item in in_order(items, given_up):
            go_on(given_up)
            name = f"{path}/{item.name}" if path else item.name
            out = ignored.has(name) and name not in always
            status = item.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                if out and not ignored.takes_back and not any(a.startswith(f"{name}/") for a in always):
                    continue
                kept = False
                for below in _walk(root, name, ignored, always, given_up):
                    kept = True
                    yield below
                if not (kept or out):
                    yield name, status
            elif not out:
                yield name, status


def _entry(root: Path, name: str, status: os.stat_result, given_up: threading.Event | None) -> Entry:
    if stat.S_ISDIR(status.st_mode):
        return Entry(name, "folder")
    if stat.S_ISREG(status.st_mode):
        return hashed(root, name, status, what="build", given_up=given_up)
    if stat.S_ISLNK(status.st_mode):
        return Entry(name, "link", target=os.readlink(root / name))  # noqa: PTH115  # a Path would tidy it up
    raise UsageError(
        f"build: {readable(name)} is neither file, folder nor link", hint=f"leave it out: write it into {IGNORE}"
    )


def _add(tar: tarfile.TarFile, root: Path, entry: Entry, given_up: threading.Event) -> None:
    """One entry, as nobody's, so that engines on all hosts take the same thing for the same."""
    info = tarfile.TarInfo(entry.path)
    info.mode = 0o755 if entry.executable or entry.kind == "folder" else 0o644
    if entry.kind == "link":
        info.type, info.linkname = tarfile.SYMTYPE, entry.target
        tar.addfile(info)
    elif entry.kind == "folder":
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
    else:
        info.size = entry.size
        tar.addfile(info, io.BufferedReader(_Checked(root / entry.path, entry, given_up)))


class _Checked(io.RawIOBase):
    """A file that must still be what was planned, but for what was appended since."""

    def __init__(self, path: Path, entry: Entry, given_up: threading.Event) -> None:
        self._given_up = given_up
        self._pieces = pieces(path, most=entry.size)
        self._entry = entry
        self._digest = hashlib.sha256()
        self._rest = b""
        self._left = entry.size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        if self._given_up.is_set():
            raise GivenUp
        target = memoryview(buffer)  # type: ignore[arg-type]
        if not self._rest:
            try:
                self._rest = next(self._pieces, b"")
            except OSError as exc:
                raise self._changed() from exc
            self._digest.update(self._rest)
        count = min(len(target), len(self._rest))
        target[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        self._left -= count
        if count == 0 or (self._left == 0 and self._digest.hexdigest() != self._entry.sha256):
            raise self._changed()
        return count

    def _changed(self) -> CheckFailed:
        return CheckFailed(
            f"build: {readable(self._entry.path)} changed since the plan was made; nothing was built",
            hint="start again",
        )
