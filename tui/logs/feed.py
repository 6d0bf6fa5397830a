"""What the run view knows of one run: its log buffers, samples, progress and merged log. No widgets."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from distui.cluster.backend.values import LiveRun
from distui.plan.model import Task
from distui.runs.lines.events import Event, GpuReading, HostSampled, LogLines, Progressed, RunEnded, RunOpened
from distui.runs.report.aftermath import Moment, aftermath, troubles
from distui.runs.report.rank_rows import RankRow, digits, rank_rows, short_name
from distui.runs.state.load import placed
from distui.runs.state.progress import figure_name
from distui.runs.state.reducer import RunState
from distui.runs.state.standstill import Standstill, standstill
from distui.tui.logs.buffer import LogBuffer
from distui.tui.logs.merged.log import MergedLog
from distui.tui.logs.progress import ProgressLog

KEPT_SAMPLES = 300


LAUNCHER = "torchrun"
"""What a launcher's own log is called."""


def launcher_id(task: Task) -> int:
    """The number of the log of a task's launcher, among those of ranks: below zero."""
    return -1 - task.index


class RunFeed:
    """Takes a run's batches in; panes and lists read from it."""

    def __init__(self, live: LiveRun, *, clock: Callable[[], float] = time.time) -> None:
        self.live = live
        self.clock = clock
        self._log_dir = live.stored.log_dir
        self.placed = placed(live.plan)
        self.buffers = {
            rank: LogBuffer(live.stored.rank_log(rank), rank, task.host, live.mask)
            for rank, (task, _) in self.placed.items()
        }
        self.samples: dict[str, deque[HostSampled]] = {h: deque(maxlen=KEPT_SAMPLES) for h in live.plan.hosts}
        self.launchers = {
            launcher_id(task): LogBuffer(live.stored.node_log(task.index), launcher_id(task), task.host, live.mask)
            for task in live.plan.tasks
            if live.plan.launcher == "torchrun"
        }
        self.sources = {**self.buffers, **self.launchers}
        """Every log there is: of ranks, and of launchers under their numbers."""
        names = {rank: short_name(name) for rank, name in live.plan.rank_names.items()}
        self._turn = deque(self.sources.values())
        self._at_end = 0
        """How many of them in a row had nothing more."""
        self.merged = MergedLog(self.sources, names=names | dict.fromkeys(self.launchers, LAUNCHER))
        self._merging: MergedLog | None = None
        """The same log merged again, until it is as far as the one that is shown."""
        self.progress: ProgressLog | None = None
        self._behind = True
        """Whether there is more of it than was read: of a run of days that takes minutes."""
        self._read_of_leading()
        self.grown: set[int] = set()
        """Ranks whose files grew since somebody last took this set."""
        self.over = False
        self.moments: list[Moment] = []
        """What went wrong and what followed, the oldest first, as it was when last asked for."""
        self._first_line: float | None = None

    def tag(self, rank: int) -> str:
        """What a rank is called in the title of a pane: its number, or `worker/1`."""
        if rank < 0:
            return LAUNCHER
        return self.live.plan.rank_names.get(rank) or f"{rank:0{digits(self.buffers)}d}"

    @property
    def state(self) -> RunState:
        """The run as its events left it, folded by the core."""
        return self.live.state

    @property
    def now(self) -> float:
        """The clock of a live run; for one that has ended, the moment it ended."""
        ended = self.state.ended
        return self.clock() if ended is None else ended.at

    @property
    def started(self) -> float | None:
        """When the run began; of one that was attached to later, when it said its first line."""
        began = self.state.started
        if not self.state.adopted or began is None:
            return began
        if self._first_line is None:
            said = [at for b in self.buffers.values() if (at := b.times(0, 1)[0]) is not None]
            self._first_line = min(said, default=None)
        return min(began, self._first_line or began)

    @property
    def stands(self) -> Standstill | None:
        """Since when a run that seems to run stands still, by the rule that `ps` and the output have, too."""
        return standstill(self.live.plan, self.state, self.now)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What belongs to the verdict of a run that has ended."""
        ended = self.state.ended
        return ended.warnings if ended is not None else ()

    @property
    def figure(self) -> str | None:
        """The group of the progress that is plotted: the loss, else the first that is no count."""
        return figure_name(self._values)

    @property
    def behind(self) -> bool:
        """Whether the log that has the progress is still being read."""
        return self.progress is not None and self._behind

    def value(self, name: str) -> float | None:
        """The newest value of a group of the progress."""
        return self._values.get(name)

    @property
    def seconds_per_step(self) -> float | None:
        """Time from step to step; None while that is not known."""
        if self._said is not None:
            return self._said.seconds_per_step
        return self.progress.seconds_per_step() if self.progress is not None else None

    @property
    def _values(self) -> Mapping[str, float]:
        if self._said is not None:
            return self._said.values
        last = self.progress.last if self.progress is not None else None
        return last.values if last is not None else {}

    @property
    def _said(self) -> Progressed | None:
        """What the run said last, as whoever follows it has read it, while its log is still being read here."""
        return self.state.progress if self.behind else None

    def lives(self, rank: int | None) -> bool:
        """Whether a rank, or a launcher's log, may still grow."""
        known = self.state.ranks.get(rank) if rank is not None else None
        return not self.over and (known is None or known.live)

    def recount(self) -> None:
        """What went wrong, and progress, as they are now."""
        self.moments = aftermath(self.state, keeps=self.live.plan.keeps) or troubles(self.state)
        self.grow_progress()

    def placed_by_host(self) -> list[Task]:
        """The first task of each host that has ranks."""
        found: dict[str, Task] = {}
        for task, _ in self.placed.values():
            found.setdefault(task.host, task)
        return list(found.values())

    def launcher(self, host: str) -> LogBuffer:
        """The launcher's own words on a host; what a task said that had no ranks, where there is no launcher."""
        task = next((t for t in self.live.plan.tasks if t.host == host), self.live.plan.tasks[0])
        known = self.launchers.get(launcher_id(task))
        return known or LogBuffer(self.live.stored.node_log(task.index), None, task.host, self.live.mask)

    def seed(self, host: str, samples: Sequence[HostSampled]) -> None:
        """What was known of a host before its run was looked at."""
        if not self.samples.get(host):
            self.samples[host] = deque(samples, maxlen=KEPT_SAMPLES)

    def take(self, batch: Sequence[Event]) -> None:
        """Note which logs grew, keep samples."""
        if self.live.stored.log_dir != self._log_dir:
            self._move()
        for event in batch:
            match event:
                case LogLines():
                    self.grown.add(event.rank if event.rank is not None else -1 - event.task)
                case HostSampled():
                    self.samples.setdefault(event.host, deque(maxlen=KEPT_SAMPLES)).append(event)
                case RunOpened() if event.attempt > 1:
                    self._renew()
                case RunEnded():
                    self.over = True
                    self.grown.update(self.sources)
                case _:
                    pass

    def _move(self) -> None:
        """The run is followed on in another folder, with a copy of what there is."""
        self._log_dir = self.live.stored.log_dir
        for buffer in self.sources.values():
            buffer.path = self._log_dir / buffer.path.name

    def _renew(self) -> None:
        """Another attempt has begun: the files are new ones."""
        for rank, buffer in self.sources.items():
            buffer.renew()
            self.grown.add(rank)

    def rows(self) -> list[RankRow]:
        """Every rank as a row."""
        spoke = frozenset(r for r, b in self.buffers.items() if b.count or b.behind)
        return rank_rows(self.live.plan, self.state, now=self.now, spoke=spoke)

    def gpus_of(self, row: RankRow) -> list[GpuReading]:
        """A rank's own GPUs as they were measured last."""
        found = self.samples.get(row.host)
        return [gpu for gpu in found[-1].gpus if gpu.index in row.gpus] if found else []

    def _leading(self) -> int | None:
        """The rank whose log has the progress: as whoever follows the run found it, else the lowest with a step."""
        known = self.state.progress.rank if self.state.progress is not None else min(self.state.steps, default=None)
        return known if known in self.buffers else min(self.buffers, default=None)

    def _read_of_leading(self) -> None:
        """Read the log of the rank that leads now, from its beginning where that is another one than before."""
        regex, rank = self.live.plan.progress, self._leading()
        if regex and rank is not None and (self.progress is None or self.progress.buffer.rank != rank):
            self.progress, self._behind = ProgressLog(regex, self.buffers[rank]), True

    def grow_progress(self, budget: float = 0.004) -> bool:
        """Read progress on. Whether more is to do."""
        self._read_of_leading()
        if self.progress is None:
            return False
        more = self.progress.buffer.grow(budget)
        self._behind = self.progress.grow(budget) or more
        return self._behind

    def grow_merged(self, budget: float = 0.008) -> bool:
        """Read the merged log on. Whether more is to do."""
        more = self._index(time.perf_counter() + budget / 2)
        more = self.merged.grow(self.clock(), budget, flush=self.over and not more) or more
        return self._merge_again(budget) or more

    def _merge_again(self, budget: float) -> bool:
        """Put in order what came in late, beside what is shown until that is done. Whether more is to do."""
        if not self.merged.scattered:
            self._merging = None
            return False
        self._merging = self._merging or self.merged.again()
        behind = self._merging.grow(self.clock(), budget, flush=self.over)
        if not behind and self._merging.reaches(self.merged):
            self.merged, self._merging = self._merging, None
        return behind

    def _index(self, until: float) -> bool:
        """Read logs in turn, a slice each, until then. Whether more is to do: not all of them are at their ends."""
        if self._at_end >= len(self._turn):
            self._at_end = 0
        while self._at_end < len(self._turn) and time.perf_counter() < until:
            self._at_end = 0 if self._turn[0].grow() else self._at_end + 1
            self._turn.rotate(-1)
        return self._at_end < len(self._turn)

    def totals(self) -> tuple[int | None, int]:
        """Lines of all ranks, None while some were counted neither by whoever followed the run nor here; bytes of all
        logs.
        """
        lines, counted, size = 0, True, 0
        for rank, buffer in self.sources.items():
            behind = buffer.behind
            size += buffer.size + behind
            if rank in self.buffers:
                known = self.state.ranks.get(rank)
                said = known.lines if known is not None else 0
                lines += max(said, buffer.count)
                counted = counted and (said > 0 or not behind)
        return lines if counted else None, size
