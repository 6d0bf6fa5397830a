"""The hook in real programs: they tell where they are, and run as if it were not there."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from distui.agent.bundle import bundle, take
from distui.agent.ranks import hooked, watching
from distui.runs.insight.asking.ask import MODULES
from distui.runs.insight.seen.answers import Process, host_answer
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.insight.slow.lateness import lateness

HOOK = Path(str(resources.files("distui.agent").joinpath("hook")))

Start = Callable[..., subprocess.Popen[str]]


def until(condition: Callable[[], object]) -> None:
    """Wait for something that comes by itself; the limit is only against hanging."""
    limit = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < limit, "it never came"
        time.sleep(0.01)


def threads_of(insight: Path, pid: int) -> Any:
    """The stacks that a process tells when it is asked; on a busy machine that may take more than one question."""
    found: dict[str, Any] = {}

    def answered() -> bool:
        found.update(hooked.stacks(str(insight), pid))
        return "threads" in found

    until(answered)
    return found["threads"]


def recorded(insight: Path, pid: int) -> Any:
    """The collectives that a process tells when it is asked, likewise."""
    found: dict[str, Any] = {}

    def answered() -> bool:
        found.update(hooked.recorder(str(insight), pid, 5))
        return "groups" in found

    until(answered)
    return found["groups"]


@pytest.fixture
def insight(tmp_path: Path) -> Path:
    """Where the hook opens its files."""
    folder = tmp_path / "insight-0"
    folder.mkdir()
    return folder


def hooked_env(insight: Path | None, **more: str) -> dict[str, str]:
    """A rank's environment with the hook, or without it."""
    own = more.pop("PYTHONPATH", "")
    base = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "PYTHONPATH")}
    base |= {
        "GLOO_SOCKET_IFNAME": "lo",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONWARNINGS": "ignore",
    }  # torch's, of numpy
    if insight is None:
        return base | ({"PYTHONPATH": own} if own else {}) | more
    path = f"{HOOK}:{own}" if own else str(HOOK)
    return base | {"PYTHONPATH": path, "DISTUI_INSIGHT": str(insight), "TORCH_FR_BUFFER_SIZE": "2000"} | more


@pytest.fixture
def start(tmp_path: Path, insight: Path) -> Iterator[Start]:
    """Starts a program under the hook; whatever still runs is ended."""
    started: list[subprocess.Popen[str]] = []

    def call(program: str, *flags: str, **more: str) -> subprocess.Popen[str]:
        argv = [sys.executable, *flags, "-c", program]
        env = hooked_env(insight, **more)
        one = subprocess.Popen(argv, text=True, stdin=-1, stdout=-1, stderr=-1, cwd=tmp_path, env=env)
        started.append(one)
        return one

    yield call
    for one in started:
        one.kill()
        one.communicate()


@pytest.fixture
def both(tmp_path: Path, insight: Path) -> Callable[..., tuple[int, str, str]]:
    """Runs a program without the hook and with it: both must end alike, and say the same byte for byte."""

    def call(program: str, *flags: str, **more: str) -> tuple[int, str, str]:
        argv = [sys.executable, *flags, "-c", program]
        said = []
        for folder in (None, insight):
            done = subprocess.run(
                argv, capture_output=True, text=True, cwd=tmp_path, env=hooked_env(folder, **more), timeout=600
            )
            said.append((done.returncode, done.stdout, done.stderr))
        assert said[0] == said[1]
        return said[1]

    return call


def ask(insight: Path, task: Path, *, stacks: bool = True) -> tuple[Process, ...]:
    """What the asker on a host answers of a task without a container, as it comes over ssh."""
    program = bundle(*MODULES)
    tasks = [{"task": 0, "id": "", "folder": str(task), "hook": str(insight)}]
    asked = {"tasks": tasks, "engine": [], "most": 400, "stacks": stacks}
    done = subprocess.run(take(program), input=program + json.dumps(asked).encode() + b"\n", capture_output=True)
    assert done.returncode == 0 and done.stderr == b"", done.stderr
    mark, _, text = done.stdout.partition(b":")
    assert mark == b"DISTUI-INSIGHT"
    return host_answer("h1", json.loads(text)).tasks[0]


def ask_until(good: Callable[[tuple[Process, ...]], bool], insight: Path, task: Path) -> tuple[Process, ...]:
    """What it answers once that is good: of a process that gets no core for a while it says that it can't be asked."""
    reported: tuple[Process, ...] = ()

    def answered() -> bool:
        nonlocal reported
        reported = ask(insight, task)
        return good(reported)

    until(answered)
    return reported


def all_asked(reported: tuple[Process, ...]) -> bool:
    """Whether each has told all it can."""
    return not any(one.unasked for one in reported)


