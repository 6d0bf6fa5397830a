"""Whatever a host, a file or a stranger says, every reader gives a value or the error it documents, and soon.

The readers of `facts` have the same in `test_facts_total.py`.
"""

from __future__ import annotations

import importlib
import inspect
import json
import math
import pkgutil
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import distui
from distui import amounts, config
from distui.agent.helper.wire import GREETING
from distui.cli.actions import ps
from distui.codec import read, write
from distui.doctor import mounts, smoke
from distui.doctor.redact import Redactor
from distui.errors import HostCommandError, NotFound, UsageError
from distui.facts.image import read_image, read_images
from distui.facts.values import load_json, loads, loads_own
from distui.monitor.board import Board
from distui.monitor.containers import _container as host_container
from distui.monitor.containers import _process as host_process
from distui.plan import labels, serialize
from distui.plan.command import docker, process
from distui.plan.labels import PREFIX
from distui.runs.follow import inspect as container
from distui.runs.follow import resume
from distui.runs.follow.files import process_exit
from distui.runs.follow.followed import Exited
from distui.runs.hosts import stop_word
from distui.runs.hosts.claims import marks
from distui.runs.hosts.discover import _container as found_task
from distui.runs.hosts.discover import _json_list, found_run, rfc3339
from distui.runs.hosts.discover import _process as found_process
from distui.runs.insight.hang.ras.report import read_report
from distui.runs.insight.seen.clocks import Reading
from distui.runs.launch.job_record import recorded_job
from distui.runs.lines import times
from distui.runs.lines.cri import CriParser
from distui.runs.lines.docker_frames import BadFrame, FrameParser, stamp_ns
from distui.runs.lines.event_json import to_json
from distui.runs.lines.events import RankChanged
from distui.runs.lines.frames import FrameReader, NoHelper
from distui.runs.lines.text import excerpt, safe, text_of
from distui.runs.lines.traceback import folds
from distui.runs.report import history, summary
from distui.runs.series.measure import Measure
from distui.runs.state import samples
from distui.runs.store import recorded
from distui.runs.store.runs import RunStore, StoredRun
from distui.runs.verdict.evidence import corrected
from distui.runs.watch.carried import HostCounters, carried_words
from distui.runs.watch.disks import DiskWatch
from distui.runs.watch.host_clock import HostClock
from distui.session import Completed
from distui.spec import choose
from distui.spec.hosts import hostfile, read_inventory
from distui.spec.hosts.inventory import Host
from distui.spec.imports import ansible_ranges, import_ansible, import_hosts, import_ssh
from distui.spec.job import overrides, read_job
from distui.spec.yaml import document
from distui.spec.yaml.nodes import Source
from distui.spec.yaml.problems import Problems
from distui.tui.run.words import started_words
from distui.whole import moment
from fakehosts.runs import plan_for

SECONDS = 20.0
"""Of processor time: a reader that takes so long for a small input would not end for a large one."""


@dataclass(frozen=True)
class Reader:
    """One reader, the errors it may raise, and whether it takes text, bytes or a JSON value."""

    call: Callable[[Any], object]
    raises: tuple[type[Exception], ...] = ()
    takes: str = "text"


def forms(text: str) -> None:
    """Every form that hosts can be imported from."""
    for form in ("ssh-config", "hostfile", "nodeset", "ansible"):
        for path in ("f", "f.yml"):
            with_errors(lambda: import_hosts.read(text, form, path), UsageError)  # type: ignore[arg-type]  # noqa: B023


def with_errors(call: Callable[[], object], *allowed: type[Exception]) -> None:
    try:
        call()
    except allowed:
        return


