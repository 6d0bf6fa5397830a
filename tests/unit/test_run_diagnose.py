"""Why a rank ended, in words, and who was first."""

import pytest

from distui.run.diagnose import Ended, Root, cause_of, cause_of_exit, exit_words, first_of, torchrun_root


@pytest.mark.parametrize(
    ("code", "oom", "words"),
    [
        (3, False, "exit 3"),
        (137, True, "out of memory: the kernel killed it (exit 137)"),
        (0, True, "out of memory: the kernel killed a process of it, which ended with exit 0 all the same"),
        (137, False, "killed by SIGKILL, exit 137"),
        (139, False, "killed by SIGSEGV (segmentation fault), exit 139"),
        (127, False, "command not found (exit 127)"),
        (126, False, "the command can't be executed (exit 126)"),
        (125, False, "docker could not start it (exit 125)"),
        (None, False, "ended without an exit status"),
    ],
)
def test_exit_in_words(code: int | None, oom: bool, words: str) -> None:
    """137 is out-of-memory only when the engine says so."""
    assert exit_words(code, oom=oom) == words


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("RuntimeError: The server socket has failed to bind ... EADDRINUSE", "port is already in use"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "GPU ran out of memory"),
        ("ModuleNotFoundError: No module named 'einops'", "Python module is missing"),
        ("RuntimeError: unable to find address for: ib9", "interface named does not exist"),
        ("[c10d] DistStoreError: Timed out after 9 seconds waiting for clients. 1/2 clients joined.", "rendezvous"),
        ("NET/IB : No device found.", "no InfiniBand device"),
        ("OSError: [Errno 28] No space left on device", "disk is full"),
        ("ibv_reg_mr_iova2 failed with error Cannot allocate memory", "locked memory"),
        (
            "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that dataloader's "
            "workers are out of shared memory. Please try to raise your shared memory limit.",
            "shared memory",
        ),
        ("RuntimeError: DataLoader worker (pid(s) 7) is killed by signal: Killed.", "DataLoader worker was killed"),
        ("RuntimeError: CUDA driver version is insufficient for CUDA runtime version", "do not fit"),
        ("[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)", "collective timed out"),
        ("SO_ERROR: Connection refused, remote=[127.0.1.1]:4242", "wrong address"),
        (
            "}) with an unsupported type (<class 'tensorflow.python.distribute.values.PerReplica'>) to a Tensor.",
            "`fit` of Keras 3",
        ),
        (
            "ValueError: To use this dataset, you need to pass this dataset to "
            "ClusterCoordinator.create_per_worker_dataset.",
            "`fit` of Keras 3",
        ),
    ],
)
def test_usual_messages_have_a_cause(line: str, part: str) -> None:
    """The usual messages of torch, NCCL and Docker are put in plain words."""
    cause = cause_of(["step 1", line, "more"])

    assert cause is not None
    assert part in cause.text
    assert cause.hint


@pytest.mark.parametrize(
    "line",
    [
        "timeout: unrecognized option '--foreground'",
        "timeout: unrecognized option: foreground",
        "[FATAL tini (7)] exec timeout failed: No such file or directory",
        'exec: "timeout": executable file not found in $PATH: unknown',
    ],
    ids=["busybox on glibc", "busybox on musl", "init", "docker"],
)
def test_an_image_without_gnu_timeout_is_told(line: str) -> None:
    """busybox has a `timeout` that knows no --foreground; others have none; both can't keep `max_duration`."""
    cause = cause_of([line, "BusyBox v1.36.1 multi-call binary."])

    assert cause is not None
    assert cause.text == "the image has no GNU `timeout`, which max_duration needs"
    assert cause.hint == "add coreutils to it, or use --timeout"


def test_an_echo_does_not_hide_the_cause() -> None:
    """A root cause wins over a peer's failure echoing in the same log."""
    cause = cause_of(["CUDA out of memory", "Connection reset by peer"])

    assert cause is not None
    assert not cause.secondary


def test_an_echo_alone_is_secondary() -> None:
    """Connection loss to a peer is marked as following another's failure."""
    cause = cause_of(["RuntimeError: Connection closed by peer [10.77.0.12]:4242"])

    assert cause is not None
    assert cause.secondary


def test_a_refused_peer_is_no_wrong_address() -> None:
    """Gloo that is refused by a peer's real address follows that peer's end; only 127.x is the wrong address."""
    line = "RuntimeError: Gloo connectFullMesh failed with [...] SO_ERROR: Connection refused, remote=[10.77.0.12]:4242"
    cause = cause_of([line])

    assert cause is not None
    assert (cause.secondary, "wrong" in cause.text) == (True, False)


@pytest.mark.parametrize(("code", "part"), [(135, "shm_size"), (139, "FAULTHANDLER"), (137, "dmesg"), (126, "chmod")])
def test_an_exit_status_alone_has_a_hint(code: int, part: str) -> None:
    """Where the log says nothing; the engine's own words are better where there are some."""
    cause = cause_of_exit(code)

    assert cause is not None
    assert part in cause.hint
    assert cause_of_exit(code, error="somebody stopped it") is None


def test_the_earliest_end_is_first() -> None:
    """Clearly apart, the clock decides."""
    ends = [Ended(1, 10.0, 0.002, False), Ended(0, 5.0, 0.002, True)]

    assert first_of(ends) == ends[1]


def test_within_the_clocks_doubt_words_decide() -> None:
    """Too close to tell apart by clock, an end that names its own cause comes before an echo."""
    ends = [Ended(0, 5.000, 0.01, True), Ended(1, 5.015, 0.01, False)]

    assert first_of(ends) == ends[1]


def test_no_ends_no_first() -> None:
    """Nothing failed, nobody was first."""
    assert first_of([]) is None


REPORT = """\
============================================================
mnist.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-21_01:01:01
  host      : h2
  rank      : 3 (local_rank: 1)
  exitcode  : {code} (pid: 99)
  error_file: <N/A>
============================================================
""".splitlines()


@pytest.mark.parametrize(("code", "expected"), [("3", 3), ("-9", 137)])
def test_torchrun_names_its_rank(code: str, expected: int) -> None:
    """torchrun's report gives rank, exit code and second; a signal counts as 128 + number."""
    assert torchrun_root([line.format(code=code) for line in REPORT]) == Root(3, expected, 1795222861, 1)


@pytest.mark.parametrize("time", ["<N/A>", "2026-13-41_01:01:01", ""])
def test_a_report_without_a_time_still_names_the_rank(time: str) -> None:
    """Other versions of torch may leave it out."""
    lines = [line.format(code=3).replace("2026-11-21_01:01:01", time) for line in REPORT]
    assert torchrun_root(lines) == Root(3, 3, None, 1)


def test_no_report_no_root() -> None:
    """Other output names nobody."""
    assert torchrun_root(["rank : 3 (local_rank: 1)", "exitcode : 3"]) is None