# what it tells

SLEEPS = """
import os, time, torch, torch.distributed as dist
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method=os.environ["MEET"], rank=rank, world_size=2)
x = torch.ones(4, 5)
for step in range(3):
    dist.all_reduce(x)
if rank == 1: print("stepped", flush=True); time.sleep(600)
print("stepped", flush=True)
dist.all_reduce(x)
"""


FORKS = """
import os, torch, torch.distributed as dist, torch.multiprocessing as mp
def work(rank):
    dist.init_process_group("gloo", init_method=os.environ["MEET"], rank=rank, world_size=2)
    dist.all_reduce(torch.ones(1))
    os.write(1, b"stepped\\n")
    import time; time.sleep(600)
if __name__ == "__main__":
    mp.start_processes(work, nprocs=2, start_method="fork")
"""


def test_ranks_that_a_program_forks_tell_what_torch_counts(start: Start, insight: Path, tmp_path: Path) -> None:
    """They have their parent's environment, and its hook: each opens its own, and says its number and its world."""
    task = tmp_path / "task-0"
    place = {"MEET": f"file://{tmp_path}/meeting", "DISTUI_TASK_DIR": str(task)}
    program = start(FORKS, RANK="0", WORLD_SIZE="1", **place)
    assert program.stdout is not None
    assert [program.stdout.readline() for _ in range(2)] == ["stepped\n"] * 2
    reported = ask_until(all_asked, insight, task)
    assert {one.torch_rank for one in reported if one.pid == program.pid} == {None}
    found = {one.torch_rank: one for one in reported}
    for rank in (0, 1):
        assert found[rank].world == 2 and found[rank].rank == 0
        assert [group.enqueued for group in (found[rank].groups or {}).values()] == [1]
        assert not found[rank].unasked, found[rank]
        assert any(frame.function == "work" for stack in found[rank].stacks for frame in stack.frames), found[rank]


def test_ranks_tell_where_they_are(start: Start, insight: Path, tmp_path: Path) -> None:
    """Position, pending collective, stack: of the rank that sleeps and of the one that waits for it."""
    task = tmp_path / "task-0"
    place = {"MEET": f"file://{tmp_path}/meeting", "WORLD_SIZE": "2", "DISTUI_TASK_DIR": str(task)}
    ranks = [start(SLEEPS, RANK=str(rank), **place) for rank in range(2)]
    assert [rank.stdout.readline() for rank in ranks if rank.stdout] == ["stepped\n"] * 2

    def waits() -> bool:
        one = next(p for p in ask(insight, task, stacks=False) if p.pid == ranks[0].pid)
        return one.groups is not None and one.groups["0"].pending is not None

    until(waits)
    reported = {process.rank: process for process in ask_until(all_asked, insight, task)}

    waiting, sleeping = reported[0], reported[1]
    assert (waiting.pid, sleeping.pid) == (ranks[0].pid, ranks[1].pid)
    assert waiting.groups and sleeping.groups and not waiting.unasked and not sleeping.unasked
    ahead, behind = waiting.groups["0"], sleeping.groups["0"]
    assert (ahead.enqueued, behind.enqueued, behind.pending) == (4, 3, None)
    assert ahead.pending and (ahead.pending.number, ahead.pending.what, ahead.pending.sizes) == (4, "all_reduce", "4x5")
    frames = [frame for stack in sleeping.stacks for frame in stack.frames]
    assert [(frame.line, frame.function) for frame in frames if frame.file == "<string>"] == [(8, "<module>")]
    assert all(rank.poll() is None for rank in ranks)


STEPS = """
import os, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=os.environ["MEET"], rank=int(os.environ["RANK"]), world_size=4)
x = torch.ones(64, 64)
for step in range(10000):
    for _ in range(5): (x @ x).sum()
    dist.all_reduce(x[0])
print("stepped", flush=True)
input()
"""


def test_ten_thousand_healthy_steps_prove_nothing_of_anybody(start: Start, insight: Path, tmp_path: Path) -> None:
    """Real torch, asked again and again, its ranks on two hosts as it seems, whose clocks are half a second apart."""
    task = tmp_path / "task-0"
    place = {"MEET": f"file://{tmp_path}/meeting", "WORLD_SIZE": "4", "DISTUI_TASK_DIR": str(task)}
    ranks = [start(STEPS, RANK=str(rank), **place) for rank in range(4)]
    newest, reported = 0, 0

    def done() -> bool:
        nonlocal newest, reported
        processes = {one.rank: one for one in ask(insight, task, stacks=False) if one.groups and one.torch}
        if len(processes) == 4:
            found = lateness([apart(processes[rank], rank) for rank in range(4)])
            assert found.late == (), found
            newest, reported = max(one.groups["0"].enqueued for one in processes.values() if one.groups), reported + 1
        assert all(rank.poll() is None for rank in ranks)
        return newest == 10_000

    until(done)
    assert reported > 3


