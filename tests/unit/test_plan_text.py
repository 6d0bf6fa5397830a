"""Env files, torchrun's words, labels, JSON, differences, and the plan as text that can be pasted."""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.errors import UsageError
from distui.facts.host import Address, Engine, HostFacts, Nic
from distui.plan.command import process, torchrun
from distui.plan.command.env import env_file_text, line_faults, masked
from distui.plan.labels import TaskLabels, format_ranks, parse_ranks, task_from_labels, to_labels
from distui.plan.model import RunPlan, Task
from distui.plan.plan import plan
from distui.plan.serialize import from_json, to_json
from distui.plan.text.compare import compare
from distui.plan.text.render import folded, quoted, render_text
from distui.spec.hosts.inventory import EngineName, Host, HostPick, Inventory
from distui.spec.job.job import Job


def make(job: Job, *, hosts: int = 2, engine: EngineName = "docker", home: str = "/home/u", **more: Any) -> RunPlan:
    """A plan for hosts h0, h1, ... on 10.0.0.0/24."""
    inventory = Inventory(tuple(Host(f"h{i}", engine=engine) for i in range(hosts)))
    found = {
        f"h{i}": HostFacts(
            host=f"h{i}",
            hostname=f"h{i}",
            home=home,
            nics=(Nic("eth0", "ethernet", True, addresses=(Address(f"10.0.0.{i + 1}", 24),)),),
            engine=Engine("docker"),
        )
        for i in range(hosts)
    }
    given: dict[str, Any] = {"run_id": "r-1", "owner": "o", "version": "v"} | more
    made = plan(job, inventory, [HostPick(h.name) for h in inventory.hosts], found, **given)
    assert isinstance(made, RunPlan), made
    return made


JOB = Job("j", image="img", command=("prog", "a b"), env={"GREETING": "hello world"}, secrets=("TOKEN",))


# env files


def test_an_env_file_is_one_literal_line_per_variable() -> None:
    """No quotes are added: docker keeps them."""
    task = dataclasses.replace(make(JOB).tasks[0], env={"A": ' b "c" ', "E": ""})
    assert env_file_text(task, {"TOKEN": "s=1 #x"}) == b'A= b "c" \nE=\nTOKEN=s=1 #x\n'
    assert masked(task) == ('A= b "c" ', "E=", "TOKEN=***")


def test_a_secret_wins_over_a_variable_of_its_name() -> None:
    """It is in the file once."""
    task = make(dataclasses.replace(JOB, env={"TOKEN": "plain"})).tasks[0]
    assert "TOKEN" not in task.env
    assert env_file_text(task, {"TOKEN": "s"}).count(b"TOKEN") == 1


@pytest.mark.parametrize("value", ["two\nlines", "ends\r", "nul\0", "x" * 70_000, "\udcff"])
def test_secrets_that_no_env_file_can_carry_are_refused_without_their_value(value: str) -> None:
    """The message names the secret and why."""
    with pytest.raises(UsageError) as caught:
        env_file_text(make(JOB).tasks[0], {"TOKEN": value})
    assert "secret TOKEN" in str(caught.value) and value not in str(caught.value)


def test_a_missing_secret_is_named() -> None:
    """With the way to set it."""
    with pytest.raises(UsageError, match="TOKEN is not set") as caught:
        env_file_text(make(JOB).tasks[0], {})
    assert "export TOKEN" in caught.value.hint


@pytest.mark.parametrize("name", ["", "A B", "A\tB", "A=B", "#A", "A\n", "A\0"])
def test_names_docker_refuses_are_refused_before(name: str) -> None:
    """They would end as exit 125, or as a comment nobody notices."""
    assert line_faults(name, "")


def test_names_a_shell_can_not_export_are_refused_without_a_container() -> None:
    """Docker takes dots, `export` does not."""
    assert line_faults("a.b", "") == () and line_faults("a.b", "", process=True)


