"""`doctor --job JOB` finds every reason for which `plan JOB` refuses, without asking anything."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from distui.doctor.plan_check import plan_rows
from distui.plan.model import CodePlan
from distui.spec.hosts.inventory import Host, Inventory
from distui.spec.job.job import Code, Job
from fakehosts.runs import facts_of

JOB = "version: 1\nname: j\nimage: i\ncommand: [python, t.py]\nhosts: [n1]\n"

REASONS = {
    "no code folder": "code: gone\n",
    "code is a file": "code: a-file\n",
    "too large": "code: {path: big, max_size: 10B}\n",
    "not allowed": "code: ../beside\n",
    "never sent": "code: ~/.ssh\n",
    "no repository": "code: {git: https://localhost:1/none.git}\n",
    "a token": "code: {git: https://localhost:1/none.git, token: SOME_TAG}\n",
    "no build folder": "build: gone\n",
    "no Dockerfile": "build: big\n",
    "build not allowed": "build: ../beside\n",
    "a variable in the image": "image: localhost/${SOME_TAG}:1\n",
}


@pytest.fixture
def folders(home: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with jobs, and one beside it that is not the job's."""
    top = tmp_path_factory.mktemp("work")
    for name in ("jobs", "jobs/big", "beside"):
        (top / name).mkdir()
    (top / "jobs/big/data").write_text("0123456789abcdef")
    (top / "jobs/a-file").touch()
    (home / ".ssh").mkdir(exist_ok=True)
    monkeypatch.setenv("SOME_TAG", "hidden-words")
    monkeypatch.chdir(top / "jobs")
    Path("hosts.yaml").write_text("version: 1\nhosts:\n  n1: {}\n")
    return top


def failed(done: Any) -> list[dict[str, str]]:
    """What speaks against the plan."""
    return [f for f in json.loads(done.out)["findings"] if f["check"] == "plan" and f["verdict"] == "fail"]


def untimed(text: str) -> str:
    """What git says without how long curl tried it."""
    return re.sub(r" after \d+ ms", "", text)


@pytest.mark.parametrize("keys", REASONS.values(), ids=REASONS)
def test_what_plan_refuses_is_a_finding(keys: str, cli: Any, fake_hosts: Any, folders: Path) -> None:
    """In the same words, with the same advice."""
    fake_hosts()
    job = JOB.replace("image: i\n", "") if keys.startswith("image") else JOB
    Path("j.yaml").write_text(job + keys)
    plan = cli("plan", "j.yaml", "--no-input")
    assert plan.code in (2, 3)
    doctor = cli("doctor", "--job", "j.yaml", "--json")
    assert doctor.code == 3
    (found,) = failed(doctor)
    assert untimed(found["saw"]) in untimed(plan.err)
    assert found["do"] in plan.err
    assert "the start is refused" in found["means"]
    assert "hidden-words" not in doctor.out


def test_a_secret_without_a_value_keeps_a_job_from_its_start_alone(cli: Any, demo_home: Path) -> None:
    """`plan` passes it to nobody, and says that a start is refused; `run` does, and `doctor` finds it."""
    Path("j.yaml").write_text(
        "version: 1\nname: j\ncommand: [python3, -c, pass]\nhosts: [demo1]\nsecrets: [NO_SUCH_SECRET]\n"
    )
    words = "secrets NO_SUCH_SECRET of job j have no value"
    for dry in (("plan", "j.yaml"), ("run", "j.yaml", "--dry-run")):
        done = cli(*dry)
        assert (done.code, "Plan j-" in done.out) == (0, True), done.err
        assert f"{words}: `distui run` is refused without; export NO_SUCH_SECRET=" in done.err
    started = cli("run", "j.yaml", "--headless", "-y")
    assert (started.code, words in started.err) == (2, True)
    (found,) = failed(cli("doctor", "--job", "j.yaml", "--only", "plan", "--json"))
    assert words in found["saw"]


def test_several_reasons_are_all_reported(cli: Any, fake_hosts: Any, folders: Path) -> None:
    """Where `plan` ends with the first; a folder that is not allowed comes with the command that allows it."""
    fake_hosts()
    Path("j.yaml").write_text(JOB + "code: ../beside\nbuild: gone\nsecrets: [NO_SUCH_SECRET]\n")
    found = failed(cli("doctor", "--job", "j.yaml", "--json"))
    assert len(found) == 3
    assert f"distui config allow folder {folders}/beside {folders}/jobs" in {f["do"] for f in found}
    assert cli("config", "allow", "folder", f"{folders}/beside", f"{folders}/jobs").code == 0
    assert len(failed(cli("doctor", "--job", "j.yaml", "--json"))) == 2