def apart(process: Process, rank: int) -> RankSeen:
    """A rank whose host's clock is half a second ahead, and was read with an error of 2 ms; or of the other host."""
    ahead = 0.5 * (rank > 1)
    group = (process.groups or {})["0"]
    rows = tuple(replace(one, began_ns=one.began_ns + int(ahead * 1e9)) for one in group.recent)
    reported = replace(process, groups={"0": replace(group, recent=rows)})
    return RankSeen(rank, f"h{1 + rank // 2}", reported, ahead=ahead and ahead - 0.002, doubt=0.003)


@pytest.mark.parametrize("spawned", ["fork", "spawn"])
def test_children_do_not_pass_for_their_rank(start: Start, insight: Path, tmp_path: Path, spawned: str) -> None:
    """A forked child has no files of its own; nor does it take away its parent's when it ends."""
    child = tmp_path / "child.py"
    child.write_text("def work():\n    import torch.distributed\n    print('child', flush=True)\n")
    program = (
        "import multiprocessing, os, torch, torch.distributed\nimport child\n"
        f"if __name__ == '__main__':\n    one = multiprocessing.get_context({spawned!r}).Process(target=child.work)\n"
        "    one.start(); one.join()\n    if os.fork() == 0: raise SystemExit\n    os.wait()\n"
        "    print('joined', one.exitcode, flush=True)\n    input()\n"
    )
    rank = start(program, "-W", "ignore", PYTHONPATH=str(tmp_path))
    assert rank.stdout and [rank.stdout.readline() for _ in range(2)] == ["child\n", "joined 0\n"]

    assert recorded(insight, rank.pid) == {}
    assert threads_of(insight, rank.pid)
    assert rank.communicate("\n")[1] == "" and rank.returncode == 0


def test_several_who_ask_at_once_get_whole_answers(start: Start, insight: Path) -> None:
    """`distui why` beside whoever follows the run, and from two machines: each has the main thread's calls."""
    rank = start("import torch, torch.distributed\ndef waits():\n    print('waits', flush=True); input()\nwaits()")
    assert rank.stdout and rank.stdout.readline() == "waits\n"
    base, got = insight / str(rank.pid), list[bytes]()

    def asks() -> None:
        for _ in range(8):
            got.append(hooked.ask_stacks(f"{base}.ask", f"{base}.stacks", turn=120.0))

    with mock.patch.object(hooked, "STACK_SECONDS", 120.0):
        askers = [threading.Thread(target=asks) for _ in range(3)]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join()
    assert len(got) == 24
    for text in got:
        assert text.count(b"Current thread") == 1, text
        assert [frame[1:] for frame in hooked.read_stacks(text.decode())[-1][2]] == [[3, "waits"], [4, "<module>"]]
    assert rank.poll() is None


# it changes nothing

COMPUTES = """
import sys, torch, torch.distributed
print("begun", flush=True)
total = torch.zeros((), dtype=torch.int64)
number = 0
while not sys.stdin.closed:
    for _ in range(20000):
        number += 1
        total += number
    if number >= 1_000_000:
        break
print(int(total) == number * (number + 1) // 2, flush=True)
input()
"""


def test_a_thousand_questions_change_nothing(start: Start, insight: Path) -> None:
    """Asked while it computes and while it waits, one after the other without a break."""
    rank = start(COMPUTES)
    assert rank.stdout and rank.stdout.readline() == "begun\n"
    asked, written = (os.open(insight / f"{rank.pid}.{name}", os.O_RDWR | os.O_NONBLOCK) for name in ("ask", "stacks"))
    for _ in range(1000):
        os.ftruncate(written, 0)
        hooked.put(asked)
    assert rank.poll() is None
    assert threads_of(insight, rank.pid)
    os.close(asked)
    os.close(written)

    out, err = rank.communicate("\n")

    assert (rank.returncode, out, err) == (0, "True\n", "")


def test_a_question_is_one_signal(start: Start, insight: Path) -> None:
    """Two at once may be handled by two threads, whose stacks are mixed then."""
    rank = start("import torch, torch.distributed\nprint('begun', flush=True)\ninput()")
    assert rank.stdout and rank.stdout.readline() == "begun\n"
    written = insight / f"{rank.pid}.stacks"
    for asked in range(1, 21):
        fifo = os.open(insight / f"{rank.pid}.ask", os.O_RDWR | os.O_NONBLOCK)
        hooked.put(fifo)
        os.close(fifo)
        until(lambda asked=asked: written.read_text().count("in <module>\n") >= asked)
    assert rank.communicate("\n") == ("", "")
    assert written.read_text().count("in <module>\n") == asked


