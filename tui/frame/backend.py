"""What the app works at: everything it may ask of the core, as a protocol. It gets one in its constructor.

`ClusterBackend` is one over ssh (`distui/cluster/backend/backend.py`), tests have one over recorded events. Runs are
owned by the backend, outside the app: Textual cancels its workers on exit and does not wait for their cleanup.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from distui.cluster.backend.values import LiveRun
    from distui.cluster.jobs.job_files import Draft, JobFile
    from distui.cluster.why import Why
    from distui.doctor.images import Images
    from distui.doctor.reach import ReachReport
    from distui.doctor.smoke import PairResult
    from distui.facts.host import GpuProcess, ProbeResult
    from distui.monitor.containers import HostContainer
    from distui.monitor.figures import HostNews
    from distui.monitor.processes import Outcome, SeenProcess
    from distui.plan.model import NoPlan, RunPlan
    from distui.runs.hosts.discover import FoundRuns, FoundTask
    from distui.runs.hosts.remains import Remains
    from distui.runs.launch.gpu_users import GpuUser
    from distui.runs.launch.job_record import JobRecord
    from distui.runs.launch.preflight import Preflight
    from distui.runs.report.history import RunRow
    from distui.runs.store.masking import Mask
    from distui.runs.store.runs import StoredRun
    from distui.session import Completed
    from distui.spec.hosts.inventory import Host, HostPick
    from distui.spec.job.job import Job


class Backend(Protocol):
    """Everything the app may ask for. Methods that fail raise DistuiError with words to show."""

    title: str
    """The inventory's path, or how the hosts were named."""
    owner: str
    readonly: bool
    stop_on_exit: bool
    """Whether runs end with the app, since their hosts do (the demo): quitting can't detach."""
    hosts: tuple[Host, ...]
    leaves_out: bool
    """Whether there are other hosts than these (`-H`): runs may be there, too."""
    history: Path | None
    """Where typed commands are kept from one session to the next; None: nowhere."""
    groups: Mapping[str, tuple[str, ...]]
    """The inventory's groups, with those of their hosts that are worked at; empty ones are left out."""

    async def probe(self, names: Sequence[str], on_result: Callable[[str, ProbeResult], None]) -> None:
        """Probe hosts side by side; `on_result` is called as each answers. Facts are kept in `facts`."""

    @property
    def facts(self) -> Mapping[str, ProbeResult]:
        """The newest probe of each host."""

    async def images(self, names: Sequence[str] = (), hosts: Sequence[str] = ()) -> Images:
        """The ids of images on hosts: of these on those, else those of the jobs here on all hosts that answered."""

    async def reach(self) -> ReachReport | None:
        """Prove that the hosts that answered reach each other, on the network a run over all would choose."""

    async def smoke(self, job: Job, on_pair: Callable[[PairResult], None]) -> tuple[PairResult, ...]:
        """An all-reduce between neighbours of all hosts that answered, in the job's image. Starts containers and
        removes them, also when the app is closed meanwhile."""

    async def preflight(self, plan: RunPlan) -> Preflight:
        """The checks that come before a start, against this plan and its hosts as they are now; starts nothing."""

    async def containers(self, host: str) -> tuple[HostContainer, ...]:
        """Every container of a host, whoever started it."""

    def container_log(self, container: HostContainer) -> AsyncGenerator[bytes, None]:
        """Its last lines and what comes; ends when the log does. Close it to stop listening."""

    async def last_line(self, task: FoundTask) -> str:
        """What a task on a host said last, read from there; empty where that can't be read."""

    async def gpu_processes(self, host: str) -> tuple[GpuProcess, ...]:
        """What is on the GPUs of a host at this moment."""

    async def process(self, host: str, pid: int) -> SeenProcess:
        """What a process of a host is now. Raises NotFound when it has ended."""

    async def signal(self, seen: SeenProcess, *, kill: bool = False) -> Outcome:
        """SIGTERM, or SIGKILL, to exactly this process."""

    async def command(self, host: str, words: tuple[str, ...], *, timeout: float) -> Completed:
        """Run a command on a host and wait for it; a person was asked first. Raises HostError."""

    async def ssh_argv(self, host: str, container: HostContainer | None = None) -> tuple[str, ...]:
        """The command that opens a shell on a host, or in one of its containers."""

    def news(self) -> AsyncIterator[HostNews]:
        """Samples of every host once a second over one long-lived channel each, reconnecting; never ends."""

    def jobs(self) -> tuple[JobFile, ...]:
        """Job documents of `./*.yaml`, `./jobs/` and the config folder's `jobs/`."""

    def draft(self, text: str, path: str, name: str | None = None) -> Draft:
        """Read a job from the text of a file being edited."""

    def preview(self, job: Job, picks: Sequence[HostPick], *, run_id: str) -> RunPlan | NoPlan:
        """The plan, from the facts known now; pure and fast enough for every key press."""

    def pick(self, job: Job, marked: Sequence[str]) -> tuple[HostPick, ...]:
        """The hosts the job would run on: those marked, else those its file names. Raises UsageError."""

    def run_name(self, job: str) -> str:
        """A fresh name for a run of this job."""

    async def gpu_users(self, plan: RunPlan) -> tuple[GpuUser, ...]:
        """Who has GPUs of the plan now, so that they can only be shared; nobody where a host can't be asked."""

    async def launch(
        self, job: Job, plan: RunPlan, *, rerun_of: str = "", force: bool = False, text: str = ""
    ) -> LiveRun:
        """Start a plan; the backend owns the run. Secrets come from the environment: UsageError names missing ones.

        `rerun_of` names the run it takes the place of: `distui run` exits as the last of them. `force` shares GPUs
        that other runs use; without it such a run is refused. `text` is what the job was read from: it is kept with
        the run, unless it has a value of a secret in it.
        """

    def recorded_job(self, run: str) -> JobRecord | None:
        """The job a run was started with, and on which hosts; None when this machine did not record it."""

    def stored(self, run: str) -> StoredRun | None:
        """Where a run is recorded; None when this machine has nothing of it."""

    def mask(self, stored: StoredRun) -> Mask:
        """Hides values of secrets in what is recorded of a run. Reads files."""

    async def attach(self, run: str, say: Callable[[str], None]) -> LiveRun:
        """Follow a run that lives on its hosts, or the one this backend follows already; one that has ended by now is
        played again. `say` gets what is waited for: somebody elsewhere is to begin the run's next attempt.
        """

    def replay(self, run: str) -> LiveRun:
        """An ended run from its folder: the stored events, at once. Raises NotFound."""

    @property
    def following(self) -> Mapping[str, LiveRun]:
        """Runs this backend follows now, by name."""

    async def runs(self) -> tuple[tuple[RunRow, ...], FoundRuns]:
        """Recorded runs joined with those on the hosts, and first those that are only being started, or were left by a
        launch that was killed, as `distui ps -a` lists them. Hosts that runs without an end were started on are asked,
        too, unless the app was opened for chosen hosts.
        """

    async def stop(
        self, run: str, *, grace: float | None = None, of: str = "", say: Callable[[str], None] = lambda words: None
    ) -> tuple[str, ...]:
        """Stop a run this backend does not follow, drain and clean up, as `distui stop` does; returns what is left, in
        words. Another distui of this machine that follows it is waited for, and `say` hears what is done.

        Raises UsageError for a run that is neither this person's nor `of`, the owner that was asked about.
        """

    async def why(self, run: str, *, stacks: bool = False) -> Why:
        """Ask the ranks of a run that lives why it does not go on, or slowly; they go on as they are, and what they
        tell is kept in its folder. `stacks` asks for their calls also where nothing stands still.
        """

    async def remains(self, run: str) -> Remains:
        """What `prune` would remove: containers and folders on the hosts, the folder here. Removes nothing.

        Its `ranks` are those whose logs were not read to their end here.
        """

    async def prune(self, run: str) -> None:
        """Remove what an ended run left on the hosts, and its folder here."""