def test_what_the_user_sets_wins_and_rank_like_values_are_warned_of() -> None:
    """NCCL settings pass untouched; a LOCAL_RANK for all ranks is probably a mistake."""
    made = make(dataclasses.replace(JOB, env={"NCCL_SOCKET_IFNAME": "ib", "LOCAL_RANK": "0", "MY_TOKEN": "x"}))
    assert [t.env["NCCL_SOCKET_IFNAME"] for t in made.tasks] == ["ib", "ib"]
    assert any("LOCAL_RANK=0 for every rank" in w for w in made.warnings)
    assert any("MY_TOKEN looks like a secret" in w for w in made.warnings)


# torchrun


@pytest.mark.parametrize(
    ("command", "launcher", "program"),
    [
        (("train.py", "--x"), "python3 -m torch.distributed.run", ("train.py", "--x")),
        (("python", "train.py"), "python -m torch.distributed.run", ("train.py",)),
        (("/opt/venv/bin/python3.11", "-u", "t.py"), "/opt/venv/bin/python3.11 -m torch.distributed.run", ("t.py",)),
        (("python", "-m", "pkg.train", "-x"), "python -m torch.distributed.run", ("-m", "pkg.train", "-x")),
        (("-m", "pkg"), "python3 -m torch.distributed.run", ("-m", "pkg")),
        (("python", "-c", "1"), "python -m torch.distributed.run", ("--no-python", "python", "-c", "1")),
        (("torchrun", "t.py"), "torchrun", ("t.py",)),
        (("python", "-m", "torch.distributed.launch", "t.py"), "python -m torch.distributed.launch", ("t.py",)),
        (("python3", "-m", "torch.distributed.run", "t.py"), "python3 -m torch.distributed.run", ("t.py",)),
        (("./train.sh", "a"), "python3 -m torch.distributed.run", ("--no-python", "./train.sh", "a")),
    ],
)
def test_the_agent_is_called_with_the_programs_own_python(command: Any, launcher: str, program: Any) -> None:
    """Every usual way to write a torch program becomes the agent's program."""
    assert torchrun.split_command(command) == (tuple(launcher.split()), program)


CLOSING = (
    b"W1128 13:43:00.320000 6 torch/distributed/elastic/multiprocessing/api.py:1028] "
    b"Sending process 17 closing signal SIGTERM\n"
)
OLD_CLOSING = (
    b"[2024-05-01 10:00:00,123] torch.distributed.elastic.multiprocessing.api: [WARNING] "
    b"Sending process 17 closing signal SIGTERM\n"
)
OLDEST_CLOSING = b"WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 17 closing signal SIGTERM\n"


@pytest.mark.parametrize(
    ("line", "pieces"),
    [
        (b"[distui rank 3]:loss 0.1\n", ((3, b"loss 0.1\n"),)),
        (b"[distui rank 3]:a[distui rank 12]:b\n", ((3, b"a"), (12, b"b\n"))),
        (b"W agent says [distui rank 0]:x", ((None, b"W agent says "), (0, b"x"))),
        (b"[distui rank 0/0]:\r 9%| 9/30" + CLOSING, ((6, b"\r 9%| 9/30"), (None, CLOSING))),
        (b"[distui rank 0/0]:8.2it/s]" + OLD_CLOSING, ((6, b"8.2it/s]"), (None, OLD_CLOSING))),
        (b"[distui rank 0/0]:loss=0.3" + OLDEST_CLOSING, ((6, b"loss=0.3"), (None, OLDEST_CLOSING))),
        (b"[distui rank 0/0]:[rank0]:" + CLOSING, ((6, b"[rank0]:" + CLOSING),)),
        (b"[distui rank 3/1]:x\n", ((7, b"x\n"),)),
        (b"[distui rank 3/0]:a[distui rank 2/1]:b\n", ((6, b"a"), (7, b"b\n"))),
        (b"[distui rank 3/9]:no such place\n", ((3, b"no such place\n"),)),
        (b"no prefix\n", ((None, b"no prefix\n"),)),
        (b"[default1]:old torch\n", ((7, b"old torch\n"),)),
        (b"[default2]:one too many\n", ((None, b"[default2]:one too many\n"),)),
        (b"[default9]:no such local rank\n", ((None, b"[default9]:no such local rank\n"),)),
        (b"[distui rank 99999999999]:x", ((None, b"[distui rank 99999999999]:x"),)),
        (b"", ((None, b""),)),
    ],
)
def test_one_stream_splits_into_ranks(line: bytes, pieces: object) -> None:
    """Headers inside a line are pieces that came before their newline; nothing is lost."""
    assert torchrun.split_pieces(line, ranks=(6, 7)) == pieces


