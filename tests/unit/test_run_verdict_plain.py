"""Lines of logs without what stands before them, and without what never counts."""

from __future__ import annotations

import pytest

from distui.runs.verdict.evidence import Line, lines_of
from distui.runs.verdict.lines.by_then import said_by_then
from distui.runs.verdict.lines.last_words import last_words
from distui.runs.verdict.lines.plain import bare, heard, plain, without_own_ends
from distui.runs.verdict.success import suspicious


@pytest.mark.parametrize(
    "text, meant",
    [
        ("[rank3]:   File", "  File"),
        ("[default0]:[rank0]: Traceback (most recent call last):", "Traceback (most recent call last):"),
        ("[1,3]<stderr>:ValueError: bad", "ValueError: bad"),
        ("[prterun-h1-77@1,3][h1:81]<stderr>: ValueError: bad", "ValueError: bad"),
        ("2026-11-22 20:18:10.000 [ERROR] [rank 1]     step(batch)", "    step(batch)"),
        ("2026-11-22T20:18:10Z [ERROR] KeyError: 'x'", "KeyError: 'x'"),
        ("[ERROR] disk is slow", "[ERROR] disk is slow"),
        ("2026-11-22 20:18:10,000 [WARNING] KeyError: 'x'", "[WARNING] KeyError: 'x'"),
        ("\x1b[31mRuntimeError: bad\x1b[0m", "RuntimeError: bad"),
        ("\r 45%|###\r 46%|###\rRuntimeError: bad", "RuntimeError: bad"),
        ("    | ValueError: bad", "ValueError: bad"),
        ("2026-11-22 20:18:55,123 - trainer - ERROR -   File x", "  File x"),
        ("E1122 20:18:55.123456 7 train.py:42] ValueError: x", "ValueError: x"),
        ("W1122 20:18:55.123456 7 train.py:42] ValueError: x", "W1122 20:18:55.123456 7 train.py:42] ValueError: x"),
        ("Nov 22 20:18:55 h1 train[41]:   File x", "  File x"),
        ("(TrainWorker pid=5, ip=10.0.0.1) Traceback (most recent call last):", "Traceback (most recent call last):"),
        ("3:     step(batch)", "    step(batch)"),
        ("3: hello", "3: hello"),
        ("step 3 loss 0.1", "step 3 loss 0.1"),
    ],
)
def test_what_stands_before_a_line_goes(text: str, meant: str) -> None:
    """Ranks, times, colours, bars; a level only where it stands before a part of a traceback and says no less."""
    assert plain(text) == meant


@pytest.mark.parametrize(
    "head",
    [
        "| rank 3 | ERROR | ",
        "ERROR 11-22 20:19:{n} [core.py:{n}] ",
        "(EngineCore_0 pid={n}) ERROR 11-22 20:19:16 [core.py:396] ",
        "{n}ms worker-3>",
    ],
)
def test_what_a_logger_of_any_form_puts_before_a_traceback_goes(head: str) -> None:
    """Its numbers may change from line to line; what comes after the traceback stays as it is."""
    meant = ["Traceback (most recent call last):", '  File "t.py", line 1, in f', "    f()", "", "KeyError: 'x'"]
    output = [(head.format(n=n) + text).rstrip() for n, text in enumerate(meant, start=8)]
    assert bare(["step 1", *output, "ERROR: bye"]) == ["step 1", *meant, "ERROR: bye"]


def test_a_traceback_of_another_kind_keeps_its_head() -> None:
    """What stands before it there is not before its frames."""
    other = ["Original Traceback (most recent call last):", '  File "t.py", line 1, in f', "KeyError: 'x'"]
    assert bare(other) == other


IGNORED = [
    "Exception ignored in: <function Loader.__del__ at 0x7f0e>",
    "Traceback (most recent call last):",
    '  File "loader.py", line 9, in __del__',
    "AttributeError: 'NoneType' object has no attribute 'acquire'",
]


@pytest.mark.parametrize(
    "raised",
    [
        "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:94, invalid usage (run with NCCL_DEBUG=WARN "
        "for details), NCCL version 2.27.5",
        "RuntimeWarning: overflow encountered in exp",
    ],
)
def test_what_was_raised_is_the_headline_whatever_it_says(raised: str) -> None:
    """NCCL's own words name WARN, and with `-W error` warnings are raised."""
    words = last_words(lines_of(["Traceback (most recent call last):", '  File "a.py", line 1, in <module>', raised]))

    assert words is not None
    assert words.headline == raised


def test_sglang_that_kills_itself_points_to_its_child() -> None:
    """`Killed` is its shell's word; why stands above."""
    said = [
        "[2026-03-13 14:24:22 TP1] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "/sgl/scheduler.py", line 2000, in run_scheduler_process',
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "",
        "[2026-03-13 14:24:23] Received sigquit from a child process. It usually means the child failed.",
        "Killed",
    ]
    words = last_words(lines_of(said))

    assert words is not None and words.cause is not None
    assert (words.headline, words.cause.text) == (said[2], "the GPU ran out of memory")