TURNS = """
import torch, torch.distributed
torch.ones(512, 512) @ torch.ones(512, 512)  # threads of compiled code
print("begun", flush=True)
import os
while not os.path.exists("over"): sum(range(100))
"""


def test_all_questions_are_answered_by_the_main_thread(start: Start, insight: Path, tmp_path: Path) -> None:
    """However many come at once: no other thread may read the main one's calls while that goes on."""
    rank = start(TURNS)
    assert rank.stdout and rank.stdout.readline() == "begun\n"
    written = insight / f"{rank.pid}.stacks"
    fifo = os.open(insight / f"{rank.pid}.ask", os.O_RDWR | os.O_NONBLOCK)
    for _ in range(500):
        os.write(fifo, b".")
    until(lambda: written.read_text().count("in <module>\n") >= 500)
    os.close(fifo)
    text = written.read_text()
    heads = re.findall(r"^(?:Current thread|Thread) .*$", text, re.MULTILINE)
    assert len(heads) == 500 and len(set(heads)) == 1 and heads[0].startswith("Current thread")
    assert text.count("in <module>\n") == 500
    (tmp_path / "over").touch()
    assert rank.wait(600) == 0


@pytest.mark.parametrize("watched", [False, True])
def test_a_program_that_gives_its_signals_back_is_not_ended_by_a_question(
    start: Start, insight: Path, tmp_path: Path, watched: bool
) -> None:
    """Some do it for their children, or after a handler of their own has raised: a signal nobody handles ends them."""
    task = tmp_path / "task-0"
    program = (
        "import signal, torch, torch.distributed\n"
        "for n in {*range(1, signal.NSIG)} - {9, 19, 32, 33}:\n    signal.signal(n, signal.SIG_DFL)\n"
        "print('begun', flush=True)\ninput()\nprint('lives')"
    )
    rank = start(program, DISTUI_TASK_DIR=str(task))
    assert rank.stdout and rank.stdout.readline() == "begun\n"
    if watched:
        process = watching.Watched(rank.pid, str(insight), True)
        process.sample()
        assert process.samples == []
    else:
        words = ("stacks: it no longer handles the signal that asks for them",)
        (said,) = ask_until(lambda reported: reported[0].unasked == words, insight, task)
        assert said.unasked == words
    assert rank.communicate("\n") == ("lives\n", "")


ENDS_SLOWLY = """
import ctypes, torch, torch.distributed
libc = ctypes.CDLL(None)
libc.__cxa_atexit(ctypes.cast(libc.getchar, ctypes.c_void_p), None, None)
print("asked?", flush=True)
input()
"""


def test_a_question_to_a_process_that_is_ending_does_not_end_it(start: Start, insight: Path) -> None:
    """Python has given its signals back by then, and destructors of compiled code still run."""
    rank = start(ENDS_SLOWLY)
    assert rank.stdin and rank.stdout and rank.stdout.readline() == "asked?\n"
    base = insight / str(rank.pid)
    fifo = os.open(f"{base}.ask", os.O_RDWR | os.O_NONBLOCK)  # asked before, answered late
    rank.stdin.write("\n")
    rank.stdin.flush()
    until(lambda: not Path(f"{base}.ask").exists())
    until(lambda: Path(f"/proc/{rank.pid}/syscall").read_text().split()[:2] in (["0", "0x0"], ["63", "0x0"]))  # read

    os.write(fifo, b".")
    os.close(fifo)
    hooked.stacks(str(insight), rank.pid)

    out, err = rank.communicate("\n")
    assert (rank.returncode, out, err) == (0, "", "")
    assert sorted(path.suffix for path in insight.iterdir()) == [".crash", ".json", ".stacks"]


def test_a_process_that_becomes_another_program_is_not_ended_by_a_question(start: Start, insight: Path) -> None:
    """os.execv keeps the number; the new program knows nothing of the signal."""
    program = (
        "import os, torch, torch.distributed\nos.execv('/bin/sh', ['sh', '-c', 'echo other; read x; echo went on'])"
    )
    rank = start(program)
    assert rank.stdout and rank.stdout.readline() == "other\n"
    assert "why" in hooked.stacks(str(insight), rank.pid)
    assert "why" in hooked.recorder(str(insight), rank.pid, 5)
    assert rank.communicate("\n")[0] == "went on\n"