def test_torchruns_own_numbers_are_kept_beside() -> None:
    """With c10d a rank is a place, and torchrun's RANK may be another."""
    numbers: dict[int, int] = {}
    for line in (b"[distui rank 0/0]:a\n", b"[distui rank 1/1]:a\n", b"[distui rank 4/1]:b\n", b"none\n"):
        torchrun.split_pieces(line, (6, 7), numbers)
    assert numbers == {6: 0, 7: 4}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("E1121 x.py:1002] failed (exitcode: 7) local_rank: 0 (pid: 8) of binary: /usr/bin/python3", (0, 7)),
        ("E1121 x.py:1002] failed (exitcode: -9) local_rank: 3 (pid: 8) of binary: python", (3, 137)),
        ("  exitcode  : 1 (pid: 40)", None),
        ("", None),
    ],
)
def test_the_agent_says_which_rank_failed(line: str, found: object) -> None:
    """Before it starts its ranks again; a negative status is a signal."""
    assert torchrun.failed_rank(line) == found


# labels

ranks = st.lists(st.integers(0, 40), max_size=6).map(tuple)
one_line = st.text().map(lambda text: text.replace("\n", " "))


@given(ranks)
def test_rank_lists_survive_their_short_form(numbers: tuple[int, ...]) -> None:
    """0-7 and 0,2,5-6, in their order."""
    assert parse_ranks(format_ranks(numbers)) == numbers


@given(
    st.builds(
        TaskLabels,
        run=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", fullmatch=True),
        task=st.integers(0, 999),
        ranks=ranks.filter(len),
        host=one_line,
        job=one_line,
        progress=one_line,
        success_file=one_line.map(lambda name: f"/{name}"),
        success_seconds=st.sampled_from([0.0, 60.0]),
        regexes=st.sampled_from([(), ("same",), ("success.regex", "same")]),
        on_fail=st.sampled_from(["stop", "wait"]),
        grace=st.sampled_from([0.0, 0.5, 30.0, 3600.0]),
    )
)
def test_labels_tell_everything_again(labels: TaskLabels) -> None:
    """Another machine reads from them what this one wrote."""
    assert task_from_labels(to_labels(labels)) == labels


@pytest.mark.parametrize("text", ["", "x", "-1", "9-", "5-3", "0-99999999", "²", "1e3"])
def test_rubbish_in_labels_is_left_out(text: str) -> None:
    """Somebody else's labels never raise."""
    assert task_from_labels({"distui.run": "r", "distui.task": text, "distui.rank": text, "distui.grace": text})
    assert task_from_labels({"distui.run": "r"}) is None and task_from_labels({}) is None


# JSON and differences


@pytest.mark.parametrize("data", [{}, {"schema": "distui/plan/v9"}, {"schema": "distui/plan/v1", "tasks": 3}])
def test_what_is_no_plan_is_refused(data: dict[str, Any]) -> None:
    """A torn or foreign file is a usage error."""
    with pytest.raises(UsageError):
        from_json(data)


def test_keys_of_later_versions_are_left_out() -> None:
    """Additions do not break older readers."""
    made = make(JOB)
    data = to_json(made)
    data["later"] = 1
    data["tasks"][0]["later"] = 1
    assert from_json(data) == made


def test_two_runs_of_one_job_do_not_differ() -> None:
    """Run ids and chosen ports are not differences; what the job changed is."""
    old = make(JOB)
    assert compare(old, make(JOB, run_id="r-2", attempt=3)) == ""
    stored = from_json(json.loads(json.dumps(to_json(old), sort_keys=True)))
    assert compare(stored, make(JOB, run_id="r-2")) == "", "the order of variables is no difference"
    new = make(dataclasses.replace(JOB, env={"GREETING": "bye"}, volumes=("/a:/b",)), run_id="r-2")
    assert compare(old, new).splitlines() == [
        "--- r-1",
        "+++ r-2",
        '-tasks/0/env/GREETING = "hello world"',
        '+tasks/0/env/GREETING = "bye"',
        "+tasks/0/start = -v /a:/b",
        '-tasks/1/env/GREETING = "hello world"',
        '+tasks/1/env/GREETING = "bye"',
        "+tasks/1/start = -v /a:/b",
    ]


