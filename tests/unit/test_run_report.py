"""Failed runs in words: what of a traceback folds, which ranks failed, and the report that is passed on."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.runs.lines.events import (
    Event,
    Failure,
    FailureFound,
    RankChanged,
    RanksRestarted,
    RunEnded,
    RunOpened,
    RunOutcome,
    StopAsked,
)
from distui.runs.lines.prefixes import parts
from distui.runs.lines.severity import ERROR, WARN, headline_of, severity
from distui.runs.lines.traceback import Fold, around, folds, started
from distui.runs.report.text import evidence, failed_ranks, last_lines, report
from distui.runs.state.reducer import RunState, apply
from distui.runs.store.masking import NOTHING, Mask
from distui.runs.store.runs import RunStore
from fakehosts.runs import plan_for

TORCH = "/usr/lib/python3.11/site-packages/torch"
TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "/work/train.py", line 214, in <module>',
    "    main(parse_args())",
    f'  File "{TORCH}/_tensor.py", line 521, in backward',
    "    torch.autograd.backward(",
    "    ^^^^^^^^^^^^^^^^^^^^^^^^",
    f'  File "{TORCH}/autograd/__init__.py", line 289, in backward',
    "    _engine_run_backward(",
    "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered",
    "CUDA kernel errors might be asynchronously reported at some other API call",
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
    "",
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
    "",
    "bye",
]


def test_library_frames_and_advice_fold() -> None:
    """Library frames in a row are one fold, CUDA's advice another; own frames and the error stay."""
    assert folds(TRACEBACK) == [
        Fold(3, 8, "2 frames in torch/_tensor.py, torch/autograd/__init__.py"),
        Fold(9, 13, "4 lines: CUDA kernel errors might be asynchronously reported at some"),
    ]


BEFORE = (
    "[rank3]: ", "[default0]:", "[default0]:[rank3]: ", "[1,3]<stderr>:", "[1,3]<stderr>: ", "[1,3]<stderr>:[rank3]: ",
    "[prterun-h1-77@1,3][h1:81]<stderr>: ", "[3]<stderr>:", "[3] ", "3: ", "013: ", "(Trainer pid=5, ip=10.0.0.1) ",
    "  | ", "      | ", "3:   | ", "[1,3]<stderr>:  | ", "[rank3]:     | ",
)  # fmt: skip
"""What torch, torchrun, Open MPI (old and new), horovodrun, MPICH, `srun --label` and Ray put before each line of a
traceback, and Python in an exception group.
"""


@pytest.mark.parametrize("before", BEFORE)
def test_lines_with_a_rank_before_them_fold_too(before: str) -> None:
    """And the notes after it, which are told without it."""
    lines = [(before + line).rstrip() for line in TRACEBACK]
    assert folds(lines) == folds(TRACEBACK)


@pytest.mark.parametrize("before", BEFORE)
def test_lines_of_another_rank_do_not_fold_with_a_frame(before: str) -> None:
    """Where ranks write into one log: its code below a library frame of another stays, and so do its frames."""
    frame, code = (before + line for line in TRACEBACK[3:5])
    for other in ("[rank4]: ", "[1,4]<stderr>:", "4: ", "        | "):
        own, own_code = (other + line for line in TRACEBACK[1:3])
        for lines in ([frame, own_code], [frame, own_code, code], [frame, own, own_code, code], [own, frame, own_code]):
            assert not folds(lines)
        assert [(fold.start, fold.stop) for fold in folds([frame, code, own_code, frame, code])] == [(0, 2), (3, 5)]


def test_a_blank_line_between_notes_needs_no_rank() -> None:
    """torch writes it so."""
    lines = [f"[rank3]: {line}" if line else "" for line in TRACEBACK]
    assert folds(lines) == folds(TRACEBACK)
    assert folds(["[rank3]: " + TRACEBACK[9], "[rank4]: " + TRACEBACK[10]]) == []