def cut(parser: Any, data: bytes) -> None:
    """Feed it in two pieces."""
    for part in (data[: len(data) // 2], data[len(data) // 2 :]):
        list(parser.feed(part)) if isinstance(parser, FrameReader) else parser.feed(part)


def settings_of(text: str) -> None:
    for key in config.KEYS.values():
        with_errors(lambda: key.read(text), UsageError)  # noqa: B023


def reports(text: str) -> None:
    """As it is, behind the line that text begins with, and as what JSON has of communicators."""
    for form in ("{}", "NCCL version 2.27.7\n{}", '{{"nccl_version": "2.29.2", "communicators": {}}}'):
        read_report(form.format(text))


def twice(output: Any) -> None:
    figures(output, output)


def figures(*outputs: Any) -> None:
    """All that is made of one host's figures, by a run that is followed, by `top` and by the app."""
    sampler, disks, carried, board = samples.Sampler(), DiskWatch(), HostCounters("h", ("eth0",), None), Board([HOST])
    measure = Measure(plan_for("h"))
    for at, output in enumerate(outputs, 1_795_226_800):
        try:
            sample = sampler.take(output)
        except ValueError:  # none of it can be read
            continue
        event = samples.host_sampled(float(at), "h", sample)
        list(disks.news(sample.at, sample.disks))
        carried.take(sample)
        board.sampled(event)
        assert all(math.isfinite(value) for _, value in measure.figures(event))
        written(event)
        for gpu in event.gpus:
            shown(gpu.xid_at)
    carried_words(carried.rows())
    carried.elsewhere()


def written(event: Any) -> None:
    """As a run's folder and `ndjson` have it: JSON that other programs read, too."""
    json.dumps(to_json(event, "r"), allow_nan=False, ensure_ascii=False).encode()


def shown(at: float | None) -> None:
    """A time in the words of `ps` and of the app."""
    if at is not None:
        amounts.moment(at)
    started_words(at)


def ended(exited: Exited) -> None:
    """The end of a task on our clock, whatever the host's clock says."""
    for said in (-1e300, -62e9, 0.0, 253e9, 1e300):
        clock = HostClock(0.0, 0.002, 1_795_226_800.0)
        if (reading := moment(said)) is not None:
            clock.take(Reading(1_795_226_801.0, reading, 1_795_226_801.1))
        for at in (exited.started_at, exited.finished_at):
            ours = corrected(at, 1000 * clock.offset)
            written(RankChanged(1.0, 0, "h", "exited", exit=exited.code, ended_at=ours))
            shown(ours)


def listed(tasks: Any) -> None:
    """A row of `ps`, of the app, and of a host's containers."""
    for task in tasks:
        shown(host_process(task).since)
        row = history.found_row(found_run(task.labels.run, [task]), None)
        ps._cells(row)
        json.dumps(ps.row_json(row), allow_nan=False, ensure_ascii=False).encode()
        shown(row.started)


def states(output: bytes) -> None:
    found = (found_process("h", "/root", state) for state in process.parse_states(output))
    listed(task for task in found if task is not None)


def containers(value: Any) -> None:
    task = found_task("h", value)
    listed([task] if task is not None else [])


def host_containers(value: Any) -> None:
    shown(host_container(HOST, value).since)


def inspected(value: Any) -> None:
    try:
        state = container.container_state(value)
    except ValueError:
        return
    ended(state.exited(0))


HOST = Host("h")

READERS: dict[str, Reader] = {
    "spec.yaml.document.parse": Reader(lambda t: document.parse(Source(t, "f"), Problems())),
    "spec.hosts.read_inventory.read_inventory": Reader(lambda t: read_inventory.read_inventory(t, "f"), (UsageError,)),
    "spec.job.read_job.read_job": Reader(lambda t: read_job.read_job(t, "f", environ={}), (UsageError,)),
    "spec.job.read_job.read_jobs": Reader(lambda t: read_job.read_jobs(t, "f", environ={}), (UsageError,)),
    "spec.hosts.hostfile.read_hostfile": Reader(lambda t: hostfile.read_hostfile(t, "f"), (UsageError,)),
    "spec.imports.import_hosts.read": Reader(forms),
    "spec.imports.import_ansible.read_ansible": Reader(lambda t: import_ansible.read_ansible(t, "f"), (UsageError,)),
    "spec.imports.import_ssh.read_ssh_config": Reader(lambda t: import_ssh.read_ssh_config(t, "f"), (UsageError,)),
    "spec.imports.ansible_ranges.parse": Reader(ansible_ranges.parse, (ansible_ranges.Wrong,)),
    "spec.choose.parse_label": Reader(choose.parse_label, (UsageError,)),
    "spec.job.overrides.parse_set": Reader(overrides.parse_set, (UsageError,)),
    "plan.command.docker.read_entrypoint": Reader(docker.read_entrypoint, (ValueError,)),
    "plan.labels.parse_ranks": Reader(labels.parse_ranks),
    "plan.labels.task_from_labels": Reader(labels.task_from_labels, takes="object"),
    "plan.command.process.parse_states": Reader(states, takes="bytes"),
    "plan.serialize.from_json": Reader(serialize.from_json, (UsageError,), takes="object"),
    "facts.values.loads": Reader(loads, (ValueError,)),
    "facts.values.loads_own": Reader(loads_own, (ValueError,)),
    "facts.image.read_image": Reader(read_image, (ValueError,)),
    "facts.image.read_images": Reader(read_images, (ValueError,)),
    "doctor.mounts.read_seen": Reader(mounts.read_seen),
    "doctor.smoke.read_answer": Reader(lambda t: smoke.read_answer([t, smoke.GREETING + t])),
    "runs.follow.inspect.container_state": Reader(inspected, takes="object"),
    "codec.read": Reader(partial(read, resume.ResumePoint), (ValueError,), takes="object"),
    "runs.state.samples.Sampler.take": Reader(twice, takes="object"),
    "runs.hosts.discover.found_task": Reader(containers, takes="object"),
    "runs.hosts.discover.json_list": Reader(
        lambda t: _json_list("h", Completed((), 0, t.encode("utf-8", "replace"), b"")), (HostCommandError,)
    ),
    "run.discover.rfc3339": Reader(lambda t: shown(rfc3339(t))),
    "monitor.containers.host_container": Reader(host_containers, takes="object"),
    "runs.lines.cri.CriParser.feed": Reader(lambda b: cut(CriParser(), b), takes="bytes"),
    "runs.lines.docker_frames.FrameParser.feed": Reader(lambda b: cut(FrameParser(), b), (BadFrame,), takes="bytes"),
    "runs.lines.docker_frames.stamp_ns": Reader(lambda b: stamp_ns(b), (ValueError,), takes="bytes"),
    "runs.lines.frames.FrameReader.feed": Reader(
        lambda b: cut(FrameReader("w"), GREETING + b"w\n" + b), (NoHelper,), takes="bytes"
    ),
    "runs.insight.hang.ras.report.read_report": Reader(reports),
    "runs.lines.times.Stamps.parse": Reader(lambda t: times.Stamps().parse(t)),
    "runs.hosts.stop_word.read_word": Reader(lambda t: stop_word.read_word(t, 2.0)),
    "runs.hosts.claims.marks.parse": Reader(lambda t: marks.parse(t, "h")),
    "runs.lines.text.safe": Reader(lambda t: (safe(t), safe(t, colour=True), excerpt(t.split("\n")))),
    "runs.lines.text.text_of": Reader(text_of, takes="bytes"),
    "doctor.redact.Redactor.text": Reader(Redactor((HOST,), {}).text),
    "runs.lines.traceback.folds": Reader(lambda t: folds(t.split("\n"))),
    "config.KEYS": Reader(settings_of),
}

ELSEWHERE = {
    "plan.command.docker.load": "an argv",
    "plan.content.tree.readable": "asks the disk",
    "plan.command.process.list_tasks": "an argv",
    "runs.state.load.load": "a figure of a value",
    "runs.state.load.readings": "a figure of a value",
    "runs.lines.times.read_times": "below, with the other stored files",
    "agent.metrics.read": "of the kernel's files, on the host",
    "spec.job.read_job.load_job": "read_job after a file",
    "spec.hosts.read_inventory.load_inventory": "read_inventory after a file",
    "spec.hosts.hostfile.load_hostfile": "read_hostfile after a file",
    "spec.yaml.files.read_text": "test_document: what is not a readable text is refused",
    "spec.hosts.groups.read_groups": "a part of read_inventory",
    "config.load": "KEYS, and files by spec.document",
}

WORDS = [
    *("version: 1\n", "hosts:\n", "  h[1-3]: {}\n", "name: x\n", "command: [a]\n", "- ", "&a "),
    *("*a", "<<: *a\n", "!!python/"),
    *("object/apply:os.system [id]\n", "{", "}", "[", "]", '"', "'", "|", ">", "%", "\t", "\0"),
    *("\ufeff", "\u202e", "../", "1e999"),
    *("Host ", "HostName ", "slots=", "[all:vars]\n", "ansible_host=", "${A:-", "$", "0-", ","),
    *("9" * 30, "9" * 5000, "²", "=", "\x1b]52;c;"),
    *('File "a.py", line 1, in f\n', "  raise\n", "2026-11-21T02:35:34.123456789Z", "stdout F "),
    *("[1,0]<stderr>:", "[default0]:[rank0]: ", "0: ", "[0] ", "  | ", "  +-+---- 1 ----\n"),
    *("P ", "running", "\n", "\n"),
    *("#0-0 (5f3a9c0e12345678) MISMATCH\n", "    0  1  2  4  8  8  RUNNING  MISMATCH\n"),
    *("#0-0 (5f) INCOMPLETE\n", "DEAD\n", "  Process 7 on node h managing GPU 5\n"),
    "  3 ranks have launched up to operation 9\n",
    "  Communicator ranks have different AllReduce operation counts\n",
    "  Rank 1 has launched up to operation 3 -- GPU 1 managed by process 7 on node h\n",
]  # fmt: skip
TEXT = st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=8)), max_size=20).map("".join)
BYTES = st.one_of(
    st.binary(max_size=120),
    st.lists(
        st.sampled_from([
            b"\1\0\0\0\0\0\0\x27", b"\2\0\0\0\0\0\0\x28", b"\3\0\0\0\0\0\0\1x", b"\1\0\0\0\xff\xff\xff\xff",
                         b"2026-11-21T02:35:34.123456789Z a", b"\xff\xff\xff\xff\0\1D\0", b"\0\0\0\2\0\1H\0{}", b"\n",
                         b" stdout F x\n", b'{"state": "running", "pid": [1]}\n', b"9999-99-99T99:99:99.9Z"]),
        max_size=8,
    ).map(b"".join),
)  # fmt: skip
KEYS = [
    *("State", "Status", "Running", "ExitCode", "OOMKilled", "StartedAt", "FinishedAt", "Config"),
    *("Labels", "HostConfig"),
    *("LogConfig", "Type", "Tty", "Id", "Name", "Created", "Image", "schema", "tasks", "networks"),
    *("code", "mounts", "plan"),
    *("written", "offset", "base", "mark", "top", "last", "open", "distrust", "done", "Entrypoint"),
    *("job", "picks", "file"),
    *("boot", "wall", "cpu", "memory", "gpus", "rows", "fields", "pcie", "xid", "amd", "net", "ib"),
    *("disks", "load", "error", "communicators", "hash", "size", "missing_ranks", "collective_counts", "pid"),
    *("ts", "type", "ranks", "rank", "host", "state", "sha256", "roles", "data", "hosts", "of", "files", "resume"),
    *(PREFIX + key for key in ("run", "task", "rank", "host", "attempt", "grace")),
]  # fmt: skip
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
    st.sampled_from(["running", "2026-11-21T02:35:34Z", "9999-99-99T99:99:99Z", "../..", serialize.SCHEMA, "result",
                     "\ud800", "a\udcff"]),
)  # fmt: skip
JSON = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, min_size=1, max_size=8)
    ),
    max_leaves=25,
)
OBJECT = st.dictionaries(st.sampled_from(KEYS), JSON, max_size=10)