def test_a_process_that_becomes_itself_again_answers_again(start: Start, insight: Path) -> None:
    """Elastic trainers do that; what the earlier one left in the folder is no hindrance."""
    program = (
        "import os, sys, torch, torch.distributed\n"
        "if 'AGAIN' not in os.environ:\n    os.environ['AGAIN'] = '1'\n    os.execv(sys.executable, sys.orig_argv)\n"
        "print('again', flush=True)\ninput()\n"
    )
    rank = start(program)
    assert rank.stdout and rank.stdout.readline() == "again\n"
    assert recorded(insight, rank.pid) == {}
    assert threads_of(insight, rank.pid)
    assert rank.communicate("\n") == ("", "") and rank.returncode == 0


def test_a_program_that_closes_all_files_keeps_those_it_opens_then(start: Start, tmp_path: Path) -> None:
    """Numbers of the hook's files are other files' by then: a forked child leaves them open."""
    program = (
        "import os, torch, torch.distributed\nos.closerange(3, 256)\n"
        "mine = [os.open('/dev/null', os.O_RDWR) for _ in range(64)]\n"
        "child = os.fork()\nif child == 0:\n    [os.fstat(number) for number in mine]\n    os._exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len([os.fstat(number) for number in mine]))\n"
    )
    assert start(program).communicate() == ("7 64\n", "")


GLOO = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meeting"), rank=0, world_size=1)
x = torch.ones(3)
dist.all_reduce(x)
os.unlink("meeting")
print(x.tolist(), sys.path[1:], [type(one).__name__ for one in sys.meta_path])
print([name for name in sys.modules if "distui" in name], vars(torch.distributed.__spec__.loader), file=sys.stderr)
dist.destroy_process_group()
"""


@pytest.mark.parametrize(
    "program",
    [
        GLOO,
        "import sys; print(sys.path, sys.argv); sys.exit(3)",
        "import sys; print(sorted(sys.modules).count('torch'))",
        "raise ValueError('its own')",
        "import torch, torch.distributed; raise ValueError('its own')",
        "import torch.nothing",
        "import torch.distributed.nothing",
        "import os, signal, torch.distributed; os.kill(os.getpid(), signal.SIGTERM)",
        "import sys, torch.distributed; sys.exit('words')",
        "import importlib, torch.distributed as d; print(importlib.reload(d) is d, d.__spec__.name)",
        "import sys; print([name for name in sys.modules if 'custom' in name])",
        "import sitecustomize",
        "import importlib.util; print(importlib.util.find_spec('sitecustomize'))",
    ],
)
def test_a_program_says_the_same_with_the_hook(both: Callable[..., tuple[int, str, str]], program: str) -> None:
    """Nor does torch's worker server say that it listens, or that it ends."""
    both(program)


def left(insight: Path) -> tuple[Process, ...]:
    """What the asker on a host finds of programs that have ended."""
    asked = {"tasks": [{"task": 0, "id": "", "folder": "", "hook": str(insight)}], "engine": [], "left": True}
    program = bundle(*MODULES)
    done = subprocess.run(take(program), input=program + json.dumps(asked).encode() + b"\n", capture_output=True)
    assert done.returncode == 0 and done.stderr == b"", done.stderr
    return host_answer("h1", json.loads(done.stdout.partition(b":")[2])).tasks[0]


CRASHES = """
import ctypes, os, torch, torch.distributed
def step():
    ctypes.string_at(0)
step()
"""


def test_a_crash_in_compiled_code_leaves_its_place(both: Callable[..., tuple[int, str, str]], insight: Path) -> None:
    """And the program ends as it would, without another word."""
    assert both(CRASHES)[0] == -signal.SIGSEGV
    (one,) = left(insight)
    assert [(frame.line, frame.function) for frame in one.stacks[0].frames if frame.file == "<string>"] == [
        (4, "step"),
        (5, "<module>"),
    ]


def test_an_exception_leaves_its_place_and_its_collectives(
    both: Callable[..., tuple[int, str, str]], insight: Path
) -> None:
    """Of what nobody caught only. Its group is destroyed last of all: torch aborts now and then where one is left."""
    last = "import atexit; atexit.register(lambda: dist.destroy_process_group())"
    text = last + GLOO.replace("dist.destroy_process_group()", "raise ValueError('its own')")
    assert both(text)[0] == 1
    (one,) = left(insight)
    assert one.groups is not None and [each.what for each in one.groups["0"].recent] == ["all_reduce"]
    assert [(frame.line, frame.function) for frame in one.stacks[0].frames] == [(9, "<module>")]


@pytest.mark.parametrize(
    "program",
    [
        "import torch, torch.distributed; print('ran')",
        "import sys, torch, torch.distributed; sys.exit(3)",
        "import os, torch, torch.distributed\nif os.fork() == 0: os.abort()\nos.wait()",
    ],
    ids=["ended well", "exit status", "a child that crashed"],
)
def test_other_ends_leave_nothing(both: Callable[..., tuple[int, str, str]], insight: Path, program: str) -> None:
    """A child's crash is its own."""
    both(program)
    assert left(insight) == ()


