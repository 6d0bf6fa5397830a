"""The job a run was started with: written beside its plan, read for running it again."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from distui.cluster.start.planning import PlannedRun, Sources
from distui.cluster.start.request import RunRequest
from distui.cluster.start.starting import record
from distui.errors import CheckFailed
from distui.plan.model import RunPlan
from distui.runs.launch.job_record import record_job, record_text, recorded_job
from distui.runs.store.runs import RunStore, StoredRun
from distui.spec.hosts.inventory import Host, HostPick, Inventory
from distui.spec.job.job import Code, Job
from distui.spec.job.read_job import load_job

TEXT = """\
version: 1
name: all-of-it
image: pytorch
hosts: {group: h100, count: 2}
launcher: torchrun
torchrun: {rdzv: c10d, max_restarts: 1}
ranks: {per_host: 2}
gpus_per_host: {node01: [0, 1], node02: 2}
fabric: {kind: ib, gid_index: 3}
command: [train.py, --config, 7b.yaml]
env: {A: b}
secrets: [TOKEN]
volumes: ["/data:/data"]
data:
  set: {path: /mnt/set, to: /set, shared: true}
  more: {url: "s3://bucket/more/", to: /more, secrets: [AWS_KEY]}
ulimits: {memlock: -1, nofile: {soft: 1, hard: 2}}
stall_after: 60s
progress: {regex: 'step (?P<step>\\d+)'}
"""
PICKS = (HostPick("node01", (0, 1)), HostPick("node02"))


@pytest.fixture
def stored(tmp_path: Path) -> StoredRun:
    """The folder of a run."""
    return RunStore(tmp_path).create("r1")


def started(tmp_path: Path) -> Job:
    """A job that uses every kind of value, from a file."""
    path = tmp_path / "job.yaml"
    path.write_text(TEXT)
    return load_job(str(path), environ={})


def test_a_job_comes_back_as_it_was(tmp_path: Path, stored: StoredRun) -> None:
    """Every key, hosts and picked GPUs too; only what a secret has in `env` is left out."""
    job = started(tmp_path)
    record_job(stored, dataclasses.replace(job, env={**job.env, "TOKEN": "its value"}), PICKS)
    found = recorded_job(stored)
    assert found is not None
    assert (found.job, found.picks) == (job, PICKS)
    assert "its value" not in (stored.path / "job.json").read_text()


def test_a_folder_whose_name_is_not_utf8_comes_back(tmp_path: Path, stored: StoredRun) -> None:
    """Byte for byte: the job can be started again."""
    place = str(tmp_path / "c\udcff")
    record_job(stored, dataclasses.replace(started(tmp_path), code=Code(path=place)), PICKS)
    found = recorded_job(stored)
    assert found is not None
    assert found.job.code == Code(path=place)


def test_the_text_of_a_job_comes_back(tmp_path: Path, stored: StoredRun) -> None:
    """As it was written, with its comments, readable by nobody else; a run of a version that kept none has none."""
    record_job(stored, started(tmp_path), PICKS)
    before = recorded_job(stored)
    record_text(stored, TEXT + "# größer\n", {"TOKEN": "its value"})
    found = recorded_job(stored)
    assert before is not None and found is not None
    assert (before.text, found.text) == ("", TEXT + "# größer\n")
    assert found.file == str(tmp_path / "job.yaml")
    assert (stored.path / "job.yaml").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("its value", "its value"),
        ("abc", "abc"),
        ('a"quoted"value', json.dumps('a"quoted"value')),
        ("a value/with?signs", "a%20value/with%3Fsigns"),
        ("hunter2-hunter2", r'"\x68unter2-hunter2"'),
        ("hunter2-hunter2", '"hunter2-\\\n  hunter2"'),
        ("horse battery staple", "horse\n  battery\n  staple"),
        ("-----BEGIN-----\nabcdefgh\n", "|\n      -----BEGIN-----\n      abcdefgh"),
    ],
)
def test_a_text_that_has_a_value_of_a_secret_is_not_kept(
    tmp_path: Path, stored: StoredRun, value: str, written: str
) -> None:
    """However it is written in it: as it is, quoted, in a URL, in lines that are indented, with escapes, folded."""
    record_job(stored, started(tmp_path), PICKS)
    record_text(stored, f"{TEXT}more: {written}\n", {"OTHER": "", "TOKEN": value})
    found = recorded_job(stored)
    assert found is not None and found.text == ""
    assert not (stored.path / "job.yaml").exists()


def test_a_value_in_a_comment_is_seen(tmp_path: Path, stored: StoredRun) -> None:
    """YAML reads none of it."""
    record_job(stored, started(tmp_path), PICKS)
    record_text(stored, f"{TEXT}# hunter2-hunter2\n", {"TOKEN": "hunter2-hunter2"})
    assert not (stored.path / "job.yaml").exists()
    record_text(stored, f"{TEXT}# hunter2-hunter2\n", {"TOKEN": "hunter3-hunter3"})
    assert (stored.path / "job.yaml").exists()


def planned(run: str, *, text: str = "", token: str | None = None) -> PlannedRun:
    """A run as it is recorded."""
    made = RunPlan(
        run, "j", "me", "1", 1, "env", "gloo", "env://", None, None, "node02", 1, 1, None, "missing",
        "stop", 1.0, 1.0, None, (), (),
    )  # fmt: skip
    job = Job("j", command=("true",))
    request = RunRequest(job, Inventory((Host("node02"),)), PICKS[1:], text=text, token=token)
    return PlannedRun(request, made, {}, Sources(), None)


def test_a_start_that_cannot_be_recorded_removes_no_run_that_is(tmp_path: Path, stored: StoredRun) -> None:
    """Nobody looks what is in a folder that others may write to; the run of that name in it stays."""
    log = stored.log_dir / "rank-00000.log"
    log.write_text("weeks of training\n")
    stored.path.parent.chmod(0o777)
    with pytest.raises(CheckFailed, match="can be written to by others"):
        record(RunStore(tmp_path), planned("r1"))
    assert log.exists()


def test_a_run_that_is_recorded_keeps_the_text_it_was_asked_for_with(tmp_path: Path) -> None:
    """Not where it has the token of the repository that its code comes from."""
    cases = (("name: j\n", None, "name: j\n"), ("# t0ken\n", "t0ken", ""), ("", None, ""))
    for number, (text, token, kept) in enumerate(cases):
        found = recorded_job(record(RunStore(tmp_path), planned(f"r{number}", text=text, token=token)))
        assert found is not None and found.text == kept


def test_the_roles_of_a_tensorflow_job_come_back(tmp_path: Path, stored: StoredRun) -> None:
    """As roles, not as plain mappings: the job can be planned again."""
    path = tmp_path / "tf.yaml"
    path.write_text(
        "version: 1\nname: tf\nimage: i\nlauncher: tf\ncommand: [x]\n"
        "roles: {chief: {hosts: node01}, worker: {count: 2, env: {A: b}}}\n"
    )
    job = load_job(str(path), environ={})
    record_job(stored, job, PICKS)
    found = recorded_job(stored)
    assert found is not None
    assert found.job == job


def test_a_file_that_changed_since_is_noticed(tmp_path: Path, stored: StoredRun) -> None:
    """Changed or gone is changed; a job that came from no file never is."""
    job = started(tmp_path)
    record_job(stored, job, PICKS)
    same = recorded_job(stored)
    (tmp_path / "job.yaml").write_text(TEXT + "# more\n")
    other = recorded_job(stored)
    (tmp_path / "job.yaml").unlink()
    gone = recorded_job(stored)
    assert [found.changed for found in (same, other, gone) if found is not None] == [False, True, True]
    record_job(stored, Job("flags", command=("true",)), PICKS)
    flags = recorded_job(stored)
    assert flags is not None and not flags.changed


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "distui/job-record/v1"}', '{"schema": "v9"}'])
def test_what_is_no_record_counts_as_none(stored: StoredRun, text: str) -> None:
    """A run of an older version, or a torn file."""
    (stored.path / "job.json").write_text(text)
    assert recorded_job(stored) is None