def read(name: str, value: object) -> None:
    """Let the reader read; what it raises must be documented, and soon."""
    reader = READERS[name]
    began = time.process_time()
    with_errors(lambda: reader.call(value), *reader.raises)
    assert time.process_time() - began < SECONDS


def of_kind(kind: str) -> list[str]:
    return sorted(name for name, reader in READERS.items() if reader.takes == kind)


many = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("name", of_kind("text"))
@given(value=st.one_of(TEXT, JSON.map(json.dumps)))
@many
def test_any_text(name: str, value: str) -> None:
    read(name, value)


@pytest.mark.parametrize("name", of_kind("bytes"))
@given(value=BYTES)
@many
def test_any_bytes(name: str, value: bytes) -> None:
    read(name, value)


@pytest.mark.parametrize("name", of_kind("object"))
@given(value=OBJECT)
@example(value={"State": {"Status": "exited", "Running": False, "ExitCode": float("inf")}})
@example(value={"State": "x", "Config": 7, "HostConfig": "x"})
@example(value={"Config": {"Labels": {PREFIX + "run": 7, PREFIX + "task": None}}, "State": []})
@many
def test_any_object(name: str, value: dict[str, Any]) -> None:
    read(name, value)


NUMBERS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.integers(), max_size=3),
    st.sampled_from([10**18, 1e18, 10**30, 10**400, -1, 2**64 - 1, "9" * 400, "1e999", float("nan"), float("inf")]),
)  # fmt: skip
"""What a host may say where a number is meant."""
PAIRS = st.one_of(
    NUMBERS, st.dictionaries(st.sampled_from(["/", "eth0", "lo", "mlx5_0:1"]), st.lists(NUMBERS, max_size=3))
)
GPU = ("index", "utilization.gpu", "memory.used", "temperature.gpu", "pci.bus_id", "temperature.gpu.tlimit")
GPUS = st.fixed_dictionaries({
    "fields": st.just(list(GPU)),
    "rows": st.lists(st.lists(NUMBERS.map(str), min_size=6, max_size=6).map(",".join), max_size=2),
    "pcie": st.dictionaries(st.sampled_from(["0", "1"]), st.lists(NUMBERS, min_size=2, max_size=2)),
    "xid": st.dictionaries(st.sampled_from(["0", "1"]), st.lists(NUMBERS, min_size=2, max_size=2)),
})  # fmt: skip
FIGURES: dict[str, Any] = {
    "wall": 1_795_226_800.0, "boot": 50.0, "cpu": [1, 2], "load": "0.5", "memory": ["9", "5"],
    "net": {"eth0": [1, 2], "lo": [1, 2]}, "errors": {"eth0": 1}, "ib": {"mlx5_0:1": ["1", "2"]}, "amd": [],
    "disks": {"/": [1, 2]}, "gpus": {"pcie": {}, "xid": None, "fields": [], "rows": []},
}  # fmt: skip
ODD_FIGURES = st.fixed_dictionaries({}, optional={
    **dict.fromkeys(("wall", "boot", "load"), NUMBERS), "cpu": st.lists(NUMBERS),
    "memory": st.lists(NUMBERS),
    **dict.fromkeys(("net", "errors", "ib", "disks"), PAIRS), "gpus": GPUS, "lower": PAIRS,
    "amd": st.lists(st.lists(NUMBERS, min_size=5, max_size=5), max_size=2),
})  # fmt: skip