@pytest.mark.parametrize(
    "own", ["import faulthandler; faulthandler.enable()", "import signal; signal.signal(6, print)"]
)
def test_who_tells_of_crashes_itself_is_left_alone(start: Start, insight: Path, own: str) -> None:
    """As with PYTHONFAULTHANDLER: what it says stays in its log."""
    rank = start(f"{own}\nimport os, torch, torch.distributed\nos.kill(os.getpid(), 11)")
    said = rank.communicate()[1]
    assert (rank.returncode, "Fatal Python error" in said) == (-signal.SIGSEGV, "faulthandler" in own)
    assert left(insight) == ()


def test_an_isolated_python_has_no_hook(both: Callable[..., tuple[int, str, str]], insight: Path) -> None:
    """`python -I` reads no PYTHONPATH."""
    both("import torch, torch.distributed; print('ran')", "-I")
    assert list(insight.iterdir()) == []


def test_a_program_without_torch_leaves_nothing(both: Callable[..., tuple[int, str, str]], insight: Path) -> None:
    """Not even an import more than it makes itself."""
    both("import json; print('ran')")
    assert list(insight.iterdir()) == []


def test_a_hook_without_its_folder_is_silent(start: Start) -> None:
    """The folder could not be mounted, or is not this user's."""
    assert start("import torch, torch.distributed; print('ran')", DISTUI_INSIGHT="/nonexistent").communicate() == (
        "ran\n",
        "",
    )


OWN = "import sitecustomize, sys; print(sitecustomize.MINE, sitecustomize.__file__, sys.modules['sitecustomize'].MINE)"


