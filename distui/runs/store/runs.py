"""Runs on the control machine: one private folder each, under `$XDG_STATE_HOME/distui/runs/`.

<run>/plan.json        the plan as it was started (no secrets)
<run>/job.json         the job it was started with (no secrets), for running it again
<run>/job.yaml         the text of that job as the app had it, where no value of a secret stands in it
<run>/events.ndjson    every event but log lines, samples and progress
<run>/metrics.ndjson   samples and progress, one line a second each and host
<run>/series/          what was measured, for the whole run (`runs/series/`)
<run>/logs/            rank-00013.log, and node-00001.log for torchrun's own words; .times beside each (`times.py`)
<run>/follow/          per task: how far its log has been read (`logs.py`); `cut`: when logs were last cut back to that
<run>/why/             what ranks answered about a run that did not go on (`why_records.py`)
<run>/attempt-1/       plan, logs, follow and why of an attempt that failed; the newest attempt's are in <run> itself
<run>/verdict.json     how it ended (`end_record.py`), written before anything of it is removed from a host
<run>/summary.json     what lists show of an ended run (`summary.py`)
<run>/build/           what the build of the image said on each host
<run>/secrets.json     what tells the values of its secrets from others (`secret_checks.py`)
<run>/lock             held by the process that follows the run

<run>~1, <run>~2 ... are older runs whose name another has by now (`older.py`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from distui.config import refuse_strangers
from distui.errors import CheckFailed, NotFound, UsageError
from distui.facts.values import loads, loads_own
from distui.files import (
    NotAFile,
    check_folder,
    lines_of,
    lock_alone,
    make_private,
    open_fd,
    read_text,
    reason,
    write_private,
)
from distui.frozen import frozen
from distui.regex import regex
from distui.whole import whole

_TAKEN = "stop-taken"
"""A stop that was asked for and is read just now."""
KEPT_BUILDS = 50
"""Logs of builds that failed."""
_TRIED, _TRIED_BYTES = ".tried-", 64 << 10
"""A folder that shows whether runs can be recorded, and how much is written there: about what a start writes."""
_TRIED_OLD_S = 3600.0
"""Such a folder that is older was left by a process that was killed."""


@frozen
class StoredRun:
    """The folder of one run. Reading tolerates torn files: what can't be read counts as absent."""

    path: Path

    @property
    def run_id(self) -> str:
        """The run's id, which is the folder's name."""
        return self.path.name

    @property
    def changed(self) -> float:
        """When something was last made or removed in the folder; 0 for one that another process has just removed."""
        try:
            return self.path.stat().st_mtime
        except OSError:
            return 0.0

    @property
    def log_dir(self) -> Path:
        """Where the per-rank logs are."""
        return self.path / "logs"

    @property
    def series_dir(self) -> Path:
        """Where is what was measured, in all attempts."""
        return self.path / "series"

    def rank_log(self, rank: int) -> Path:
        """The log file of one rank."""
        return self.log_dir / f"rank-{rank:05d}.log"

    def node_log(self, task: int) -> Path:
        """The log file of a launcher's own words on one node (torchrun)."""
        return self.log_dir / f"node-{task:05d}.log"

    def build_log(self, host: str) -> Path:
        """What the build of the image said on a host. Makes the folder; raises OSError."""
        folder = self.path / "build"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder / f"{re.sub(r'[^A-Za-z0-9._@-]', '_', host)}.log"

    def keep_build_log(self, host: str) -> Path:
        """Put the log of a build that failed where it outlives a run that never was; returns its new place."""
        log = self.build_log(host)
        folder = self.path.parents[1] / "builds"
        kept = folder / f"{self.run_id}-{log.name}"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            log.replace(kept)
        except OSError:
            return log
        with contextlib.suppress(OSError):  # another distui may remove old ones, too
            for old in sorted(folder.iterdir(), key=lambda p: -p.stat().st_mtime)[KEPT_BUILDS:]:
                old.unlink(missing_ok=True)
        return kept

    def follow_file(self, task: int) -> Path:
        """How far the log of one task has been read."""
        return self.path / "follow" / f"task-{task:05d}.json"

    @property
    def cut_file(self) -> Path:
        """Written again whenever a log was cut back: who reads it on has read lines that are written again."""
        return self.path / "follow" / "cut"

    def attempt(self, number: int) -> StoredRun:
        """What is kept of an earlier attempt, in the same form."""
        return StoredRun(self.path / f"attempt-{number}")

    def earlier(self) -> tuple[int, ...]:
        """The attempts before the newest one of which something is kept here."""
        found = (p.name.removeprefix("attempt-") for p in self.path.glob("attempt-*") if p.is_dir())
        return tuple(sorted(number for name in found if (number := whole(name)) is not None))

    def set_aside(self, number: int) -> None:
        """Keep plan and logs of attempt `number`, which has ended, apart: the folder is then the next one's.

        Whoever was killed in it did not get to the plan, and it is done again. Raises OSError.
        """
        kept = self.attempt(number).path
        kept.mkdir(mode=0o700, exist_ok=True)
        for name in ("logs", "follow", "why", "verdict.json", "plan.json"):
            with contextlib.suppress(FileNotFoundError):
                _move(self.path / name, kept / name)
        for name in ("logs", "follow"):
            (self.path / name).mkdir(exist_ok=True, mode=0o700)

    def ask_stop(self, grace: float | None = None) -> None:
        """Leave word for the process that follows the run, which may have nothing on its hosts just now.

        `grace` is in seconds, None for the job's own. Raises CheckFailed when that can't be written: nothing was asked.
        """
        try:
            write_private(self.path / "stop", json.dumps({"grace": grace}).encode())
        except OSError as exc:
            message = f"can't ask the distui here that has {self.run_id}: {self.path} can't be written: {exc.strerror}"
            raise CheckFailed(message, hint="free some space there, or press Ctrl-C where the run was started") from exc

    @property
    def stop_waits(self) -> bool:
        """Whether a stop was asked for that nobody has taken yet."""
        return os.path.lexists(self.path / "stop")

    def stop_asked(self) -> StopRequest | None:
        """What somebody asked for since this was last called; None when nobody asked for a stop.

        One that is asked for meanwhile stays for the next call.
        """
        try:
            (self.path / "stop").rename(self.path / _TAKEN)
        except OSError:
            return None
        request = self._read(_TAKEN) or {}
        with contextlib.suppress(OSError):
            (self.path / _TAKEN).unlink()
        grace = request.get("grace")
        return StopRequest(float(grace) if isinstance(grace, int | float) and grace >= 0 else None)

    def read_plan(self) -> dict[str, Any] | None:
        """The plan as JSON, None when there is none or it is torn."""
        return self._read("plan.json")

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """Store the plan, by temp name and rename."""
        self._write("plan.json", plan)

    def read_job(self) -> dict[str, Any] | None:
        """The job as JSON (`job_record.py`), with its paths to the byte; None when there is none or it is torn."""
        return self._read("job.json", loads_own)

    def write_job(self, job: Mapping[str, Any]) -> None:
        """Store the job, by temp name and rename."""
        self._write("job.json", job)

    def read_job_text(self) -> str:
        """The text of the job; empty when it was not kept."""
        try:
            return read_text(self.path / "job.yaml", errors="replace")
        except OSError:
            return ""

    def write_job_text(self, text: str) -> None:
        """Store the text of the job, by temp name and rename."""
        write_private(self.path / "job.yaml", text.encode("utf-8", "replace"))

    def _read(self, name: str, parse: Callable[[str], Any] = loads) -> dict[str, Any] | None:
        try:
            value = parse(read_text(self.path / name))
        except (OSError, ValueError):
            return None
        return value if isinstance(value, dict) else None

    def _write(self, name: str, value: Mapping[str, Any]) -> None:
        write_private(self.path / name, json.dumps(value, indent=1, sort_keys=True).encode() + b"\n")

    def lines(self) -> Iterator[dict[str, Any] | None]:
        """The stored events as JSON objects, None for a line that is none, as a torn last one."""
        with contextlib.suppress(OSError):
            for line in lines_of(self.path / "events.ndjson"):
                try:
                    value = loads(line)
                except ValueError:
                    value = None
                yield value if isinstance(value, dict) else None

    def events(self) -> Iterator[dict[str, Any]]:
        """The stored events as JSON objects, of whatever shape: `recorded.py` makes values of them."""
        return (value for value in self.lines() if value is not None)

    def result(self) -> dict[str, Any] | None:
        """The last `result` event, None while the run has none."""
        return next((e for e in reversed(list(self.events())) if e.get("type") == "result"), None)

    @property
    def is_followed(self) -> bool:
        """Whether a process of this machine follows the run now."""
        try:
            lock = open_fd(self.path / "lock", os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # a file system without locks: nobody could follow a run that is kept there
            return False
        finally:
            os.close(lock)
        return False

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        """Hold the run's lock. Raises AlreadyFollowed when another distui on this machine follows the run, UsageError
        where nothing can be locked, OSError where the folder can't be written.
        """
        try:
            lock = open_fd(self.path / "lock", os.O_RDWR | os.O_CREAT)
        except (NotAFile, IsADirectoryError) as exc:
            raise UsageError(
                f"{self.path / 'lock'} {reason(exc)}", hint=f"remove it: `rm {self.path / 'lock'}`"
            ) from exc
        try:
            try:
                lock_alone(lock, tries=10, pause=0.05)  # `distui ps` looks for an instant: that is waited for
            except BlockingIOError as exc:
                holder = os.pread(lock, 64, 0).decode("ascii", "replace").strip()
                raise AlreadyFollowed(
                    f"run {self.run_id} is already followed here by process {holder or '?'}",
                    hint=f"`distui logs -f {self.run_id}` shows its logs beside it",
                ) from exc
            except OSError as exc:
                hint = "set XDG_STATE_HOME to a folder on a disk with file locks (Lustre: mounted with `flock`)"
                raise UsageError(f"{self.path / 'lock'} can't be locked: {exc.strerror or exc}", hint=hint) from exc
            with contextlib.suppress(OSError):  # a full disk: who has it is only a notice
                os.ftruncate(lock, 0)
                os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(lock)


class AlreadyFollowed(UsageError):
    """Another distui of this machine follows the run."""


@frozen
class StopRequest:
    """A stop that another process of this machine asks the run's owner for."""

    grace: float | None = None
    """Seconds; None for the job's own."""


class RunStore:
    """All runs known on this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root / "runs"

    def create(self, run_id: str) -> StoredRun:
        """A fresh folder for a run. Raises UsageError when one of that name is there already, and OSError; then nothing
        is made.
        """
        path = self.root / run_id
        try:
            make_private(self.root)
            path.mkdir(mode=0o700)
        except FileExistsError as exc:
            raise UsageError(
                f"a run named {run_id} is already recorded here, in {path}",
                hint=f"give another --name, or `distui rm --purge {run_id}`",
            ) from exc
        try:
            return self._with_folders(path)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise

    def try_recording(self) -> None:
        """Raise CheckFailed where no run can be recorded here. What is written to see that is removed."""
        try:
            make_private(self.root)
            self._remove_tried()
            with tempfile.TemporaryDirectory(prefix=_TRIED, dir=self.root) as folder:
                (Path(folder) / "plan.json").write_bytes(bytes(_TRIED_BYTES))
        except OSError as exc:
            raise cannot_write(self.root, exc) from exc

    def _remove_tried(self) -> None:
        """Remove what killed processes left of that. Raises OSError."""
        for left in self.root.glob(f"{_TRIED}*"):
            if StoredRun(left).changed < time.time() - _TRIED_OLD_S:
                shutil.rmtree(left, ignore_errors=True)

    def adopt(self, run_id: str) -> StoredRun:
        """The folder of a run that was found on the hosts; made when this machine does not have it yet.

        Raises NotFound for what is no run's name.
        """
        if not _is_name(run_id):
            raise NotFound(f"{run_id[:80]!r} is no run's name")
        path = self.root / run_id
        make_private(path)
        return self._with_folders(path)

    def get(self, run_id: str) -> StoredRun | None:
        """The folder of a run, None when this machine has none."""
        path = self.root / run_id
        if not _is_name(run_id) or not path.is_dir():
            return None
        refuse_strangers(path)
        return StoredRun(path)

    def need(self, run_id: str) -> StoredRun:
        """The folder of a run. Raises NotFound."""
        run = self.get(run_id)
        if run is None:
            raise NotFound(f"no run named {run_id} is recorded here", hint="`distui ps -a` lists the runs")
        return run

    def all(self) -> tuple[StoredRun, ...]:
        """Every run recorded here, that first in whose folder something was made last."""
        try:
            found = [StoredRun(p) for p in self.root.iterdir() if p.name[0] != "." and p.is_dir() and _is_ours(p)]
        except OSError:
            return ()
        return tuple(sorted(found, key=lambda one: one.changed, reverse=True))

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """While the block runs no other process of this machine changes which run a name is of."""
        make_private(self.root)
        root = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(root, fcntl.LOCK_EX)
            yield
        finally:
            os.close(root)

    def older_name(self, run_id: str) -> str:
        """The next free name for an older run of that name: `NAME~1`, which no run is started as."""
        return next(name for n in itertools.count(1) if not (self.root / (name := f"{run_id}~{n}")).exists())

    def remove(self, run_id: str) -> None:
        """Delete a run's folder here. Raises NotFound, CheckFailed where it can't be."""
        path = self.need(run_id).path
        try:
            try:
                shutil.rmtree(path)
            except OSError:  # another distui may just keep a summary there
                shutil.rmtree(path)
        except FileNotFoundError:  # somebody deletes it at the same time
            shutil.rmtree(path, ignore_errors=True)
        except OSError as exc:
            hint = "make that folder one that you may write to, and say it again"
            raise CheckFailed(f"can't delete {path}: {exc.strerror or exc}", hint=hint) from exc

    @staticmethod
    def _with_folders(path: Path) -> StoredRun:
        for name in ("logs", "follow"):
            (path / name).mkdir(exist_ok=True, mode=0o700)
        return StoredRun(path)


def _is_ours(path: Path) -> bool:
    try:
        check_folder(path)
    except OSError:
        return False
    return True


_NO_NAME = regex(r"[/\x00-\x1f\x7f]")


def _is_name(run_id: str) -> bool:
    return 0 < len(run_id) < 256 and run_id not in (".", "..") and not _NO_NAME.search(run_id)


def cannot_write(path: Path, error: OSError, then: str = "") -> CheckFailed:
    """The error of a run's folder that can't be written; `then` says what becomes of the run."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    first = "free some space there" if full else "make that folder one that you may write to"
    hint = f"{first}, or set XDG_STATE_HOME to a folder on another disk"
    return CheckFailed(f"can't write {path}: {error.strerror or error}{then}", hint=hint)


def _move(source: Path, target: Path) -> None:
    """Rename; of a file that is there already the one with more in it is kept. Raises OSError."""
    try:
        source.rename(target)
    except OSError as exc:
        if exc.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        for one in source.iterdir():
            there = target / one.name
            if one.is_dir() or not there.exists() or there.stat().st_size < one.stat().st_size:
                _move(one, there)
            else:
                one.unlink()