def test_what_nccl_says_below_torch_s_error_is_of_it() -> None:
    said = [
        "[rank0]: Traceback (most recent call last):",
        '[rank0]:   File "a.py", line 1, in <module>',
        "[rank0]: torch.distributed.DistBackendError: NCCL error in: x.cpp:94, unhandled cuda error",
        "[rank0]: ncclUnhandledCudaError: Call to CUDA function failed.",
        "[rank0]: Last error:",
        "[rank0]: Cuda failure 'Invalid access of peer GPU memory over nvlink or a hardware error'",
    ]
    words = last_words(lines_of(said))

    assert words is not None
    assert (words.start, words.weight, words.earlier) == (0, "unclear", None)


def test_a_part_of_open_mpi_that_is_not_there_is_no_failure() -> None:
    """As Lightning prints it, which imports mpi4py: a run that was stopped seemed to have failed."""
    said = (
        "[h2:00025] mca_base_component_repository_open: unable to open mca_mtl_psm: libpsm_infinipath.so.1: "
        "cannot open shared object file: No such file or directory (ignored)"
    )
    assert last_words(lines_of([said, "distributed_backend=gloo"])) is None


def test_a_warning_amid_a_traceback_is_not_what_was_raised() -> None:
    """Another thread may warn while Python prints."""
    said = [
        "[rank1]: Traceback (most recent call last):",
        '[rank1]:   File "a.py", line 1, in <module>',
        "[rank1]:[W1112 10:00:00.000000000 ProcessGroupNCCL.cpp:1496] Warning: destroy_process_group() was not called",
        "[rank1]:     dist.barrier()",
        "[rank1]: torch.distributed.DistNetworkError: failed to recv, got 0 bytes",
    ]
    words = last_words(lines_of(said))

    assert words is not None
    assert words.weight == "echo"


def test_what_python_ignored_is_not_heard() -> None:
    """Neither as an error of a rank that failed otherwise, nor as a doubt about one that ended well."""
    assert heard(["done", *IGNORED, "bye"]) == ["done", "", "", "", "", "bye"]
    assert heard(["done", IGNORED[0]]) == ["done", ""]
    assert suspicious(["done", *IGNORED]) is None
    assert suspicious(["done", *IGNORED[1:]]) is not None


@pytest.mark.parametrize("package", ["multiprocessing", "multiprocess"])
def test_a_broken_pipe_to_a_process_of_its_own_is_no_peer(package: str) -> None:
    """Only what was raised in the module for such pipes: sockets of others are read elsewhere."""
    error = "ConnectionResetError: [Errno 104] Connection reset by peer"
    frames = [
        "Traceback (most recent call last):",
        f'  File "/x/{package}/connection.py", line 3, in _recv',
        "    read()",
    ]
    other = [frames[0], frames[1], "    f()", '  File "/x/redis.py", line 3, in read', "    read()"]
    assert without_own_ends([*frames, "    ^^^^^^", error]) == [*frames, "    ^^^^^^", "ConnectionResetError"]
    assert without_own_ends([*other, error]) == [*other, error]
    assert without_own_ends([error]) == [error]


CHAIN = """\
Traceback (most recent call last):
  File "/a.py", line 1, in step
KeyError: 'x'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/a.py", line 9, in <module>
RuntimeError: no batch
shutting down
""".splitlines()


@pytest.mark.parametrize("early", range(1, 10))
def test_tracebacks_in_a_chain_are_one(early: int) -> None:
    """The first of them is no error that ended the program, wherever a stop or a failure elsewhere comes between."""
    lines = tuple(Line(5.0 + number / 100, f"[rank0]: {text}") for number, text in enumerate(CHAIN))
    assert said_by_then(lines, lambda line: line.at is not None and line.at < 4.995 + early / 100) == lines[:9]


def test_what_is_said_after_a_traceback_is_not_of_it() -> None:
    """Nor is a second one that is in no chain, or one that comes later."""
    lines = tuple(Line(5.0, text) for text in (*CHAIN[:3], "retrying", *CHAIN[:3]))
    assert said_by_then(lines[:2], lambda _: True) == lines[:2]
    marked = (*(Line(4.0, line.text) for line in lines[:2]), *(Line(4.5, line.text) for line in lines[2:]))
    assert said_by_then(marked, lambda line: line.at == 4.0) == marked[:3]
    late = (*(Line(4.0, text) for text in CHAIN[:3]), *(Line(6.0, text) for text in CHAIN[3:]))
    assert said_by_then(late, lambda line: line.at == 4.0) == late[:3]
    assert said_by_then(late, lambda line: False) == ()