def test_an_own_sitecustomize_runs(both: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    """It is what `import sitecustomize` gives."""
    (tmp_path / "sitecustomize.py").write_text("MINE = 'mine'\nprint('runs')\n")
    code, out, _ = both(OWN, PYTHONPATH=str(tmp_path))
    assert (code, out) == (0, f"runs\nmine {tmp_path}/sitecustomize.py mine\n")


@pytest.mark.parametrize("text", ["1/0", "import nothing_such", "raise ImportError('x')", "def f(:"])
def test_an_own_sitecustomize_that_fails_is_told_as_ever(
    both: Callable[..., tuple[int, str, str]], tmp_path: Path, text: str
) -> None:
    """By Python's own words, and the program runs."""
    (tmp_path / "sitecustomize.py").write_text(text)
    code, out, err = both("print('ran')", PYTHONPATH=str(tmp_path))
    assert (code, out) == (0, "ran\n") and "Error in sitecustomize" in err


def test_an_own_sitecustomize_that_ends_python_ends_it(
    both: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    """An exit is an exit."""
    (tmp_path / "sitecustomize.py").write_text("import os; os._exit(5)")
    assert both("print('ran')", PYTHONPATH=str(tmp_path))[0] == 5


OLD = {
    "__init__.py": (
        "__version__ = '2.4.1+cpu'\nfrom torch import distributed\nclass _C:\n    class _distributed_c10d: pass"
    ),
    "distributed.py": "import os\nOLDER = lambda: {n[11:]: os.environ[n] for n in os.environ if n[6:10] == 'NCCL'}",
}


def package(folder: Path, files: Mapping[str, str], called: str = "torch") -> None:
    """A package of this name."""
    (folder / called).mkdir()
    for name, text in files.items():
        (folder / called / name).write_text(text)


JAX = {
    "__init__.py": "import atexit\nfrom jax import distributed\natexit.register(distributed.shutdown)",
    "distributed.py": "def shutdown():\n    print('waits', flush=True) or input()",
}
TF = {"__init__.py": ""}
"""A stand-in that waits at its end for the other ranks, as jax 0.10 does, by an atexit that it registers itself."""


def test_a_program_of_jax_tells_its_calls_until_it_has_ended(start: Start, insight: Path, tmp_path: Path) -> None:
    """Also where it waits at its end; the process is its task's rank. It has no collectives to ask for."""
    package(tmp_path, JAX, "jax")
    looks = "from importlib.util import find_spec; find_spec('tensorflow'); find_spec('jax'); "  # as libraries do
    rank = start(f"{looks}import jax\nprint(flush=True) or input()\n1/0", RANK="3", PYTHONPATH=str(tmp_path))
    assert rank.stdin and rank.stdout and rank.stdout.readline() == "\n"
    said = hooked.who(str(insight), rank.pid)
    assert said and (said["stacks"], said["torch"], said["uses"], said["rank"]) == (True, "", "JAX", "3")
    assert threads_of(insight, rank.pid)[0][2] == [["<string>", 2, "<module>"]]

    rank.stdin.write("\n")
    rank.stdin.flush()
    assert rank.stdout.readline() == "waits\n"
    assert threads_of(insight, rank.pid)[0][2] == [[f"{tmp_path}/jax/distributed.py", 2, "shutdown"]]
    until(lambda: "late" not in hooked.stacks(str(insight), rank.pid))  # so that nobody waits for the rest of it
    out, err = rank.communicate("\n")
    assert (rank.returncode, out, "ZeroDivisionError" in err) == (1, "", True)
    assert not (insight / f"{rank.pid}.ask").exists()


def test_a_program_of_jax_that_uses_torch_too_tells_both(start: Start, insight: Path, tmp_path: Path) -> None:
    """torch is imported for its data loader, say; its own part is added, and nothing is opened a second time."""
    package(tmp_path, JAX, "jax")
    program = "import jax, torch.distributed, sys\nprint('Watch' in str(sys.meta_path), flush=True)\ninput()"
    rank = start(program, PYTHONPATH=str(tmp_path))
    assert rank.stdout and rank.stdout.readline() == "False\n"
    said = hooked.who(str(insight), rank.pid)
    assert said and (said["server"], said["stacks"], said["uses"]) == (True, True, "") and said["torch"]
    assert threads_of(insight, rank.pid)
    open_files = [path.readlink() for path in Path(f"/proc/{rank.pid}/fd").iterdir()]
    assert [path for path in open_files if path.suffix == ".stacks"] == [insight / f"{rank.pid}.stacks"]


def test_a_program_of_jax_that_loads_torch_late_tells_its_calls_to_its_end(
    start: Start, insight: Path, tmp_path: Path
) -> None:
    """What torch opens ends before; what jax waits in was registered earlier still."""
    package(tmp_path, JAX, "jax")
    package(tmp_path, OLD)
    rank = start("import jax, torch", PYTHONPATH=str(tmp_path))
    assert rank.stdout and rank.stdout.readline() == "waits\n"
    assert threads_of(insight, rank.pid)[0][2] == [[f"{tmp_path}/jax/distributed.py", 2, "shutdown"]]


@pytest.mark.parametrize(
    ("jax", "program", "uses"),
    [
        ({"__init__.py": "import jaxlib"}, "import tensorflow", "TensorFlow"),
        ({"__init__.py": "import jaxlib"}, "import sys; sys.path[:0] = ['next']; import jax", "JAX"),
        (JAX, "import tensorflow, jax", "JAX and TensorFlow"),
        ({"__init__.py": "import tensorflow"}, "import jax", "JAX and TensorFlow"),
    ],
    ids=["a broken one first", "whole once more", "both", "one by the other"],
)
def test_programs_tell_all_that_they_have_loaded(
    start: Start, insight: Path, tmp_path: Path, jax: dict[str, str], program: str, uses: str
) -> None:
    """As programs do that try what is there; one that can't be loaded is none."""
    for name, files in (("jax", jax), ("tensorflow", TF)):
        package(tmp_path, files, name)
    (tmp_path / "next").mkdir()
    package(tmp_path / "next", {"__init__.py": ""}, "jax")
    tries = "try:\n    import jax\nexcept ImportError:\n    pass\n" if "jaxlib" in jax["__init__.py"] else ""
    rank = start(f"{tries}{program}\nprint(flush=True) or input()", PYTHONPATH=str(tmp_path))
    assert rank.stdout and rank.stdout.readline() == "\n"
    said = hooked.who(str(insight), rank.pid)
    assert said and (said["uses"], said["stacks"]) == (uses, True)


def test_a_framework_in_a_zip_file_is_loaded_as_ever(start: Start, insight: Path, tmp_path: Path) -> None:
    """All modules of such a file have one loader; another one of it is not taken for jax."""
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as file:
        file.writestr("jax/__init__.py", "import jax.core")
        file.writestr("jax/core.py", "")
        file.writestr("other.py", "")
    program = "import importlib.util, os\nimportlib.util.find_spec('jax')\nimport other\n"
    program += "print(os.listdir(os.environ['DISTUI_INSIGHT']))\nimport jax\nprint(jax.core, flush=True)\ninput()"
    rank = start(program, PYTHONPATH=str(tmp_path / "all.zip"))
    assert rank.stdout and rank.stdout.readline() == "[]\n"
    assert "jax/core.py" in rank.stdout.readline()
    assert (hooked.who(str(insight), rank.pid) or {})["uses"] == "JAX"


def test_an_older_torch_gives_stacks_only(start: Start, insight: Path, tmp_path: Path) -> None:
    """It has no worker server."""
    package(tmp_path, OLD)
    rank = start("import torch\nprint(flush=True) or input()", RANK="3", PYTHONPATH=str(tmp_path))
    assert rank.stdout and rank.stdout.readline() == "\n"

    said = hooked.who(str(insight), rank.pid)

    assert said and (said["server"], said["stacks"], said["torch"], said["rank"]) == (False, True, "2.4.1+cpu", "3")
    ((_, _, frames),) = threads_of(insight, rank.pid)
    assert frames == [["<string>", 2, "<module>"]]
    assert rank.communicate("\n") == ("", "") and rank.returncode == 0


@pytest.mark.parametrize(
    ("version", "own", "older"),
    [
        ("2.4.1+cpu", {}, {"TRACE_BUFFER_SIZE": "2000"}),
        (
            "2.7.1",
            {"TORCH_FR_DUMP_TEMP_FILE": "/f/trace_"},
            {"TRACE_BUFFER_SIZE": "2000", "DEBUG_INFO_TEMP_FILE": "/f/trace_"},
        ),
        (
            "2.7.1",
            {"TORCH_FR_DUMP_TEMP_FILE": "/f/trace_", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/own"},
            {"TRACE_BUFFER_SIZE": "2000", "DEBUG_INFO_TEMP_FILE": "/own"},
        ),
        ("2.8.0", {"TORCH_FR_DUMP_TEMP_FILE": "/f/trace_"}, {}),
        ("3.0", {"TORCH_FR_DUMP_TEMP_FILE": "/f/trace_"}, {}),
    ],
)
def test_an_older_torch_has_its_recorder_by_its_own_names(
    start: Start, tmp_path: Path, version: str, own: dict[str, str], older: dict[str, str]
) -> None:
    """Newer ones complain of them in the job's log; what the program sets itself stays."""
    package(tmp_path, OLD | {"__init__.py": OLD["__init__.py"].replace("2.4.1+cpu", version)})
    rank = start("import json, torch\nprint(json.dumps(torch.distributed.OLDER()))", PYTHONPATH=str(tmp_path), **own)
    assert json.loads(rank.communicate()[0]) == older


def test_a_python_that_can_t_tell_children_is_not_asked_for_stacks(start: Start, insight: Path, tmp_path: Path) -> None:
    """Python 3.6: nothing is opened that a forked child would keep."""
    package(tmp_path, OLD)
    rank = start(
        "import os\ndel os.register_at_fork\nimport torch\nprint(flush=True)\ninput()", PYTHONPATH=str(tmp_path)
    )
    assert rank.stdout and rank.stdout.readline() == "\n"
    said = hooked.who(str(insight), rank.pid)
    assert said and said["stacks"] is False
    assert [path.name for path in insight.iterdir()] == [f"{rank.pid}.json"]


@pytest.mark.parametrize(
    "files",
    [
        {"__init__.py": "from torch import distributed", "distributed.py": ""},
        {"__init__.py": "__version__ = None\nfrom torch import distributed", "distributed.py": ""},
        {"__init__.py": "__version__ = 'main'\nfrom torch import distributed", "distributed.py": ""},
        {"__init__.py": "__version__ = '1.13'\nfrom torch import distributed", "distributed.py": "1/0"},
        {"__init__.py": "from torch import distributed"},
        {"__init__.py": "import importlib.util\nprint(importlib.util.find_spec('torch.distributed'))"},
    ],
)
def test_a_strange_torch_runs_unchanged(
    both: Callable[..., tuple[int, str, str]], tmp_path: Path, files: dict[str, str]
) -> None:
    """Without a version, with one that is none, without torch.distributed or with a broken one."""
    package(tmp_path, files)
    program = (
        "import sys, traceback\ntry:\n    import torch, torch.distributed\nexcept Exception as e:\n    print(repr(e))"
    )
    code, _, err = both(program, PYTHONPATH=str(tmp_path))
    assert (code, err) == (0, "")


def test_a_signal_that_the_program_has_taken_stays_its_own(start: Start, insight: Path) -> None:
    """The next free one is used."""
    program = (
        "import signal, torch\n"
        "signal.signal(signal.SIGRTMAX - 3, lambda *_: print('mine', flush=True))\n"
        "import torch.distributed\nprint('ready', flush=True)\ninput()"
    )
    (insight.parent / "torch").mkdir()
    for name, text in (("__init__.py", "__version__ = '2.4'"), ("distributed.py", "")):
        (insight.parent / "torch" / name).write_text(text)
    rank = start(program, PYTHONPATH=str(insight.parent))
    assert rank.stdout and rank.stdout.readline() == "ready\n"
    assert threads_of(insight, rank.pid)
    rank.send_signal(signal.SIGRTMAX - 3)
    assert rank.stdout.readline() == "mine\n"