@given(odd=st.lists(ODD_FIGURES, min_size=1, max_size=4))
@example(odd=[{"disks": {"/": ["x", 1]}}])
@example(odd=[{"wall": "x"}])
@example(odd=[{"wall": float("nan")}, {}])
@example(odd=[{}, {}, {"net": {"eth0": ["a", "b"]}}])
@example(odd=[{"net": {"eth0": ["a", "b"]}}] * 3)
@example(odd=[{"net": {"eth0": [10**400, 1]}}] * 3)
@example(odd=[{}, {"boot": 50.0 + 1e-13, "net": {"eth0": [2**64 - 1, 2]}}])
@example(odd=[{"errors": [1]}])
@example(odd=[{"errors": {"eth0": "x"}}] * 3)
@example(odd=[{"amd": [["inf", "1", "1", "nan", "1"]]}])
@many
def test_any_figures(odd: list[dict[str, Any]]) -> None:
    """What makes no sense in a host's figures is unknown, or all of them are."""
    figures(*({**FIGURES, **one} for one in odd))


TIMES = st.one_of(
    NUMBERS,
    st.sampled_from([
        "2026-11-21T02:35:34Z", "9999-12-31T23:59:59-12:00", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z",
        "0002-01-01T00:00:00+23:59", "9999-12-31T23:59:60Z",
    ]),
)  # fmt: skip
OF_A_TASK = {PREFIX + "run": "r", PREFIX + "task": "0", PREFIX + "host": "h", PREFIX + "rank": "0"}