GROUP = [
    "  + Exception Group Traceback (most recent call last):",
    '  |   File "<frozen runpy>", line 198, in _run_module_as_main',
    f'  |   File "{TORCH[:-5]}mytrain/__main__.py", line 9, in <module>',
    "  |     asyncio.run(main())",
    '  |   File "/usr/lib/python3.11/asyncio/runners.py", line 190, in run',
    "  |     return runner.run(main)",
    "  |            ^^^^^^^^^^^^^^^^",
    "  | ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)",
    "  +-+---------------- 1 ----------------",
    "    | Traceback (most recent call last):",
    f'    |   File "{TORCH[:-5]}mytrain/load.py", line 5, in load',
    "    |     read(path)",
    f'    |   File "{TORCH}/x.py", line 5, in read',
    "    |     raise ValueError(path)",
    "    | ValueError: odd",
    "    +---------------- 2 ----------------",
    f'    |   File "{TORCH}/x.py", line 5, in read',
    "    | ValueError: odd, too",
    "    +------------------------------------",
]


@pytest.mark.parametrize("before", ["", "[rank0]: ", "[1,0]<stderr>:", "0: "])
def test_an_exception_group_folds(before: str) -> None:
    """Each exception by itself; what was started is one's own in those of the group, too."""
    lines = [before + line for line in GROUP]
    assert [(fold.start, fold.stop) for fold in folds(lines)] == [(4, 7), (12, 14)]
    assert started(lines) == {"mytrain"}
    assert [(fold.start, fold.stop) for fold in folds(lines[8:])] == [(2, 6)]
    assert [(fold.start, fold.stop) for fold in folds(lines[8:], {"mytrain"})] == [(4, 6)]


@pytest.mark.parametrize(
    "text",
    ["0: something", "[0] something", "[1,0]<stderr>:something", "  | something", "  something", "12: x", "", "3:"],
)
def test_other_lines_never_fold(text: str) -> None:
    """Whatever they begin with, alone and below each other."""
    assert not folds([text] * 5)
    assert not folds([TRACEBACK[3], text]) or text.startswith("  something")


@pytest.mark.parametrize("part", ["[1,", "[0] ", "0: ", "[rank1]:", "1", "[a.", " ", "  | ", "(a pid=", 'File "', ":"])
def test_what_stands_before_a_line_is_found_soon(part: str) -> None:
    """However long a line goes on like that."""
    began = time.process_time()
    line = part * 200_000
    assert not folds([line, f'{line}  File "x", line 1, in f'])
    assert "".join(parts(line)) == line
    assert severity(line) != "error"
    assert time.process_time() - began < 2.0


SITE = "/usr/lib/python3.11/site-packages"


def trace(*frames: tuple[str, str]) -> list[str]:
    """A traceback through files and functions."""
    lines = ["Traceback (most recent call last):"]
    for path, function in frames:
        lines += [f'  File "{path}", line 3, in {function}', "    call()"]
    return [*lines, "ValueError: odd"]


OWN = {
    "a script": ("/work/train.py", "main"),
    "below a folder that is called like Python's": ("/data/lib/python3/train.py", "main"),
    "beside a folder of packages": ("/data/my-site-packages/train.py", "main"),
    "on the command line": ("<string>", "<module>"),
    "typed": ("<stdin>", "<module>"),
    "in a cell": ("<command-1234>", "<module>"),
    "in a console": ("<console>", "<module>"),
    "in a folder called like that of packages": ("/workspace/site-packages/mymodel/layers.py", "forward"),
    "a script in such a folder": ("/workspace/dist-packages/train.py", "main"),
    "called like a part of Python": ("/workspace/runpy.py", "run"),
    "beside its virtual environment": ("/home/me/proj/venv/train.py", "main"),
    "in an environment's folder": ("/opt/conda/envs/proj/src/train.py", "main"),
    "in a folder lib": ("/workspace/lib/python/train.py", "main"),
    "made by TensorFlow of one's own": ("/tmp/__autograph_generated_file7xk.py", "tf__train_step"),
    "an editable install": ("/workspace/src/mymodel/layers.py", "forward"),
}