def test_a_run_s_name_is_one_only_where_it_is_one() -> None:
    """Runs named after their programs differ in them; a short name is no part of other words."""
    old = make(dataclasses.replace(JOB, command=("a", "train.py", "--out", "runs/train")), run_id="train")
    new = make(dataclasses.replace(JOB, command=("a", "eval.py", "--out", "runs/eval")), run_id="eval")
    lines = [line for line in compare(old, new).splitlines()[2:] if "tasks/0" in line]
    assert any("train.py" in line for line in lines) and any("eval.py" in line for line in lines), lines
    assert not any("runs/" in line for line in lines if "command" not in line and "start" not in line)
    short = compare(make(JOB, run_id="a"), make(dataclasses.replace(JOB, env={"GREETING": "a"}), run_id="s"))
    assert "RUN" not in short and "+tasks/0/env/GREETING" in short
    made = dataclasses.replace(JOB, name="j")
    one, two = (dataclasses.replace(made, env={"W": f"v-{run}"}) for run in ("j-ab12", "j-cd34"))
    assert compare(make(one, run_id="j-ab12"), make(two, run_id="j-cd34")) == ""


def test_what_differs_is_found_value_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old and new stand together; a diff of all lines of 512 ranks on other hosts took a minute."""
    lengths: list[int] = []
    usual = difflib.unified_diff
    monkeypatch.setattr(difflib, "unified_diff", lambda a, b, *r, **n: lengths.append(len(a)) or usual(a, b, *r, **n))
    old, new = make(JOB, home="/home/a"), make(JOB, home="/home/b", run_id="r-2")
    lines = compare(old, new).splitlines()[2:]
    pairs = [(a.partition(" = ")[0], b.partition(" = ")[0]) for a, b in zip(lines[::2], lines[1::2], strict=True)]
    assert ("-tasks/0/env_file", "+tasks/0/env_file") in pairs
    assert [a[1:] for a, _ in pairs] == [b[1:] for _, b in pairs]
    assert max(lengths) < 40
    few = compare(make(JOB, hosts=1), make(JOB, hosts=2, run_id="r-2")).splitlines()
    assert [line[0] for line in few if "tasks/1/" in line and not line.startswith("+")] == []
    assert few.index(next(line for line in few if line.startswith("+tasks/1/"))) > 2


# text


def test_a_plan_reads_well() -> None:
    """The table, the rendezvous point, reasons, environment and commands, within the width."""
    made = make(dataclasses.replace(JOB, master_port=9090))
    text = render_text(made, width=80)
    assert text.startswith(
        "Plan r-1, job j, 2 ranks on 2 hosts, launcher env, backend gloo\n"
        "image img (pull: missing)\n\n"
        "NODE  HOST  RANKS  GPUS  ADDRESS   INTERFACE  FABRIC  ENGINE\n"
        "0     h0    0      -     10.0.0.1  eth0       tcp     docker\n"
        "1     h1    1      -     10.0.0.2  eth0       tcp     docker\n\n"
        "Rank 0 listens on 10.0.0.1 port 9090. When a rank fails: stop the others (grace\n"
        "30s).\n\nWhy\n"
    )
    assert "  TOKEN=***\n" in text and "  rank1: DISTUI_TASK=1 RANK=1 NODE_RANK=1\n" in text
    long_lines = [line for line in text.splitlines() if len(line) > 80]
    assert all("/home/u" in line for line in long_lines)


def test_a_large_plan_is_short_unless_all_is_asked_for() -> None:
    """Hosts alike are named once."""
    made = make(JOB, hosts=40)
    short, full = render_text(made), render_text(made, full=True)
    assert short.count("docker run") == 2 and full.count("docker run") == 40
    assert "39 more hosts the same: h[1-39]\n" in short and "38 more tasks the same; --full prints all" in short


def test_nothing_in_a_job_can_drive_the_terminal() -> None:
    """Escapes, direction marks and carriage returns are shown, not sent."""
    nasty = "\x1b]52;c;x\x07\x1b[2J\r\u202etxt\u061c\u3164"
    made = make(dataclasses.replace(JOB, name=nasty, command=("p", nasty), env={"V": nasty}, workdir=nasty))
    text = render_text(made, full=True)
    assert not {"\x1b", "\r", "\x07", "\u202e", "\u061c", "\u3164"} & set(text)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12), min_size=1, max_size=4))
def test_quoting_gives_no_unprintable_character(words: list[str]) -> None:
    """Whatever the words are, each line of the command is printable."""
    assert not {c for c in folded(words, 80) if ord(c) < 32} - {"\n"}
    assert all(quoted(w) for w in words)


WORDS = [
    "plain",
    "a b",
    "it's",
    "$(id) `id`",
    'say "x"',
    "tab\tesc\x1b[0m",
    "new\nline",
    "\\x41",
    "żółw 🐢",
    "-x",
    "",
    "\u202e",
]


def test_a_folded_command_means_the_same_to_bash() -> None:
    """Read back by the shell people paste into."""
    argv = ("printf", "%s\\0", *WORDS)
    done = subprocess.run(["bash", "-c", folded(argv, 30)], capture_output=True, check=True)
    assert done.stdout == "".join(f"{w}\0" for w in WORDS).encode()


def pasted(text: str, host: str, tmp_path: Path, **env: str) -> str:
    """Run everything under `# HOST` of a plan's commands in bash, with a docker that says what it was given."""
    commands = text.partition("\nCommands\n")[2].split("\n\n")
    shim = tmp_path / "bin/docker"
    shim.parent.mkdir()
    shim.write_text(
        '#!/bin/sh\nfor a; do printf "%s\\n" "$a"; done\n'
        'while [ "$1" != --env-file ]; do shift; done; echo "mode $(stat -c %a "$2")"; cat "$2"\n'
    )
    shim.chmod(0o755)
    blocks = [b for b in commands if b.startswith((f"# {host}: ", "# on every host"))]
    script = "\n".join(blocks)
    path = f"{shim.parent}:{os.environ['PATH']}"
    environ = {"PATH": path, "HOME": str(tmp_path), **env}
    return subprocess.run(["bash", "-c", script], capture_output=True, env=environ, check=True, text=True).stdout