@given(began=TIMES, ended_at=TIMES, code=NUMBERS, running=st.booleans())
@example(began="2026-11-21T02:35:34Z", ended_at="9999-12-31T23:59:59-12:00", code=0, running=False)
@example(began="2026-11-21T02:35:34Z", ended_at="2026-11-21T02:35:34Z", code=10**400, running=False)
@many
def test_any_times_of_a_container(began: object, ended_at: object, code: object, running: bool) -> None:
    """A time that can't be said is unknown, in its events, in `ps` and in the app."""
    state = {"Status": "exited", "Running": running, "ExitCode": code, "StartedAt": began, "FinishedAt": ended_at}
    value = {"Id": "a", "State": state, "Config": {"Labels": OF_A_TASK}, "Created": began}
    inspected(value)
    containers(value)
    host_containers(value)


@given(began=NUMBERS, ended_at=NUMBERS, code=NUMBERS, pid=NUMBERS)
@example(began=10**399, ended_at=10**399, code=0, pid=1)
@example(began=10**29, ended_at=None, code=None, pid=1)
@example(began=1_795_226_800 * 10**9, ended_at=10**29, code=10**400, pid=True)
@many
def test_any_numbers_in_a_task_s_folder(began: object, ended_at: object, code: object, pid: object) -> None:
    """A rank writes what it likes into its own folder: `ps` of all runs goes on."""
    answer = {
        "state": "exited", "folder_index": 0, "pid": pid, "exit": code, "started_ns": began, "finished_ns": ended_at,
        "labels": OF_A_TASK,
    }  # fmt: skip
    states(json.dumps(answer).encode())
    ended(process_exit(0, f"{code} {ended_at} {began}"))