@pytest.mark.parametrize("name", OWN)
def test_one_s_own_frames_never_fold(name: str) -> None:
    """Wherever the file lies: only what was installed, Python itself and its starters are others'."""
    others = [("<frozen runpy>", "_run"), (f"{SITE}/torch/nn/modules/module.py", "call"), (f"{SITE}/x/y.py", "f")]
    lines = trace(*others, OWN[name], *others[1:], OWN[name], *others[1:])
    hidden = {n for fold in folds(lines) for n in range(fold.start, fold.stop)}
    assert {n for n, line in enumerate(lines) if f'"{OWN[name][0]}"' in line} == {7, 13}
    assert hidden.isdisjoint({7, 8, 13, 14})
    assert {1, 3, 5, 9, 11, 15, 17} <= hidden


@pytest.mark.parametrize(
    ("start", "own"),
    [
        ([("<frozen runpy>", "_run"), (f"{SITE}/mytrain/train.py", "<module>")], True),  # python -m mytrain.train
        ([("/usr/bin/mytrain", "<module>"), (f"{SITE}/mytrain/cli.py", "main")], True),  # a script of the package
        ([("/work/train.py", "<module>"), (f"{SITE}/mytrain/cli.py", "main")], False),
        ([(f"{SITE}/mytrain/loop.py", "step")], False),  # who knows what called it
    ],
)
def test_an_installed_program_is_one_s_own(start: list[tuple[str, str]], own: bool) -> None:
    """The package the traceback begins in stays, what it calls folds; no launcher counts as one's own."""
    inner = [(f"{SITE}/torch/nn/x.py", "call"), (f"{SITE}/torch/nn/y.py", "call"), (f"{SITE}/mytrain/model.py", "f")]
    lines = trace(*start, *inner)
    hidden = {n for fold in folds(lines) for n in range(fold.start, fold.stop)}
    model = next(n for n, line in enumerate(lines) if "model.py" in line)
    assert (model in hidden) is not own
    assert model - 2 in hidden
    torchrun = [("/usr/bin/torchrun", "<module>"), (f"{SITE}/torch/distributed/run.py", "main")]
    assert not started(trace(*torchrun))


LIGHTNING = [
    (f"{SITE}/lightning/pytorch/trainer/trainer.py", "fit"), (f"{SITE}/lightning/pytorch/trainer/call.py", "call"),
    (f"{SITE}/lightning/pytorch/strategies/launchers/subprocess_script.py", "launch"),
]  # fmt: skip
VENV = "/home/me/proj/venv/lib/python3.12/site-packages"
ENV = "/opt/conda/envs/train/lib/python3.10"
DEBIAN = "/usr/lib/python3/dist-packages"
NGC = "/usr/local/lib/python3.12/dist-packages"
TARGET = "/workspace/deps/site-packages"
LIBRARIES = {
    "lightning": LIGHTNING,
    "accelerate in a venv of the project": [
        (f"{VENV}/accelerate/accelerator.py", "backward"), (f"{VENV}/torch/_tensor.py", "backward"),
    ],
    "conda": [(f"{ENV}/threading.py", "run"), (f"{ENV}/site-packages/torch/utils/data/dataloader.py", "__next__")],
    "tensorflow": [
        (f"{NGC}/keras/src/utils/traceback_utils.py", "error_handler"),
        (f"{NGC}/tensorflow/python/eager/polymorphic_function/polymorphic_function.py", "_call"),
    ],
    "debian": [(f"{DEBIAN}/yaml/__init__.py", "load"), (f"{DEBIAN}/yaml/loader.py", "get")],
    "pip --target": [(f"{TARGET}/torch/nn/modules/module.py", "_call_impl"), (f"{TARGET}/transformers/t.py", "step")],
    "python without its lock": [("/usr/lib/python3.13t/threading.py", "run"), ("/opt/lib64/python3.9/ast.py", "parse")],
    "pypy": [("/opt/pypy/lib/pypy3.10/threading.py", "run"), ("/opt/pypy/lib/pypy3.10/site-packages/a/b.py", "f")],
    "made by libraries": [("<frozen importlib._bootstrap>", "_load"), ("<eval_with_key>.12", "forward")],
}  # fmt: skip