def test_the_printed_commands_work_when_pasted(tmp_path: Path) -> None:
    """The env file has every value, private; docker gets the plan's argv; nothing is left."""
    job = dataclasses.replace(
        JOB, env={"GREETING": "$x 'y' \"z\" `t`", "ESC": "\x1b[0m\ttab"}, command=("prog", *WORDS)
    )
    made = make(job, home=str(tmp_path))
    out = pasted(render_text(made, full=True, width=80), "h1", tmp_path)
    task = made.tasks[1]
    lines = "".join(f"{k}={v}\n" for k, v in task.env.items() if k != "ESC") + "TOKEN\nESC=\x1b[0m\ttab\n"
    assert out == "".join(f"{w}\n" for w in task.start[1:]) + "mode 600\n" + lines
    assert not Path(task.env_file).exists()


def test_the_printed_commands_without_a_container_work_when_pasted(tmp_path: Path) -> None:
    """They start the same supervised task as distui does; the secret comes from the shell."""
    job = dataclasses.replace(JOB, image=None, command=("sh", "-c", 'echo "$RANK $GREETING $TOKEN $0"', "it's me"))
    made = make(job, engine="process", home=str(tmp_path), hosts=1)
    task = made.tasks[0]
    out = pasted(render_text(made, full=True), "h0", tmp_path, TOKEN="s3cret")
    assert out.strip() == process.task_folder(task.run_dir, 0)
    state = ended(task)
    assert (state.exit, state.labels) == (0, task.labels)
    log = Path(process.log_path(task.run_dir, 0)).read_text()
    assert log == "0 hello world s3cret it's me\n"


def ended(task: Task) -> process.ProcessState:
    """The state of a short task once it has ended; the limit is only against hanging."""
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        out = subprocess.run(process.inspect(task.run_dir, (task.index,)), capture_output=True, check=True).stdout
        (state,) = process.parse_states(out)
        if state.state == "exited":
            return state
    raise AssertionError("it never ended")
