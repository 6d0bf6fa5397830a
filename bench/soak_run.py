"""One run of the soak: started, struck by its faults, read to its end, and compared with what is true of it."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.cluster import HOSTS, LabError
from bench.soak_faults import FAULTS, Fault
from bench.soak_stage import ELSEWHERE, HERE, Stage
from bench.soak_truth import End, Truth, Work, differ, in_order, lacking, said_to_miss
from bench.soak_viewer import Viewer

SECONDS = 240.0
"""What beginning, ending and each command of distui may take."""

JOB = {
    "version": 1,
    "name": "soak",
    "hosts": "h[1-3]",
    "image": "lab/python:1",
    "pull": "never",
    "stop_grace": "3s",
    "volumes": ["/mnt/pytorch:/shared"],
}


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault at one time, in seconds after all ranks have begun."""

    at: float
    until: float
    fault: str
    host: str

    @property
    def kind(self) -> Fault:
        """What it does."""
        return FAULTS[self.fault]

    def __str__(self) -> str:
        span = f"{self.at:.1f}-{self.until:.1f}s" if self.until > self.at else f"{self.at:.1f}s"
        return " ".join(filter(None, (self.fault, self.host, span if self.kind.when == "run" else "")))


@dataclass(frozen=True, slots=True)
class Turn:
    """What is drawn of one run: its work, whether it is left alone until its ranks have ended, its faults."""

    strikes: tuple[Strike, ...]
    work: Work
    detached: bool = False
    seed: int = 0

    def at(self, when: str) -> list[Strike]:
        """The strikes of that time of the run."""
        return [strike for strike in self.strikes if strike.kind.when == when]

    def __str__(self) -> str:
        head = f"{self.work}{', detached' * self.detached}"
        return "; ".join((head, *map(str, self.strikes)))


@dataclass(slots=True)
class Outcome:
    """What one run came to."""

    turn: Turn
    end: End | None = None
    lines: int = 0
    lost: int = 0
    missing: int = 0
    """Lines that a fault destroyed and that distui said were missing, or could not know of."""
    repeated: int = 0
    verdicts: int = 0
    """Wrong ones, and such on which readers disagree."""
    left: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        """Whether every promise was kept."""
        return not (self.lost or self.repeated or self.left or self.wrong)