@pytest.mark.parametrize("name", LIBRARIES)
def test_frames_of_libraries_fold_wherever_they_are_installed(name: str) -> None:
    """In a row, between one's own."""
    mine = [("/work/train.py", "<module>")]
    lines = trace(*mine, *LIBRARIES[name], *mine, *LIBRARIES[name])
    count = len(LIBRARIES[name])
    first, second = folds(lines)
    assert (first.start, first.stop, second.start) == (3, 3 + 2 * count, 5 + 2 * count)
    assert first.words.startswith(f"{count} frames in ") and "/lib/" not in first.words


def test_what_tensorflow_says_of_user_code_stays() -> None:
    """Its own frame ends above it without a line of code, and what it is about is indented more."""
    lines = [
        "Traceback (most recent call last):",
        f'  File "{NGC}/keras/src/utils/traceback_utils.py", line 122, in error_handler',
        f'  File "{NGC}/keras/src/trainers/trainer.py", line 320, in step',
        '    File "/app/train.py", line 22, in train_step  *',
        "        loss = self.compute_loss(x, y)",
        f'    File "{NGC}/keras/src/trainers/trainer.py", line 321, in compute_loss',
        "        return self.loss(x, y)",
        "    ValueError: odd",
    ]
    assert [(fold.start, fold.stop) for fold in folds(lines)] == [(1, 3), (5, 7)]


def test_native_frames_of_an_extension_of_one_s_own_stay() -> None:
    """It was built by the job; those of torch and of the system fold."""
    lines = [
        "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7ef4 in libc10.so)",
        "frame #1: at::sum() + 0x12 (0x7ef4 in /opt/conda/lib/python3.10/site-packages/torch/lib/libtorch.so)",
        "frame #2: my_kernel(at::Tensor) + 0x12 (0x7ef4 in /root/.cache/torch_extensions/py310_cu121/ext/ext.so)",
        "frame #3: <unknown function> + 0x12 (0x7ef4 in /workspace/build/lib.linux/ops.cpython-310.so)",
        "frame #4: <unknown function> + 0xdbf4 (0x7ef4 in /opt/conda/lib/libstdc++.so)",
        "frame #5: clone + 0x44 (0x7ef4 in /lib/x86_64-linux-gnu/libc.so.6)",
        "frame #6: python() [0x4fc7ab]",
    ]
    assert [(fold.start, fold.stop) for fold in folds(lines)] == [(0, 2), (4, 7)]


def test_numbers_count_from_the_log() -> None:
    """The lines of a window have the numbers of the log they come from."""
    assert [(fold.start, fold.hidden) for fold in around(TRACEBACK, 1000)] == [(1003, 4), (1009, 3)]


LINES = [*TRACEBACK, *GROUP, "step 1 loss 2", "    indented"]


@given(st.lists(st.builds("{}{}".format, st.sampled_from(["", "", *BEFORE]), st.sampled_from(LINES)), max_size=60))
def test_folds_never_overlap_and_hide_something(lines: list[str]) -> None:
    """Whatever the order of lines, folds lie in it one after the other, and none hides an error."""
    end = 0
    for fold in folds(lines):
        assert end <= fold.start < fold.stop <= len(lines)
        assert fold.hidden > 0
        assert not any("AcceleratorError" in line for line in lines[fold.start : fold.stop])
        assert not any('"/work/train.py"' in line for line in lines[fold.start : fold.stop])
        end = fold.stop


def state(*events: Event) -> RunState:
    """The state of a run of ranks 0 on h1 and 1 on h2."""
    made = apply(RunState(), RunOpened(100.0, "r1", "j", "env", None, {0: "h1", 1: "h2"}, {0: (0,), 1: (1,)}))
    for event in events:
        made = apply(made, event)
    return made