def test_secrets_come_from_a_file_as_with_plan(cli: Any, fake_hosts: Any, folders: Path) -> None:
    """`--env-file` is about a job."""
    fake_hosts()
    Path("j.yaml").write_text(JOB + "secrets: [NO_SUCH_SECRET]\n")
    Path("secrets").write_text("NO_SUCH_SECRET=hidden-words\n")
    done = cli("doctor", "--job", "j.yaml", "--env-file", "secrets", "--json")
    assert failed(done) == []
    assert "hidden-words" not in done.out + done.err
    assert "--job JOB" in cli("doctor", "--env-file", "secrets").err


def test_the_exit_code_is_that_of_a_failed_check(cli: Any, demo_home: Path) -> None:
    """On hosts that are well; what is left out with --skip counts for nothing."""
    job = "version: 1\nname: j\ncommand: [python3, -c, pass]\nlauncher: env\ngpus_per_host: 0\nhosts: [demo1]\n"
    Path("good.yaml").write_text(job)
    Path("bad.yaml").write_text(job + "code: gone\n")
    assert cli("plan", "good.yaml").code == 0
    assert cli("doctor", "--job", "good.yaml", "--only", "plan").code == 0
    assert cli("plan", "bad.yaml").code == 2
    assert cli("doctor", "--job", "bad.yaml", "--only", "plan").code == 3


def test_a_run_that_could_not_be_recorded_here_is_found(
    cli: Any, demo_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `run` refuses it; nothing is left of the try, and nothing is tried with --readonly."""
    Path("j.yaml").write_text("version: 1\nname: j\ncommand: [python3, -c, pass]\ngpus_per_host: 0\nhosts: [demo1]\n")
    doctor = ("doctor", "--job", "j.yaml", "--only", "plan", "--json")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert failed(cli(*doctor, "--readonly")) == []
    assert not (tmp_path / "distui/runs").exists()
    assert failed(cli(*doctor)) == []
    assert [*(tmp_path / "distui/runs").iterdir()] == []

    monkeypatch.setenv("XDG_STATE_HOME", "/proc/self")
    (found,) = failed(cli(*doctor))
    started = cli("run", "j.yaml", "--headless", "-y")
    assert started.code == 3
    assert found["saw"].startswith("can't write /proc/self/distui/runs")
    assert found["do"] in started.err


def test_code_for_a_host_without_python3_is_a_failed_check() -> None:
    """`run` is refused by the host; a job without code needs none."""
    inventory = Inventory((Host("h1"),))
    code = CodePlan("./", "0" * 32, 1, 10, "/work")
    for job, python3, want in (
        (Job("j", image="i", command=("true",), code=Code(path="./")), None, ["fail"]),
        (Job("j", image="i", command=("true",), code=Code(path="./")), "3.9.1", ["ok"]),
        (Job("j", image="i", command=("true",)), None, ["ok"]),
    ):
        facts = {"h1": facts_of("h1", python3=python3)}
        given = code if job.code else None
        (row,) = plan_rows(job, inventory, inventory.hosts, facts, named=True, code=given)
        assert [one.verdict for one in row.findings] == want


def test_data_is_looked_for_on_the_hosts_of_the_job(cli: Any, demo_home: Path) -> None:
    """As before a start; where nothing may be changed no file is written to prove that a folder is shared."""
    job = "version: 1\nname: j\ncommand: [python3, -c, pass]\ngpus_per_host: 0\nhosts: [demo1]\n"
    Path("bad.yaml").write_text(job + "data: {d: {path: /no/such/folder, to: /no/such/folder}}\n")
    done = cli("doctor", "--job", "bad.yaml", "--only", "data", "--json")
    found = [f for f in json.loads(done.out)["findings"] if f["check"] == "data:d"]
    assert (done.code, [(f["host"], f["verdict"]) for f in found]) == (3, [("demo1", "fail")])
    assert "/no/such/folder is not there" in found[0]["saw"]
    here = Path.cwd()
    Path("good.yaml").write_text(
        job.replace("demo1", "demo1, demo2") + f"data: {{d: {{path: {here}, to: {here}, shared: true}}}}\n"
    )
    done = cli("doctor", "--job", "good.yaml", "--only", "data", "--json")
    assert (done.code, "is seen on all others" in done.out) == (0, True)
    done = cli("doctor", "--job", "good.yaml", "--only", "data", "--json", "--readonly")
    assert (done.code, "is seen on all others" in done.out) == (0, False)