class Soak(Stage):
    """One run after another, each with its strikes."""

    def run(self, number: int, turn: Turn) -> Outcome:
        """Start a run, let the faults strike, see it to its end and count."""
        outcome = Outcome(turn)
        began = time.monotonic()
        self.name, self.dice = f"soak{os.getpid()}-{number}", random.Random(turn.seed)
        witnesses = self.lab.share / self.name
        witnesses.mkdir()
        self.viewers.clear()
        try:
            self._start(turn, witnesses)
            self._let_strike(turn)
            self._to_the_end(outcome)
        except (RuntimeError, OSError, LabError, subprocess.SubprocessError) as error:
            outcome.wrong.append(str(error))
        finally:
            for viewer in self.viewers:
                viewer.close()
            self.lab.heal()
            self.ballast.unlink(missing_ok=True)
        self._count(outcome, witnesses)
        shutil.rmtree(witnesses)
        outcome.left = [f"{host.name}: {left}" for host in self.lab.hosts for left in host.remove_leftovers()]
        outcome.seconds = time.monotonic() - began
        return outcome

    # --- one run

    def _start(self, turn: Turn, witnesses: Path) -> None:
        """Return when all ranks have begun, by the files that they write; a run that is to be left alone is."""
        job = JOB | {"command": turn.work.command(f"/shared/{self.name}")}
        (self.places[HERE][0] / "job.yaml").write_text(json.dumps(job))
        self.program = self.spawn("run", "job.yaml", "--name", self.name, *["-d"] * turn.detached)
        end = time.monotonic() + SECONDS
        while not all((witnesses / str(rank)).exists() for rank in range(len(HOSTS))):
            if (self.program.over and self.program.status) or time.monotonic() > end:
                raise RuntimeError(f"the ranks did not begin: {self.program.stderr[-500:]}")
            time.sleep(0.05)
        if turn.detached:
            self.program.finish(SECONDS)

    def _running(self) -> Iterator[bool]:
        wanted = ("docker", "ps", "-q", "--filter", f"label=distui.run={self.name}")
        return (bool(host.out(*wanted)) for host in self.lab.hosts)

    def _let_strike(self, turn: Turn) -> None:
        """Begin and end each fault in its time."""
        strikes = turn.at("run")
        moments = [(s.at, True, s) for s in strikes] + [(s.until, False, s) for s in strikes if s.until > s.at]
        began = time.monotonic()
        for at, begins, strike in sorted(moments, key=lambda moment: (moment[0], not moment[1])):
            time.sleep(max(0.0, began + at - time.monotonic()))
            (strike.kind.begin if begins else strike.kind.end)(self, strike.host)

    def _to_the_end(self, outcome: Outcome) -> None:
        """Wait for the run's end; take it up again while there is something of it on the hosts, and stop what stays."""
        if outcome.turn.detached:
            self._leave_alone()
            self._strike_all(outcome.turn, "unread")
            verbs = ("attach",) if outcome.turn.at("cleanup") else ("attach", "wait", "stop")
            self.program = self.beside(self.dice.choice(verbs))
        self._strike_all(outcome.turn, "cleanup")
        for viewer in list(self.viewers):
            viewer.finish(2 * SECONDS)
        for verb in ("attach", "attach", "stop"):
            if not any(map(self.containers, HOSTS)):
                break
            self.beside(verb).finish(SECONDS)
        self._strike_all(outcome.turn, "ended")
        for viewer in self.viewers:
            viewer.finish(SECONDS)

    def _leave_alone(self) -> None:
        """Until all ranks have ended by themselves."""
        end = time.monotonic() + SECONDS
        while any(self._running()):
            if time.monotonic() > end:
                raise RuntimeError("the ranks did not end")
            time.sleep(0.1)

    def _strike_all(self, turn: Turn, when: str) -> None:
        for strike in turn.at(when):
            strike.kind.begin(self, strike.host)

    # --- what came of it

    def _count(self, outcome: Outcome, witnesses: Path) -> None:
        """Compare each rank's log with what the rank wrote beside it, and the verdict with what happened."""
        printed = [
            (witnesses / str(rank)).read_bytes() if (witnesses / str(rank)).exists() else b"" for rank in (0, 1, 2)
        ]
        for rank in range(len(HOSTS)):
            for place in self._read_at():
                self._count_log(outcome, rank, printed[rank], place)
        self._judge(outcome, printed)
        tracebacks = [v for v in self.viewers if "Traceback (most" in v.stderr]
        outcome.wrong += [f"{viewer}: {viewer.stderr[-1500:]}" for viewer in tracebacks]

    def _read_at(self) -> list[str]:
        """Where the run was followed to its end; who comes after it is told the end, and where its logs are."""
        others = (v for v in self._readers() if v.place == ELSEWHERE and v.began("follow"))
        return [HERE] + [ELSEWHERE] * any(v.end is not None for v in others)

    def _readers(self) -> list[Viewer]:
        """All but those elsewhere that came, or woke, when the run was being removed from its hosts."""
        removed = min(filter(None, (viewer.began("cleanup") for viewer in self.viewers)), default="")
        return [v for v in self.viewers if v.place == HERE or not (v.came_after(removed) or v.overslept)]

    def _count_log(self, outcome: Outcome, rank: int, printed: bytes, place: str) -> None:
        host, wanted = HOSTS[rank], outcome.turn.work.said(rank)
        log = self.log_of(host, place)
        had = log.read_bytes() if log.exists() else b""
        outcome.lines += had.count(b"\n")
        loses = {strike.kind.loses for strike in outcome.turn.strikes if strike.host == host} - {""}
        if not (in_order(had, wanted) if loses else wanted.startswith(had)):
            outcome.repeated += 1
            outcome.wrong.append(f"{host} {place}: line {first_difference(had, wanted)} of the log is wrong")
            return
        gone = lacking(had, printed)
        if not gone:
            return
        late = place == ELSEWHERE and (not had or self._slept())  # what is removed nobody can read any more
        if "unsaid" in loses or (("said" in loses or late) and said_to_miss(self._texts(place), host, rank)):
            outcome.missing += gone
            return
        outcome.lost += gone
        texts = list(self._texts(place))
        outcome.wrong.append(f"{host} {place}: {gone} lines lost{f', and not said: {texts}' * bool(loses)}")

    def _slept(self) -> bool:
        return any(viewer.slept for viewer in self.viewers)

    def _texts(self, place: str) -> Iterator[str]:
        return (text for viewer in self.viewers if viewer.place == place for text in viewer.texts())

    def _judge(self, outcome: Outcome, printed: list[bytes]) -> None:
        """Every end that was told must be the same, and a true one."""
        ends = {f"show {place}": self._shown(place) for place in self._read_at()}
        outcome.end = ends[f"show {HERE}"]
        output = {f"{number} {viewer}": viewer.end for number, viewer in enumerate(self._readers())}
        ends |= {who: end for who, end in output.items() if end is not None and end.state != "detached"}
        wrong = [differ(ends), *map(self._truth(outcome.turn, printed).objection, set(ends.values()))]
        outcome.verdicts = sum(map(bool, wrong))
        outcome.wrong += filter(None, (*wrong, *self._statuses(outcome.end)))

    def _statuses(self, end: End) -> Iterator[str]:
        """Programs that did not end with the exit code of the run's end."""
        for viewer in self._readers():
            right = (
                {0, end.exit} if end.state == "unknown" else {0}
            )  # of a stop: 6 where it could not see that nothing is left
            wanted = right if viewer.verb == "stop" else {end.exit}
            mine = viewer.place == HERE or viewer.end is not None
            if mine and not viewer.killed and viewer.status not in wanted and not self._only_started(viewer):
                yield f"{viewer} ended with {viewer.status}, not {max(wanted)}: {viewer.stderr[-500:]}"

    def _only_started(self, viewer: Viewer) -> bool:
        """Whether it was `run -d`."""
        return viewer.verb == "run" and viewer.status == 0 and (viewer.end is None or viewer.end.state == "detached")

    def _shown(self, place: str) -> End:
        """The recorded end; what shows none is an end that can't be true."""
        home, state = self.places[place]
        env = {"XDG_STATE_HOME": str(state)}
        done = self.lab.distui("show", self.name, "-o", "json", home=home, env=env, timeout=SECONDS)
        try:
            return End.of(json.loads(done.stdout))
        except (ValueError, KeyError, TypeError):
            return End(f"nothing shown ({done.stderr.strip()[-300:]})", done.returncode)

    def _truth(self, turn: Turn, printed: list[bytes]) -> Truth:
        """What happened, by the files that the ranks wrote and the faults that struck."""
        ranks = {HOSTS.index(s.host): s.kind for s in turn.strikes if s.host}
        return Truth(
            turn.work,
            whole=frozenset(r for r, text in enumerate(printed) if text == turn.work.said(r)),
            struck=frozenset(rank for rank, kind in ranks.items() if kind.ends),
            vanished=frozenset(rank for rank, kind in ranks.items() if kind.removes),
            stopped=any(strike.fault == "stopped" for strike in turn.strikes),
        )


def first_difference(log: bytes, wanted: bytes) -> int:
    """The number of the first line, from 1, in which they differ."""
    pairs = zip(log.split(b"\n"), wanted.split(b"\n"), strict=False)
    return next((number for number, (a, b) in enumerate(pairs, 1) if a != b), wanted.count(b"\n") + 1)