def failed() -> RunState:
    """Rank 1 dies of a signal, rank 0 follows by itself, then the run ends."""
    failure = Failure(
        1, "h2", 139, "killed by SIGSEGV (segmentation fault), exit 139", "the port is already in use",
        "pick another with `master_port:`", ("EADDRINUSE", "RuntimeError: no"), 150.0,
    )  # fmt: skip
    return state(
        RankChanged(150.0, 1, "h2", "killed", 139, words="killed by SIGSEGV (segmentation fault), exit 139"),
        RankChanged(151.5, 0, "h1", "exited", 1, words="exit 1"),
        StopAsked(152.0, "failure", 5.0),
        RunEnded(154.0, "failed", 1, failure),
    )


TAILS = {1: ("starting", "bind: EADDRINUSE", "RuntimeError: no"), 0: ("one", "Connection reset by peer", "two", "last")}


def test_the_report_says_who_why_and_what_next() -> None:
    """First failure with its cause and the line that names it, what followed, and commands that work."""
    text = report(plan_for("h1", "h2"), failed(), TAILS, "/logs")
    assert "r1: FAILED, exit 1" in text
    assert "FIRST FAILURE: rank 1 on h2, killed by SIGSEGV" in text
    assert "said      RuntimeError: no" in text
    assert "cause     the port is already in use\nby        bind: EADDRINUSE\ntry       pick another" in text
    assert "    +1.5  00      exit 1" in text
    assert "distui logs r1 --rank 1" in text
    assert "nothing of it is left on the hosts" in text
    assert "Connection reset" not in text


@pytest.mark.parametrize(("keep", "outcome"), [(True, "failed"), (False, "detached"), (False, "unknown")])
def test_the_report_does_not_say_that_nothing_is_left_where_something_may_be(keep: bool, outcome: RunOutcome) -> None:
    """Containers of `run --keep`; all of a run that was left alone, or whose hosts are out of reach."""
    ended = state(*(FailureFound(150.0, failed().failure), RunEnded(154.0, outcome, 1)))  # type: ignore[arg-type]
    text = report(plan_for("h1", "h2", keep=keep), ended, TAILS, "/logs")
    assert "FIRST FAILURE: rank 1" in text and "WHAT FOLLOWED" in text
    assert "left" not in text


def test_the_report_counts_what_torchrun_started_again() -> None:
    """A run that ends well may have had failures, and one that fails may have had other ones before."""
    again = [RanksRestarted(101.0 + n, 1, rank, "h2", code, n + 1, 9) for n, (rank, code) in enumerate([(1, 139)] * 2)]
    end = RunEnded(110.0, "succeeded", 0)
    text = report(plan_for("h1", "h2"), state(*again, end), {}, "/logs")
    killed = "killed by SIGSEGV (segmentation fault), exit 139"
    assert f"again     torchrun started the ranks again 2 times: after rank 1 on h2 ({killed}, 2 times)\n" in text
    other = RanksRestarted(203.0, 0, 0, "h1", 1, 1, 9)
    text = report(plan_for("h1", "h2"), state(*again, other, end), {}, "/logs")
    assert f"again 3 times: after rank 1 on h2 ({killed}, 2 times), rank 0 on h1 (exit 1)\n" in text


def test_ranks_that_fail_with_another_one_are_no_restart_of_their_own() -> None:
    """Where one fails, its peers lose it, and the torchrun of each node says so: all of them start again once."""
    lost = [(task, rank, at) for at in (101.0, 113.0) for task, rank in ((1, 1), (0, 0))]
    again = [RanksRestarted(at + rank / 2, task, rank, f"h{task + 1}", 3, 1, 9) for task, rank, at in lost]
    text = report(plan_for("h1", "h2"), state(*again, RunEnded(150.0, "succeeded", 0)), {}, "/logs")
    assert "again 2 times: after rank 1 on h2 (exit 3, 2 times), rank 0 on h1 (exit 3, 2 times)\n" in text


