"""What a plan adds so that ranks can be asked where they are: environment, mounts, the PYTHONPATH that was there."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from distui.facts.host import Address, Engine, HostFacts, Nic
from distui.facts.image import read_image
from distui.plan.command import insight, process
from distui.plan.command.env import env_file_text
from distui.plan.model import RunPlan, Task
from distui.plan.plan import plan
from distui.plan.text.render import render_text
from distui.runs.task import hook
from distui.spec.hosts.inventory import Host, HostPick, Inventory
from distui.spec.job.job import Job, RankLayout

JOB = Job("j", image="i", command=("x",))


def made(job: Job = JOB, *, engine: Any = "docker") -> RunPlan:
    """A plan on one host."""
    nic = Nic("eth0", "ethernet", True, 1500, addresses=(Address("10.0.0.1", 24),))
    facts = HostFacts(
        host="h1", hostname="h1", home="/home/u", nics=(nic,), engine=Engine("docker"), default_route_nic="eth0"
    )
    job = job if engine != "process" else dataclasses.replace(job, image=None)
    found = plan(
        job,
        Inventory((Host("h1", engine=engine),)),
        (HostPick("h1"),),
        {"h1": facts},
        run_id="j-1",
        owner="o",
        version="1",
    )
    assert isinstance(found, RunPlan), found
    return found


def task_of(**changes: Any) -> Task:
    """The one task of a plan with these keys."""
    return made(dataclasses.replace(JOB, **changes)).tasks[0]


def file_of(task: Task, inherited: str = "") -> dict[str, str]:
    """Its env file on an image with this PYTHONPATH."""
    lines = env_file_text(task, dict.fromkeys(task.secrets, "hidden"), inherited).decode().splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


# who gets it


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, True),
        ({"launcher": "torchrun"}, True),
        ({"launcher": "command"}, True),
        ({"launcher": "tf"}, False),
        ({"launcher": "tf", "insight": "on"}, True),
        ({"insight": "on"}, True),
        ({"insight": "off"}, False),
        ({"secrets": ("TOKEN",)}, True),
        ({"secrets": ("PYTHONPATH",)}, False),
        ({"secrets": ("PYTHONPATH",), "insight": "on"}, False),
    ],
)
def test_who_gets_the_hook(changes: dict[str, Any], wanted: bool) -> None:
    """All but TensorFlow unless asked for; nobody whose PYTHONPATH is a secret."""
    assert insight.wanted(dataclasses.replace(JOB, **changes)) is wanted


def test_a_job_without_it_has_nothing_of_it() -> None:
    """No variable, no mount, no folder, no word in the plan."""
    for changes in ({"insight": "off"}, {"secrets": ("PYTHONPATH",)}):
        task = task_of(**changes)
        assert task.insight == "" and not any("insight" in word or "hook" in word for word in task.start)
        assert not {"DISTUI_INSIGHT", "PYTHONPATH", "TORCH_FR_BUFFER_SIZE", "TORCH_FR_DUMP_TEMP_FILE"} & set(task.env)
    assert "insight" not in render_text(made(dataclasses.replace(JOB, insight="off")))


def test_a_secret_pythonpath_stays_a_secret() -> None:
    """It is in the env file as it is, and nowhere else."""
    assert file_of(task_of(secrets=("PYTHONPATH",)), "/image")["PYTHONPATH"] == "hidden"


# what it gets


def test_a_container_gets_the_hook_read_only_and_a_folder_of_its_own() -> None:
    """Two mounts; the variables name where the container sees them."""
    task = task_of()
    mounts = [task.start[i + 1] for i, word in enumerate(task.start) if word == "--mount"]
    assert mounts == [
        f"type=bind,source={task.run_dir}/hook,target=/run/distui/hook,readonly",
        f"type=bind,source={task.run_dir}/insight-0,target=/run/distui/insight",
    ]
    assert task.insight == f"{task.run_dir}/insight-0"
    assert {name: task.env[name] for name in ("PYTHONPATH", "DISTUI_INSIGHT", "TORCH_FR_BUFFER_SIZE")} == {
        "PYTHONPATH": "/run/distui/hook",
        "DISTUI_INSIGHT": "/run/distui/insight",
        "TORCH_FR_BUFFER_SIZE": "2000",
    }
    assert task.env["TORCH_FR_DUMP_TEMP_FILE"] == "/run/distui/insight/trace_"


def test_a_process_gets_both_where_they_are_on_the_host() -> None:
    """There is nothing to mount."""
    task = made(engine="process").tasks[0]
    assert task.env["PYTHONPATH"] == f"{task.run_dir}/hook"
    assert task.env["DISTUI_INSIGHT"] == task.insight == f"{task.run_dir}/insight-0"
    assert "--mount" not in task.start


def test_what_the_job_sets_itself_stays() -> None:
    """Its PYTHONPATH behind the hook, its recorder as it has it, its other variables."""
    own = {"PYTHONPATH": "/own:/b", "TORCH_FR_BUFFER_SIZE": "7", "TORCH_FR_DUMP_TEMP_FILE": "/t/x", "A": "b"}
    env = insight.with_hook(own, "/r/insight-0", "/r", "docker")
    assert env == own | {"PYTHONPATH": "/run/distui/hook:/own:/b", "DISTUI_INSIGHT": "/run/distui/insight"}
    assert own["PYTHONPATH"] == "/own:/b"


@pytest.mark.parametrize(
    ("engine", "where"),
    [
        (
            "docker",
            [
                "the hook: {run}/hook, mounted read-only at /run/distui/hook",
                "what it opens: {run}/insight-0, mounted at /run/distui/insight",
                "PYTHONPATH of the image follows the hook",
                "set by the hook with torch before 2.8: TORCH_NCCL_TRACE_BUFFER_SIZE=2000 "
                "TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/run/distui/insight/trace_",
            ],
        ),
        (
            "process",
            [
                "the hook: {run}/hook",
                "what it opens: {run}/insight-0",
                "PYTHONPATH of the login follows the hook",
                "set by the hook with torch before 2.8: TORCH_NCCL_TRACE_BUFFER_SIZE=2000 "
                "TORCH_NCCL_DEBUG_INFO_TEMP_FILE={run}/insight-0/trace_",
            ],
        ),
    ],
)
def test_the_plan_shows_all_that_is_set(engine: str, where: list[str]) -> None:
    """Its variables, folders and what the hook sets itself: with `--full` and without, with an engine and without."""
    planned = made(engine=engine)
    (task,) = planned.tasks
    shown = [line.format(run=task.run_dir) for line in where]
    for full in (False, True):
        text = render_text(planned, full=full, width=10_000)
        _, _, rest = text.partition("\nInsight\n")
        assert [line.strip() for line in rest.partition("\n\n")[0].splitlines()] == ["rank0:", *shown]
        for name in ("DISTUI_INSIGHT", "PYTHONPATH", *insight.OLDER):
            assert f"  {name}={task.env[name]}\n" in text


def test_the_plan_says_what_the_job_has_set_itself() -> None:
    """Its PYTHONPATH stands in the environment, and none of the image's follows; its older names stay."""
    own = {"PYTHONPATH": "/own", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/mine"}
    text = render_text(made(dataclasses.replace(JOB, env=own)), width=10_000)
    assert "  PYTHONPATH=/run/distui/hook:/own\n" in text and "of the image follows" not in text
    assert "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/mine\n" in text


def test_tasks_with_the_same_are_counted() -> None:
    """Every one is shown with `--full`."""
    planned = made(dataclasses.replace(JOB, ranks=RankLayout(per_host=3)))
    assert "    what it opens" in render_text(planned) and "  2 more tasks the same" in render_text(planned)
    assert [f"rank{n}:\n" in render_text(planned, full=True) for n in range(3)] == [True] * 3


@pytest.mark.parametrize("own", ["9", "", "0"])
def test_an_older_name_that_the_job_sets_holds_with_newer_torch_too(own: str) -> None:
    """Which knows both, and would go by the newer one."""
    env = insight.with_hook({"TORCH_NCCL_TRACE_BUFFER_SIZE": own}, "/r/insight-0", "/r", "docker")
    assert env["TORCH_FR_BUFFER_SIZE"] == own == env["TORCH_NCCL_TRACE_BUFFER_SIZE"]
    assert env["TORCH_FR_DUMP_TEMP_FILE"] == "/run/distui/insight/trace_"


def test_the_hook_and_the_plan_know_the_same_older_names() -> None:
    """The hook imports nothing of distui."""
    spec = importlib.util.spec_from_file_location(
        "own_hook", Path(hook.__file__).parents[2] / "agent/hook/distui_insight.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.OLDER == insight.OLDER


# what was there before


@pytest.mark.parametrize(
    ("own", "image", "path"),
    [
        (None, "", "/run/distui/hook"),
        (None, "/image:/b", "/run/distui/hook:/image:/b"),
        ("/own", "/image", "/run/distui/hook:/own"),
        ("/own", "", "/run/distui/hook:/own"),
    ],
)
def test_the_image_s_pythonpath_follows_where_the_job_sets_none(own: str | None, image: str, path: str) -> None:
    """As the image's variable would hold without the hook, and the job's would hide it."""
    task = task_of(env={"PYTHONPATH": own} if own else {})
    assert file_of(task, image)["PYTHONPATH"] == path


@pytest.mark.parametrize("image", ["/a\nHOME", "/a\r", "/a\0", "/a" * 40_000])
def test_an_image_s_pythonpath_that_no_env_file_carries_is_left_out(image: str) -> None:
    """A line of its own would have Docker take a variable of the login's into the container."""
    assert file_of(task_of(), image)["PYTHONPATH"] == "/run/distui/hook"
    assert "HOME" not in file_of(task_of(), image)


def test_an_image_s_pythonpath_is_left_to_it_without_the_hook() -> None:
    """Nothing is set then."""
    assert "PYTHONPATH" not in file_of(task_of(insight="off"), "/image")


@pytest.mark.parametrize(
    ("env", "path"),
    [
        (["PATH=/bin", "PYTHONPATH=/a=b:/c"], "/a=b:/c"),
        (["PYTHONPATH="], ""),
        (["XPYTHONPATH=/x"], ""),
        ([], ""),
        (None, ""),
        (7, ""),
        ([7, None], ""),
    ],
)
def test_an_image_s_pythonpath_is_read(env: Any, path: str) -> None:
    """Of what the engine says of the image, whatever that is."""
    found = read_image(json.dumps([{"Id": "sha256:1", "Config": {"Env": env}}]))
    assert found is not None and found.pythonpath == path


# what is put on the host


def test_the_hook_is_put_as_it_is(tmp_path: Path) -> None:
    """Both files byte for byte, readable by all, and a folder for every task; also a second time."""
    run_dir = tmp_path / "run it"
    folders = [f"{run_dir}/insight-{n}" for n in range(2)]
    argv, files = hook.put(str(run_dir), folders)
    for _ in range(2):
        subprocess.run(argv, input=files, check=True, capture_output=True)

    source = Path(hook.__file__).parents[2] / "agent/hook"
    for name in ("sitecustomize.py", "distui_insight.py"):
        assert (run_dir / "hook" / name).read_bytes() == (source / name).read_bytes()
        assert (run_dir / "hook" / name).stat().st_mode & 0o777 == 0o644
    assert [Path(folder).stat().st_mode & 0o777 for folder in folders] == [0o777] * 2


# the login's own, under engine `process`


@pytest.fixture
def run_dir(tmp_path: Path) -> Iterator[Path]:
    """A run's folder on this machine."""
    folder = tmp_path / f"run-{os.getpid()}"
    folder.mkdir()
    yield folder
    subprocess.run(process.kill(str(folder), 0), capture_output=True)


@pytest.mark.parametrize(
    ("own", "login", "path"),
    [
        (None, None, "{hook}"),
        (None, "", "{hook}"),
        (None, "/login:/b c", "{hook}:/login:/b c"),
        ("/own", "/login", "{hook}:/own"),
        ("/own", None, "{hook}:/own"),
    ],
)
def test_the_login_s_pythonpath_follows_where_the_job_sets_none(
    run_dir: Path, own: str | None, login: str | None, path: str
) -> None:
    """As it would hold without the hook, and the job's would hide it."""
    env = insight.with_hook({"PYTHONPATH": own} if own else {}, f"{run_dir}/insight-0", str(run_dir), "process")
    assert said_by_a_task(run_dir, env, login) == path.format(hook=f"{run_dir}/hook")


@pytest.mark.parametrize(("own", "login"), [(None, "/login"), ("/own", "/login"), ("/own", None), (None, None)])
def test_without_the_hook_the_login_s_pythonpath_is_as_ever(run_dir: Path, own: str | None, login: str | None) -> None:
    """The job's own, or the login's."""
    assert said_by_a_task(run_dir, {"PYTHONPATH": own} if own else {}, login) == (own or login or "none")


def said_by_a_task(run_dir: Path, env: dict[str, str], login: str | None) -> str:
    """The PYTHONPATH that a program has, started by the real script for a login that has this one."""
    base = made(engine="process").tasks[0]
    task = dataclasses.replace(base, env=env, env_file=f"{run_dir}/env-0", run_dir=str(run_dir))
    Path(task.env_file).write_bytes(env_file_text(task, {}))
    command = ("sh", "-c", 'echo "${PYTHONPATH-none}"; env | grep distui_own')
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    outside |= {"PYTHONPATH": login} if login is not None else {}
    argv = process.start(task, command, workdir=str(run_dir))
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, capture_output=True, env=outside, timeout=30)
    limit = time.monotonic() + 60
    while not Path(process.task_folder(str(run_dir), 0), "exit").exists():
        assert time.monotonic() < limit, "it never ended"
        time.sleep(0.01)
    return Path(process.log_path(str(run_dir), 0)).read_text().removesuffix("\n")