FILES = (
    "plan.json",
    "job.json",
    "job.yaml",
    "events.ndjson",
    "metrics.ndjson",
    "summary.json",
    "follow/task-00000.json",
)


@given(text=st.one_of(TEXT, JSON.map(json.dumps), st.lists(OBJECT.map(json.dumps), max_size=4).map("\n".join)))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_file_in_a_run_s_folder(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """A torn or foreign file counts as absent: the list of runs and the run itself can still be looked at."""
    run = StoredRun(tmp_path_factory.mktemp("run"))
    (run.path / "follow").mkdir()
    (run.path / "logs").mkdir()
    for name in FILES:
        (run.path / name).write_text(text, "utf-8", "replace")
    times.times_of(run.rank_log(0)).write_text(text, "utf-8", "replace")
    json.dumps(write(summary.summary(run)), ensure_ascii=False).encode()
    list(recorded.stored_events(run))
    recorded.stored_samples(run)
    recorded_job(run)
    times.read_times(times.times_of(run.rank_log(0)), 0, 5)


@given(value=st.recursive(st.text(st.characters()), lambda inner: st.dictionaries(st.text(st.characters()), inner)))
@example(value="\ud83d\ude00\ud83d")
@example(value="\\ud800\\\udcff")
@many
def test_half_a_character_is_none(value: Any) -> None:
    """Whatever was escaped comes back as it was, but for halves of characters: no file and no terminal takes them."""
    text = json.dumps(value)
    meant = re.sub("[\ud800-\udfff]", "\ufffd", json.dumps(json.loads(text), ensure_ascii=False))
    for form in (text, re.sub(r"(?<!\\)((?:\\\\)*\\u)d", r"\1D", text), text.encode()):
        assert json.dumps(loads(form), ensure_ascii=False) == json.dumps(json.loads(meant), ensure_ascii=False)
    assert load_json(json.dumps([value])) == [json.loads(meant)]
    with pytest.raises(ValueError, match="utf-8"):
        loads(b'"\xed\xa0\x80"')


BOMBS = [
    "a: &a [x]\n" + "".join(f"{c}: &{c} [*{p}, *{p}, *{p}]\n" for p, c in zip("abcdefghij", "bcdefghijk", strict=True)),
    "all: &a\n  children:\n    x: *a\n",
    "all: &g0 {children: {x: {}}}\n"
    + "".join(f"g{i}: &g{i} {{children: {{x: *g{i - 1}, y: *g{i - 1}}}}}\n" for i in range(1, 18)),
    "[" * 5000,
    "{a: " * 5000,
    "x: " + "9" * 100_000,
    "hosts: h[1-999999999]\n",
    "version: 1\nhosts:\n  h[1-999999]x[1-999999]: {}\n",
    "name: ${A:-" * 2000,
    "- " * 20_000,
    "x: |\n" + " y\n" * 50_000,
    "!!python/object/apply:os.system [touch /tmp/distui-was-here]\n",
    "\x1b[" + "0;" * 100_000,
    "\x1b]" * 50_000,
    "\r" * 200_000 + "x",
    'File "' * 20_000,
    "[" * 100_000 + "1",
    "+" * 100_000,
    "tried: after " * 20_000,
]  # fmt: skip


@pytest.mark.parametrize("name", of_kind("text"))
@pytest.mark.parametrize("number", range(len(BOMBS)))
def test_bombs(name: str, number: int) -> None:
    """What is small on paper and large when it is unfolded is refused or read in bounded time."""
    read(name, BOMBS[number])


def test_every_reader_is_read_here() -> None:
    """A new function that reads what others wrote joins the table, or says where it is tested."""
    facts = (Path(__file__).parent / "test_facts_total.py").read_text()
    missing = []
    for room in ("spec", "facts", "plan", "agent", "doctor", "runs", "monitor"):
        for found in pkgutil.walk_packages([str(Path(distui.__file__).parent / room)], f"distui.{room}."):
            module = importlib.import_module(found.name)
            for name, value in inspect.getmembers(module, inspect.isfunction):
                if value.__module__ != found.name or not re.match(r"(parse|read|load|from_json|task_from)", name):
                    continue
                if inspect.iscoroutinefunction(value):
                    continue
                key = f"{found.name.removeprefix('distui.')}.{name}"
                known = key in READERS or key in ELSEWHERE or (room == "facts" and re.search(rf"\b{name}[,(]", facts))
                missing += [] if known or _takes_values(value) else [key]
    assert missing == []


def _takes_values(function: Any) -> bool:
    """Whether it takes what another reader made of the text."""
    first = next(iter(inspect.signature(function).parameters.values()), None)
    return first is None or str(first.annotation) not in ("str", "bytes", "str | None", "Mapping[str, Any]")


def test_labels_of_a_stranger_are_no_way_to_another_folder(tmp_path: Path) -> None:
    """Whoever may start containers on a host writes what labels he likes."""
    base = {PREFIX + "run": "r", PREFIX + "task": "0", PREFIX + "host": "h"}
    assert labels.task_from_labels(base) is not None
    for bad in ("..", ".", "../../.ssh", "/etc", "a/b", "a\0", "a\nb", "x" * 300):
        assert labels.task_from_labels(base | {PREFIX + "run": bad}) is None
        with pytest.raises(NotFound):
            RunStore(tmp_path).adopt(bad)
    bomb = labels.task_from_labels(base | {PREFIX + "rank": "0-65535," * 1000, PREFIX + "task": "3"})
    assert bomb is not None
    assert len(bomb.ranks) == 65_536
    none = labels.task_from_labels(base | {PREFIX + "rank": "0-999999999", PREFIX + "task": "3"})
    assert none is not None
    assert none.ranks == (3,), "a task always has a rank to show its log by"
    files = {"/shared/distui-r-1-5e1f": True, "/root/.ssh/authorized_keys": False, "/a/../distui-r-1-x": False}
    for path, ours in (files | {"distui-r-1-x": False, "/distui-r-1-x/": False, "/shared/distui-s-1-x": False}).items():
        output = labels.task_from_labels(base | {PREFIX + "rendezvous_file": path})
        assert output is not None
        assert output.rendezvous_file == (path if ours else "")


def test_a_frame_without_end_is_refused() -> None:
    """A host that promises four gigabytes does not get them."""
    with pytest.raises(NoHelper):
        list(FrameReader("w").feed(GREETING + b"w\n" + b"\xff\xff\xff\xff\0\1D\0"))
    with pytest.raises(BadFrame):
        FrameParser().feed(b"\1\0\0\0\xff\xff\xff\xff" + b"2026-11-21T02:35:34.123456789Z a")