def test_the_evidence_tells_of_every_rank() -> None:
    """Exit status, signal, out-of-memory flag, the line that names a cause, last lines; the first failure first."""
    text = evidence(plan_for("h1", "h2"), failed(), TAILS, "/logs")
    assert text.index("rank 1 on h2: killed") < text.index("rank 0 on h1: exit 1, +1.5 s")
    assert "state killed, exit 139, signal SIGSEGV, out of memory by the kernel: no" in text
    assert "its log names a cause: Connection reset by peer" in text
    assert "  | two\n  | last" in text


def test_the_headline_is_without_the_rank_torch_writes_before_it() -> None:
    """Who it was stands beside it anyway."""
    failure = Failure(1, "h2", 1, "exit 1", excerpt=("[rank1]: Traceback", "[rank1]: RuntimeError: no", "more"))
    assert headline_of(failure) == "RuntimeError: no"


@pytest.mark.parametrize("before", BEFORE)
def test_the_headline_is_without_what_a_launcher_writes_before_it(before: str) -> None:
    """It is the error, whatever is said after it, and how ever the line begins."""
    said = ("Traceback", "RuntimeError: no", "more")
    assert headline_of(Failure(1, "h2", 1, "exit 1", excerpt=tuple(before + line for line in said))) == said[1]
    assert severity(before + said[1]) == "error"


@given(st.from_regex(ERROR.pattern) | st.from_regex(WARN.pattern) | st.text())
def test_no_line_is_passed_over_for_lack_of_a_sign(text: str) -> None:
    """What is looked for first, since that takes little time, is in every line that the patterns find."""
    assert severity(text) == ("error" if ERROR.search(text) else "warn" if WARN.search(text) else "")


@pytest.mark.parametrize("text", ["3: hello", "[3] hello", "| a | b |", "10: 20: 30"])
def test_a_headline_that_begins_with_a_number_is_whole(text: str) -> None:
    """It need be no rank."""
    assert headline_of(Failure(1, "h2", 1, "exit 1", excerpt=("step 2", text))) == text
    assert severity(text) == ""


def test_a_run_that_goes_well_has_a_report_too() -> None:
    """No failure, no invented one."""
    text = report(plan_for("h1", "h2"), state(RunEnded(110.0, "succeeded", 0)), {}, "/logs")
    assert "r1: SUCCEEDED, exit 0" in text and "FAILURE" not in text and "FOLLOWED" not in text


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ((), []),
        ((RankChanged(1.0, 0, "h1", "exited", 0),), []),
        ((RankChanged(1.0, 0, "h1", "stopped", 143),), []),
        ((RankChanged(2.0, 0, "h1", "exited", 1), RankChanged(1.0, 1, "h2", "oom", 137, oom=True)), [1, 0]),
    ],
)
def test_ranks_that_failed_by_themselves(changes: tuple[Event, ...], want: list[int]) -> None:
    """Those that distui stopped, and those that ended with 0, are none of them."""
    assert failed_ranks(state(*changes)) == want


def test_last_lines_are_read_from_the_files(tmp_path: Path) -> None:
    """Only the end of a long log is read, nothing in it can steer a terminal, and launchers' words come under None."""
    stored = RunStore(tmp_path).create("r1")
    stored.rank_log(0).write_bytes(b"x" * 100_000 + b"\nlast \x1b[2J\x1b[31mred\n\n")
    stored.node_log(1).write_bytes(b"torch says\n")
    assert last_lines(stored, plan_for("h1", "h2"), NOTHING) == {0: ("last red",), None: ("torch says",)}


def test_last_lines_have_no_value_of_a_secret_nor_a_part_of_one(tmp_path: Path) -> None:
    """Also where a line is cut within it, in a log that was written without knowing it."""
    stored = RunStore(tmp_path).create("r1")
    stored.rank_log(0).write_bytes(b"x" * 490 + b"hunter2-hunter2-hunter2\nit is hunter2-hunter2-hunter2\n")
    reported = last_lines(stored, plan_for("h1"), Mask({"TOKEN": "hunter2-hunter2-hunter2"}))
    assert reported == {0: ("x" * 490 + "***", "it is ***")}
