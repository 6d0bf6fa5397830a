"""Which failure explains a run and how each rank ended: clocks, words, torchrun's report, and what a stop did."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.runs.insight.seen.clocks import Reading
from distui.runs.verdict.ends.moments import Moment
from distui.runs.verdict.ends.parts import Part
from distui.runs.verdict.ends.stops import caused
from distui.runs.verdict.evidence import (
    End,
    Evidence,
    HostSeen,
    Line,
    Lines,
    Rules,
    Silence,
    Stop,
    TaskSeen,
    Unsteady,
    corrected,
    lines_of,
)
from distui.runs.verdict.judge import judge
from distui.runs.verdict.lines.last_words import LastWords, last_words
from distui.runs.verdict.lines.torchrun import agent_words
from distui.runs.verdict.outcome import Verdict
from distui.runs.watch.host_clock import HostClock

ECHO = "RuntimeError: Connection closed by peer [10.0.0.11]:4711"
ROOT = "torch.OutOfMemoryError: CUDA out of memory."
LOSS = "RuntimeError: loss is nan"
TORCHRUN = Rules(launcher="torchrun")


def said(at: float, *texts: str) -> Lines:
    """A traceback that ends in these lines."""
    return tuple(Line(at, text) for text in ("Traceback (most recent call last):", '  File "t.py", line 1', *texts))


def task(index: int, end: End | None, *lines: Line, host: str = "", **more: object) -> TaskSeen:
    """A rank of its own on a host of its own."""
    return TaskSeen(index, host or f"h{index + 1}", (index,), end=end, lines={index: lines}, **more)  # type: ignore[arg-type]


def ended(at: float, code: int | None = 1, **more: object) -> End:
    """An end that was seen a little later."""
    return End(code, at, seen_at=at + 0.1, **more)  # type: ignore[arg-type]


def verdict(*tasks: TaskSeen, stop: Stop | None = None, doubt: float = 0.002, rules: Rules | None = None) -> Verdict:
    """The verdict over these tasks."""
    hosts = {t.host: HostSeen(doubt=doubt) for t in tasks}
    return judge(Evidence(tasks, hosts, (stop,) if stop is not None else (), rules=rules or Rules()))


def relations(found: Verdict) -> list[str]:
    """Each rank's, by number."""
    return [found.ranks[rank].relation for rank in sorted(found.ranks)]


def failure(found: Verdict) -> tuple[int | None, str]:
    """Rank and words of the first failure."""
    assert found.failure is not None
    return found.failure.rank, found.failure.words


# who was silent


def test_silence_before_a_stop_is_worded_once() -> None:
    """By the verdict, for result, `show` and report; without a stop there is nothing to say."""
    silent = Silence(1, 9.0, "h2", "step 118"), Silence(0, 11.0, "h1")
    tasks = task(0, ended(50.2, 143)), task(1, ended(50.2, 143))
    stopped = Evidence(tasks, stops=(Stop(50.0, "user", exit=130),), silences=silent)
    assert judge(stopped).notes == (
        "rank 1 on h2 had said nothing for 41 s; last: step 118",
        "rank 0 on h1 had said nothing for 39 s, since it began to run",
    )
    assert judge(replace(stopped, silences=silent[::-1])).notes == judge(stopped).notes
    assert judge(replace(stopped, tasks=(task(0, ended(5.0, 0)), task(1, ended(5.0, 0))), stops=())).notes == ()


# who was first


def test_nothing_failed() -> None:
    """All ended well: no failure, nothing claimed."""
    found = verdict(task(0, ended(9, 0)), task(1, ended(10, 0)))
    assert (found.outcome, found.exit, found.failure, found.first) == ("succeeded", 0, None, ())


def test_the_earliest_end_explains() -> None:
    """By time, whatever the order in which news came."""
    found = verdict(task(2, ended(10.0)), task(0, ended(9.0, 3)), task(1, ended(11.0)))
    assert (failure(found), found.certainty) == ((0, "exit 3"), "certain")


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (2, "python3: can't open file '/work/train.py': [Errno 2] No such file or directory"),
        (127, "[FATAL tini (7)] exec ./train failed: No such file or directory"),
        (127, ""),
    ],
)
def test_what_is_not_there_is_not_to_be_sent_once_more(code: int, line: str) -> None:
    """Where the job's code was sent, that is no advice."""
    ranks = [task(n, ended(10.0 + n, code), *([Line(10.0, line)] if line else [])) for n in range(2)]
    for sent in (False, True):
        found = verdict(*ranks, rules=Rules(code=sent)).failure
        assert found is not None and found.cause and ("`code: ./`" in found.hint) == (not sent)
        assert "`command:`" in found.hint or not sent


def test_docker_has_started_what_said_something() -> None:
    """125 is also a program's own status; of a container that said nothing it is Docker's."""
    for words in ("step 1", "rm: /data/x: Permission denied"):
        assert failure(verdict(task(0, ended(10.0, 125), Line(9.0, words))))[1] == "exit 125"
    assert failure(verdict(task(0, ended(10.0, 125))))[1] == "docker could not start it (exit 125)"


def test_a_failure_is_dated_by_its_own_first_words() -> None:
    """Rank 1's container was down first, but rank 0 had raised half a second before rank 1 did."""
    found = verdict(task(0, ended(14.0), *said(10.0, LOSS)), task(1, ended(11.0), *said(10.5, "KeyError: 'x'")))
    assert (failure(found)[0], relations(found)) == (0, ["first", "followed"])
    assert found.failure is not None
    assert found.failure.at == 10.0


def test_clocks_are_corrected() -> None:
    """A host's time minus by how much its clock is ahead."""
    assert corrected(12.0, 5000.0) == 7.0
    assert corrected(None, 5000.0) is None
    assert corrected(12.0, None) == 12.0


@pytest.mark.parametrize("echo_at", [9.2, 10.0, 10.4])
def test_an_echo_is_not_first_where_another_failed_by_itself(echo_at: float) -> None:
    """A program may take leave of its peers before it prints why."""
    found = verdict(task(0, ended(11.0), *said(echo_at, ECHO)), task(1, ended(11.0), *said(10.0, ROOT)))
    assert (failure(found)[0], relations(found)) == (1, ["followed", "first"])
    assert found.ranks[0].of == "rank 1"


@pytest.mark.parametrize(
    "words",
    [
        (
            "RuntimeError: NCCL error in: P.cpp:1269, unhandled system error, NCCL version 2.14.3",
            "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
            "Last error:",
            "socketPollConnect: Connect to 10.0.0.2<51234> returned 111(Connection refused) errno 115",
        ),
        (
            "tensorflow.python.framework.errors_impl.UnavailableError: Graph execution error:",
            "",
            "Detected at node 'CollectiveReduceV2' defined at (most recent call last):",
            "Collective ops is aborted by: Connection reset by peer",
        ),
    ],
    ids=["NCCL", "TensorFlow"],
)
def test_an_echo_may_stand_below_the_name_of_its_exception(words: tuple[str, ...]) -> None:
    """The first line says only that a call failed."""
    found = verdict(task(0, ended(10.2), *said(10.0, *words)), task(1, ended(11.0), *said(10.5, LOSS)))
    assert (failure(found)[0], relations(found)) == (1, ["followed", "first"])


@pytest.mark.parametrize(("words", "of_its_own"), [("torch.OutOfMemoryError: CUDA out of memory", True), (ECHO, False)])
def test_an_error_that_points_to_one_above_is_that_one(words: str, of_its_own: bool) -> None:
    """A server says that its engine failed, seconds after the engine told why."""
    points = "RuntimeError: Engine core initialization failed. See root cause above."
    lines = *said(10.0, words), Line(10.1, "Process EngineCore_0:"), *said(13.0, points)
    found = verdict(task(0, ended(13.5), *lines), task(1, ended(13.9), *said(12.0, LOSS)))
    assert found.failure is not None
    assert (found.first, found.failure.cause) == (((0,), "the GPU ran out of memory") if of_its_own else ((1,), ""))


def test_an_error_that_points_to_none_stands_for_itself() -> None:
    """What is above it is ordinary work, or from long before."""
    points = "RuntimeError: worker failed. See the logs above for details."
    for lines in (said(13.0, points), (*said(10.0, ROOT), *said(99.0, points))):
        found = verdict(task(0, ended(100.0), Line(1.0, "step 1"), *lines))
        assert found.failure is not None
        assert (found.failure.at, found.failure.cause) == (lines[-1].at, "")


@pytest.mark.parametrize(
    "points",
    [
        "[2024-02-11 22:38:43,716] [ERROR] [launch.py:321:sigkill_handler] ['x.py'] exits with return code = 1",
        "subprocess.CalledProcessError: Command '['python3', 'x.py']' returned non-zero exit status 1.",
        "E1122 20:31:50.640000 7 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) rank: 0",
        "ERROR:composer.cli.launcher:Rank 2 crashed with exit code 1.",
        "Error: failed to run torchrun train.py on 127.0.0.1, exception: Encountered a bad command exit code!",
        "[rank: 1] Child process with PID 4103 terminated with code 1. Forcefully terminating all other processes",
    ],
    ids=["deepspeed", "accelerate", "torchrun", "composer", "colossalai", "lightning"],
)
def test_what_a_launcher_says_of_its_child_points_to_the_child_s_error(points: str) -> None:
    """Seconds later, when it has ended the others; not where the child had worked on after its error."""
    error = said(10.0, "torch.OutOfMemoryError: CUDA out of memory")
    for work, cause in ((10.2, "the GPU ran out of memory"), (20.0, "")):
        lines = *error, Line(work, "step 41 loss 0.3"), Line(29.0, points)
        found = verdict(task(0, ended(29.5), *lines), task(1, ended(29.9), *said(29.2, ECHO)))
        assert found.failure is not None
        assert (found.first, found.failure.cause) == ((0,), cause)


@pytest.mark.parametrize(
    "points",
    [
        "subprocess.CalledProcessError: Command '['ffmpeg', 'a.mp4']' returned non-zero exit status 1.",
        "RuntimeError: ffmpeg exited with code 1",
    ],
)
def test_a_program_that_fails_is_not_reported_with_an_error_that_was_handled(points: str) -> None:
    """Half a minute before, when the rank went on."""
    handled = (
        *said(10.0, "FileNotFoundError: [Errno 2] No such file or directory: 'i'"),
        Line(15.0, "index is built anew"),
    )
    found = verdict(task(0, ended(41.0), *handled, *said(40.0, points)), task(1, ended(41.5), *said(40.2, ECHO)))
    assert found.failure is not None
    assert (found.first, found.failure.at, found.failure.cause) == ((0,), 40.0, "")


def test_a_service_that_is_not_reached_is_no_peer() -> None:
    """By whichever words of NCCL or torch it is said, too."""
    error = 'psycopg2.OperationalError: connection to server at "10.0.0.9", port 5432 failed: Connection timed out'
    found = verdict(task(0, ended(29.5), *said(29.0, error)), task(1, ended(29.9), *said(29.2, ECHO)))
    assert found.failure is not None
    assert (found.first, found.failure.cause) == ((0,), "a service that it uses could not be reached")


def test_a_thread_that_loses_its_service_is_no_echo_of_a_peer() -> None:
    """Though the rank raises in another way a second later."""
    aborted = "requests.exceptions.ConnectionError: ('Connection aborted.', OSError('Connection reset by peer'))"
    service = said(28.0, aborted)
    found = verdict(
        task(0, ended(29.5), *service, *said(29.0, "ValueError: expected 3 columns, got 2")),
        task(1, ended(29.9), *said(29.2, ECHO)),
    )
    assert found.failure is not None
    assert (found.first, found.failure.cause) == ((0,), "a service that it uses closed a connection")


def test_an_echo_alone_claims_no_certainty() -> None:
    """Something went first that nobody saw."""
    found = verdict(task(0, ended(10.0), *said(9.0, ECHO)), task(1, ended(99.0, 0)))
    assert (failure(found)[0], found.certainty) == (0, "uncertain")


@pytest.mark.parametrize(("code", "cause"), [(134, "a peer went away"), (139, "the program crashed in compiled code")])
def test_what_was_said_before_an_abort_explains_it(code: int, cause: str) -> None:
    """NCCL and JAX abort when they have lost a peer; a crash that follows on a loss is still a crash."""
    found = verdict(
        task(0, ended(11.0, code), *said(10.0, ECHO)), task(1, ended(20.0, 143)), stop=Stop(11.2, "failure")
    )
    assert found.failure is not None
    assert (found.first, found.failure.cause) == ((0,), cause)


def test_an_abort_is_explained_by_what_the_exception_says_of_itself() -> None:
    """C++ prints it below `terminate called`, indented (gloo of torch 2.13: one rank gave a tensor of another size)."""
    lines = said(
        9.0,
        "step 29",
        "terminate called after throwing an instance of 'gloo::EnforceNotMet'",
        "  what():  [enforce fail at /x/gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 1000 vs 500. ",
    )
    found = verdict(task(0, ended(9.1, 134), *lines))
    assert found.failure is not None
    assert found.failure.cause == "the ranks did not do the same collectives with tensors of the same size"


def test_a_rank_that_is_killed_says_nothing_and_is_first() -> None:
    """All others echo it, a moment before the engine tells of its end."""
    killed = task(1, ended(10.02, 137))
    found = verdict(task(0, ended(10.5), *said(10.0, ECHO)), killed, task(2, ended(10.4), *said(10.01, ECHO)))
    assert (failure(found), relations(found)) == (
        (1, "killed by SIGKILL, exit 137"),
        ["followed", "first", "followed"],
    )


def test_two_that_fail_alike_are_said_to() -> None:
    """Two hosts, the same error 0.1 s apart: rank 0 is named, and that rank 1 failed alike."""
    found = verdict(task(0, ended(10.9), *said(10.0, LOSS)), task(1, ended(10.3), *said(10.1, LOSS)))
    assert (found.first, relations(found)) == ((0, 1), ["first", "alike"])
    assert found.failure is not None
    assert found.failure.together == "ranks 0 and 1 failed with the same error within 0.1 s"


def test_a_node_whose_process_was_killed_is_first() -> None:
    """Other processes of that node say that they lost it, and so do those of other nodes."""
    lost = task(0, ended(68.3), *said(66.0, ECHO), Line(68.0, "x.py'] exits with return code = 1"))
    killed = task(1, ended(68.7, 247), *said(65.8, ECHO), Line(66.2, "x.py'] exits with return code = -9"))
    found = verdict(lost, killed, stop=Stop(68.5, "failure"), rules=Rules(launcher="command"))
    assert (found.first, found.certainty, relations(found)) == ((1,), "certain", ["followed", "first"])
    assert found.failure is not None and "was killed" in found.failure.cause


def test_what_the_clocks_cannot_tell_apart_is_not_certain() -> None:
    """Two different errors 0.1 s apart, the clocks known to 0.2 s."""
    both = task(0, ended(10.9), *said(10.0, LOSS)), task(1, ended(10.3), *said(10.1, "KeyError: 'x'"))
    found = verdict(*both, doubt=0.1)
    assert (found.certainty, set(found.first)) == ("uncertain", {0, 1})
    assert verdict(*both, doubt=0.01).certainty == "certain"


def test_how_well_times_are_known_is_said() -> None:
    """What the clocks may be wrong by, and what lies between a line and its stamp, of both ranks."""
    both = task(0, ended(1000.9), *said(1000.0, LOSS)), task(1, ended(1000.3), *said(1000.1, "KeyError: 'x'"))
    found = verdict(*both, doubt=0.1).failure
    assert found is not None and "known to 240 ms" in found.unsure


def test_a_task_that_ends_well_long_after_a_stop_was_stopped() -> None:
    """One that ends well at once, without a signal of the engine's, was done by itself."""
    for after, relation in ((0.5, "succeeded"), (30.0, "stopped")):
        done = task(0, ended(1000.0 + after, 0, signalled=False)), task(1, ended(1000.5, 143, signalled=True))
        assert relations(verdict(*done, stop=Stop(1000.0, "user"))) == [relation, "stopped"], after


def test_when_a_rank_failed() -> None:
    """Where a stop had begun it is when it said so, not when it ended; else what is dated already."""
    seen, ended_at = task(0, ended(9.0)), Moment(9.0, 9.0, 9.0, "h1", 0.0)
    words = LastWords(7.0, LOSS, "own", None, 0)
    part = Part(seen, (0,), "stopped", 1, ended_at, words)
    assert (part.failed_at, replace(part, how="failed").failed_at) == (7.0, 9.0)
    assert replace(part, words=replace(words, at=None)).failed_at == 9.0
    assert replace(part, words=None, when=None).failed_at is None


def test_an_exception_that_was_handled_is_no_failure() -> None:
    """Rank 1 worked on for a minute and is killed then: its old traceback neither dates nor explains that."""
    worked = (*said(5.0, ROOT), *(Line(6.0 + i, f"step {i} loss 0.5") for i in range(60)))
    found = verdict(task(0, ended(50.0), *said(49.0, LOSS)), task(1, ended(66.0, 137), *worked))
    assert failure(found)[0] == 0
    assert found.ranks[1].at == 66.0


# stops


def test_a_rank_that_raised_before_our_stop_failed_by_itself() -> None:
    """Its container ended, with 1, a second after the stop."""
    stop = Stop(12.0, "failure")
    found = verdict(task(0, ended(13.0, 1, signalled=True), *said(10.0, LOSS)), task(1, ended(11.9, 3)), stop=stop)
    assert (failure(found), relations(found)) == ((0, "exit 1"), ["first", "followed"])


@pytest.mark.parametrize("away", [(), ((8.0, 30.0),)], ids=["followed", "out of reach"])
def test_a_rank_that_was_signalled_before_it_failed_failed_by_itself(away: tuple[tuple[float, float], ...]) -> None:
    """What it was sent did not end it, whoever sent that, also where nobody saw how its engine was then."""
    end = End(1, 13.0, signalled=True)
    found = judge(Evidence((task(0, end, *said(12.9, LOSS)),), {"h1": HostSeen(away=away)}))
    assert failure(found) == (0, "exit 1")


@pytest.mark.parametrize("code", [143, 137])
def test_a_rank_that_raised_and_hung_until_our_stop_failed_by_itself(code: int) -> None:
    """It is not called stopped, and nobody is said to have killed it."""
    found = verdict(
        task(0, ended(13.0, code, signalled=True), *said(10.0, LOSS)),
        task(1, ended(12.9, 143, signalled=True)),
        stop=Stop(12.0, "user", exit=130),
    )
    assert (found.outcome, found.exit, relations(found)) == ("stopped", 130, ["first", "stopped"])
    assert failure(found) == (0, f"raised an error, and had not ended when stopped (exit {code})")


def test_what_a_stop_long_after_an_error_brought_about_is_not_the_failure() -> None:
    """An mpirun whose rank had raised waits for ever; its words and its status of the stop say nothing of the error."""
    late = (Line(70.1, "ORTE has lost communication with a remote daemon."), Line(70.2, "Connection to h2 closed."))
    raised = task(0, ended(70.4, 205, signalled=True), *said(10.0, LOSS), *late)
    found = verdict(raised, task(1, ended(70.1, 143, signalled=True)), stop=Stop(70.0, "timeout", exit=124))
    assert failure(found) == (0, "raised an error, and had not ended when stopped (exit 205)")
    assert found.failure is not None
    assert found.failure.excerpt[-1] == LOSS


def test_jax_that_waits_for_more_processes_than_there_are_has_lost_none() -> None:
    """Its last words guess that another one died, above the call that got no answer in time."""
    texts = (
        "F1129 01:15:45.158101 7 client.h:80] ... the JAX distributed service detected fatal errors. "
        "This most likely indicates that another task died; ... absl::Status: DEADLINE_EXCEEDED: Deadline Exceeded",
        "",
        "RPC: /xla.coordination.CoordinationService/RegisterTask",
        "*** Check failure stack trace: ***",
        *["    @     0x7fb1fce08634  absl::lts_20260107::log_internal::LogMessage::SendToLog()"] * 9,
    )
    found = verdict(*(task(rank, ended(9.0, 134), *(Line(8.9, text) for text in texts)) for rank in (0, 1)))
    assert found.failure is not None
    assert found.failure.cause.startswith("not every rank reached the rendezvous")
    assert found.failure.excerpt == (texts[0][:300], texts[2])


def test_jax_whose_leader_does_not_answer_any_more_has_lost_it() -> None:
    """The same words as of one that was never reached, but for the call."""
    texts = (
        "F1129 01:15:45.158101 7 client.h:80] ... the JAX distributed service detected fatal errors. "
        "This most likely indicates that another task died; ... absl::Status: DEADLINE_EXCEEDED: Deadline Exceeded",
        "",
        "RPC: /xla.coordination.CoordinationService/Heartbeat",
    )
    words = last_words(lines_of(texts))
    assert words is not None and words.cause is not None
    assert (words.weight, words.cause.text) == ("echo", "a peer went away")


def test_a_child_that_the_kernel_killed_for_lack_of_memory_is_no_guess() -> None:
    """Its parent only sees SIGKILL; the engine knows that its container had no more memory."""
    child = "subprocess.CalledProcessError: Command 'python3 tokenize.py' died with <Signals.SIGKILL: 9>."
    found = verdict(task(0, ended(9.0, 1, oom=True), *said(8.9, child)))
    assert found.failure is not None
    assert (found.failure.cause, "`--memory`" in found.failure.hint) == ("it used more memory than it may", True)


def test_what_our_own_stop_caused_is_never_the_cause() -> None:
    """A peer that we stopped closed the connection; what is said of that after the stop blames nobody."""
    found = verdict(
        task(0, ended(12.5, 1, signalled=True), *said(12.2, ECHO)),
        task(1, ended(12.3, 143, signalled=True)),
        stop=Stop(12.0, "user", exit=130),
    )
    assert (found.outcome, found.failure, relations(found)) == ("stopped", None, ["stopped", "stopped"])
    assert found.ranks[0].words == "stopped by distui (exit 1)"


def test_a_stop_by_somebody_else_is_at_each_host_at_another_moment() -> None:
    """Its word was left on h1 a little later than on h2, whose rank had ended by then: that one was stopped, too."""
    stop = Stop(100.2, "user", "bob@laptop", 130)
    found = verdict(task(0, ended(100.4, 143)), task(1, ended(100.05, 143)), stop=stop)
    assert (found.outcome, found.exit, found.failure) == ("stopped", 130, None)
    assert relations(found) == ["stopped", "stopped"]


def test_a_chief_s_exit_code_is_the_run_s_only_when_it_is_its_own() -> None:
    """Worker 0 said that its peer went away, and lived until our stop made it 143: the run's exit code is 1."""
    rules = Rules(launcher="tf", judges=(0, 1))
    killed, stop = task(1, ended(10.0, 137)), Stop(11.0, "failure")
    outlived = verdict(task(0, ended(12.0, 143), *said(10.2, ECHO)), killed, stop=stop, rules=rules)
    own = verdict(task(0, ended(10.5, 4), *said(10.2, ECHO)), killed, stop=stop, rules=rules)
    assert (failure(outlived)[0], outlived.outcome, outlived.exit) == (1, "failed", 1)
    assert (own.outcome, own.exit) == ("failed", 4)


def test_tensorflow_without_a_gpu_says_nothing_of_an_error() -> None:
    """A server that looked for one in vain, and is stopped with the end of its chief, has served well."""
    words = "failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit: UNKNOWN ERROR (303)"
    looked = Line(5.0, f"E0000 00:00:1795434651.720554   27079 cuda_platform.cc:52] {words}")
    served = task(1, ended(12.0, 143), looked, Line(5.1, "ps 0 serves"))
    rules = Rules(launcher="tf", judges=(0,))
    for chief in (ended(10.9, 0), ended(11.6, 0)):
        found = verdict(task(0, chief), served, stop=Stop(11.0, "done"), rules=rules)
        assert (found.outcome, found.exit, found.failure) == ("succeeded", 0, None)


def test_who_was_done_when_the_chief_was_is_not_stopped() -> None:
    """Nor is the chief, whose end is why the others are; no engine knows of signals to a process."""
    rules = Rules(launcher="tf", judges=(0,))
    ends = [
        End(0, 10.0, seen_at=10.1), End(0, 10.05, seen_at=10.3), End(0, 10.1), End(0, 10.3, seen_at=10.4),
        End(143, 10.3, seen_at=10.4),
    ]  # fmt: skip
    tasks = [task(number, end, engine="process") for number, end in enumerate(ends)]
    found = verdict(*tasks, stop=Stop(10.2, "done"), rules=rules)
    assert [found.ranks[rank].state for rank in range(5)] == ["exited", "exited", "exited", "stopped", "stopped"]
    assert found.outcome == "succeeded"


def test_a_rank_that_was_done_before_the_stop_succeeded() -> None:
    """Exit 0 before it is no stop's doing; so is one of which the engine knows that nobody signalled it."""
    found = verdict(
        task(0, ended(11.0, 0)),
        task(1, ended(12.1, 0)),
        task(2, ended(12.1, 0, signalled=True)),
        stop=Stop(12.0, "user", exit=130),
    )
    assert relations(found) == ["before", "succeeded", "stopped"]


def test_a_rank_that_ended_before_the_failure_did_not_follow_it() -> None:
    """0.9 s before it, with 0."""
    found = verdict(task(0, ended(9.1, 0)), task(2, ended(10.1), *said(10.0, LOSS)))
    assert relations(found) == ["before", "first"]


@pytest.mark.parametrize(
    ("code", "after", "signalled", "ours"),
    [
        (143, 0.5, True, True),
        (1, 0.5, True, True),
        (0, 0.5, True, True),
        (143, -0.01, False, True),
        (1, -0.01, True, True),
        (1, -0.01, False, False),
        (143, -1.0, True, False),
    ],
)
def test_what_a_stop_did(code: int, after: float, signalled: bool, ours: bool) -> None:
    """After it began any end; within the clocks' doubt before it only what a stop leaves, or who was signalled."""
    end = End(code, 10.0 + after, signalled=signalled)
    assert caused(Stop(10.0, "user"), end, code, end.at, 0.05) is ours
    assert not caused(Stop(10.0, "user"), replace(end, oom=True), code, end.at, 0.05)


def test_what_was_known_before_a_stop_was_not_caused_by_it() -> None:
    """Whatever a clock that is ahead says."""
    found = verdict(
        task(0, End(137, 105.0, seen_at=100.0)),
        task(1, End(137, 105.0, seen_at=105.1, signalled=True)),
        stop=Stop(101.0, "failure"),
    )
    assert relations(found) == ["first", "stopped"]


@pytest.mark.parametrize(
    ("more", "engine", "fell"),
    [
        ({"signalled": True}, "docker", True),
        ({"signalled": True, "code": 1}, "docker", False),
        ({"signalled": True, "oom": True}, "docker", False),
        ({"signalled": True, "seen_at": 19.9}, "docker", False),
        ({"signalled": False}, "docker", False),
        ({"signalled": None}, "docker", False),
        ({}, "process", True),
        ({"code": 137}, "process", False),
    ],
)
def test_a_task_that_was_seen_to_fall_to_a_stop_fell_to_it(more: dict[str, object], engine: str, fell: bool) -> None:
    """Though its host's clock, which nobody read again, says that it ended five seconds before."""
    victim = task(1, replace(End(143, 15.3, seen_at=20.4), **more), engine=engine)  # type: ignore[arg-type]
    culprit = task(0, ended(19.9), *said(19.8, "ValueError: boom"), engine=engine)
    found = verdict(culprit, victim, stop=Stop(20.0, "failure", live=frozenset({1})))
    assert (found.ranks[1].relation == "stopped") is fell


@pytest.mark.parametrize(
    ("code", "engine", "seen_at"), [(137, "docker", 20.6), (137, "docker", 50.0), (143, "process", 20.6)]
)
def test_who_was_killed_before_a_stop_did_not_fall_to_it_by_a_clock_that_is_read(
    code: int, engine: str, seen_at: float
) -> None:
    """Its end came here after the stop that its peer's failure brought about: it is the first all the same."""
    steady = HostSeen(0.005, read_from=0.0, read_until=15.0)
    killed = task(0, End(code, 20.0, seen_at=seen_at, signalled=engine == "docker"), host="h1", engine=engine)
    peer = task(1, ended(20.3), *said(20.2, "RuntimeError: Connection reset by peer"), host="h2")
    stops = [Stop(20.4, "failure", live=frozenset({0}))]
    found = judge(Evidence((killed, peer), {"h1": steady, "h2": steady}, stops))
    assert (found.first, found.certainty, found.ranks[0].relation) == ((0,), "certain", "first")


def test_a_clock_that_was_set_long_ago_is_known_again() -> None:
    """By an hour, and an hour of the run has not gone by: what a rank says after a stop is the stop's effect."""
    seen = HostSeen(0.003, (Unsteady(1000.0, 1000.1, 3600.0, 3600.0),), read_from=1000.0, read_until=2495.0)
    rank = task(0, End(1, 2501.2, seen_at=2501.3), *said(2501.0, "ValueError: I/O operation on closed file"), host="h1")
    found = judge(Evidence((rank,), {"h1": seen}, [Stop(2500.0, "user")]))
    assert (found.outcome, found.first) == ("stopped", ())
    late = replace(rank, end=End(1, 2501.2, seen_at=2900.0))
    assert judge(Evidence((late,), {"h1": seen}, [Stop(2500.0, "user")])).first == (0,)


@pytest.mark.parametrize("stop", [Stop(20.0, "failure"), Stop(20.0, "user", by="ann@desk", live=frozenset({1}))])
def test_only_what_lived_when_our_own_stop_was_sent_to_it_surely_fell_to_that(stop: Stop) -> None:
    """Its host did not answer then; somebody else stopped the run."""
    victim = task(1, End(143, 12.0, seen_at=20.4, signalled=True))
    found = verdict(task(0, ended(19.9), *said(19.8, "ValueError: boom")), victim, stop=stop)
    assert found.ranks[1].relation == "first"


def test_two_lines_of_a_host_whose_clock_was_set_between_them_have_no_sure_order() -> None:
    """Both by that clock, and two seconds apart by it."""
    set_by = HostSeen(0.002, (Unsteady(80.0, 95.0, 5.0, shift=5.0),))
    tasks = (
        task(0, ended(90.0), *said(89.9, "ValueError: one"), host="h1"),
        task(1, ended(92.0), *said(91.9, "KeyError: 'two'"), host="h1"),
    )
    assert judge(Evidence(tasks, {"h1": set_by})).certainty == "uncertain"
    assert judge(Evidence(tasks, {"h1": HostSeen(0.002)})).certainty == "certain"


def test_a_stop_from_elsewhere_is_no_failure() -> None:
    """One rank ended some seconds before the one on whose host it was read who stops the run."""
    stop = Stop(14.0, "elsewhere", by="ann@desk")
    found = verdict(task(0, ended(11.0, 143, signalled=True)), task(1, ended(14.0, 143, signalled=True)), stop=stop)
    assert (found.outcome, found.exit, found.failure) == ("stopped", 143, None)
    assert found.ranks[1].words == "stopped by ann@desk (exit 143)"


@pytest.mark.parametrize(("at", "relation"), [(10.2, "stopped"), (10.5, "followed")])
def test_what_ends_with_the_first_one_did_not_surely_follow_it(at: float, relation: str) -> None:
    """Neither says a word, no signal came to it, and a stop had begun: whether it was before can't be told at 10.2."""
    killed = task(0, ended(10.0, 0, oom=True), host="h1")
    found = verdict(killed, task(1, ended(at, 1), host="h1"), stop=Stop(10.0, "user"))
    assert (failure(found)[0], found.ranks[1].relation) == (0, relation)


def test_the_job_s_limit_is_a_stop() -> None:
    """The first task that reached it ended the run."""
    rules = Rules(max_duration=10.0)
    found = verdict(task(0, ended(10.1, 124, started_at=0.0)), task(1, ended(10.9, 137, started_at=2.0)), rules=rules)
    assert (found.outcome, found.exit, found.over_limit) == ("stopped", 124, True)


@pytest.mark.parametrize(
    ("engine", "code", "lasted", "outcome"),
    [
        ("docker", 124, 600.2 - 3600, "stopped"),
        ("docker", 124, 600.2 + 3600, "stopped"),
        ("docker", 1, 100.0 + 3600, "failed"),
        ("docker", 137, 100.0 + 3600, "failed"),
        ("process", 137, 600.2, "stopped"),
        ("process", 124, 100.0, "failed"),
    ],
)
def test_a_clock_that_is_set_makes_no_limit_and_hides_none(engine: str, code: int, lasted: float, outcome: str) -> None:
    """By an hour while the rank ran; a process tells when it began by the clock as it was at its end."""
    rank = task(0, ended(5000.0, code, started_at=5000.0 - lasted), engine=engine)
    host = HostSeen(unsteady=(Unsteady(4800.0, 4815.0, 3600.1, 3600.0),), set_by=3600.0)
    found = judge(Evidence((rank,), {"h1": host}, rules=Rules(max_duration=600.0)))
    assert (found.outcome, found.over_limit) == (outcome, outcome == "stopped")


@pytest.mark.parametrize(
    ("ours", "ahead", "outcome"), [(0.0, 1.5, "stopped"), (3600.0, -3600.0, "stopped"), (0.0, 60.0, "failed")]
)
def test_a_host_s_clock_that_was_not_set_hides_no_limit(ours: float, ahead: float, outcome: str) -> None:
    """It was read over a slow line at first, or ours was set: a rank that its limit killed after the grace has not
    failed.
    """
    clock = HostClock(0.0, 3.0, 0.0)
    clock.ours_by = ours
    clock.take(Reading(100.0, 100.0 + ahead, 100.001))
    host = HostSeen(doubt=clock.doubt, unsteady=clock.unsteady, set_by=clock.set_by)
    rank = task(0, ended(5000.0, 137, started_at=4399.8))
    assert judge(Evidence((rank,), {"h1": host}, rules=Rules(max_duration=600.0))).outcome == outcome


def test_a_rank_that_raises_on_the_limit_s_signal_did_not_fail() -> None:
    """It is told to end when its time is over, and may take its grace to."""
    rules = Rules(max_duration=10.0)
    raises = task(0, ended(12.0, 1, started_at=0.0), *said(9.9, "Terminated: SIGTERM"))  # started before its stamp
    found = verdict(raises, task(1, ended(10.2, 124, started_at=0.1)), rules=rules)
    assert (found.outcome, found.failure, relations(found)) == ("stopped", None, ["stopped", "stopped"])
    early = task(0, ended(12.0, 1, started_at=0.0), *said(9.0, LOSS))
    found = verdict(early, task(1, ended(10.2, 124, started_at=0.1)), rules=rules)
    assert (found.outcome, relations(found)) == ("stopped", ["first", "stopped"])


def test_a_rank_that_had_raised_long_before_the_limit_is_told_as_that() -> None:
    """An mpirun waits for ever for a process of mpi4py that raised; 124 is the limit's own status."""
    found = verdict(task(0, ended(60.2, 124, started_at=0.0), *said(10.0, LOSS)), rules=Rules(max_duration=60.0))
    assert (found.outcome, found.exit) == ("stopped", 124)
    assert failure(found) == (0, "raised an error, and had not ended when stopped (exit 124)")


@pytest.mark.parametrize(
    ("stop", "code"),
    [
        (Stop(8.0, "user", exit=130), 130),
        (Stop(9.8, "user", exit=130), 130),
        (Stop(11.0, "user", exit=130), 124),
        (Stop(11.0, "elsewhere", "ann@desk"), 124),
        (Stop(11.9, "failure"), 1),
        (Stop(12.1, "failure"), 124),
    ],
)
def test_of_a_limit_and_another_stop_the_first_counts(stop: Stop, code: int) -> None:
    """Ranks have their grace when the limit is reached: a stop within that comes later."""
    tasks = task(0, ended(12.0, 124, started_at=0.0)), task(1, ended(12.0, 124, started_at=0.0))
    assert verdict(*tasks, stop=stop, rules=Rules(max_duration=10.0)).exit == code


# torchrun


def node(index: int, ranks: tuple[int, ...], end: End, agent: Lines, own: dict[int, Lines]) -> TaskSeen:
    """A host's torchrun."""
    return TaskSeen(index, f"h{index + 1}", ranks, end=end, lines={None: agent, **own})


def agent(at: float, *ends: tuple[int, int, int], closed: tuple[int, ...] = (), second: int = 1767225600) -> Lines:
    """What torchrun says of ranks that ended: (local rank, exitcode, pid), the blamed one last."""
    lines = [f"W0101 Sending process {pid} closing signal SIGTERM" for pid in closed]
    local, code, pid = ends[-1]
    lines += [f"E0101 failed (exitcode: {code}) local_rank: {local} (pid: {pid}) of binary: python", "t.py FAILED"]
    lines += ["Failures:", *(x for e in ends[:-1] for x in entry(*e, second))]
    lines += ["Root Cause (first observed failure):", *entry(*ends[-1], second)]
    return tuple(Line(at, text) for text in lines)


def entry(local: int, code: int, pid: int, second: int) -> list[str]:
    """One rank in the report."""
    time = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%d_%H:%M:%S")
    rank = f"  rank      : {local} (local_rank: {local})"
    return [f"[{local}]:", f"  time      : {time}", rank, f"  exitcode  : {code} (pid: {pid})"]


def test_ranks_of_torchrun_have_their_own_ends() -> None:
    """Two raised, torchrun ended the third with SIGTERM; the container was stopped by us and left 143."""
    output = agent(10.4, (1, -15, 41), (0, 1, 40), (2, 1, 42), closed=(41,))
    own = {0: said(10.1, LOSS), 1: (Line(9.0, "step 7"),), 2: said(10.0, LOSS)}
    one = node(0, (0, 1, 2), ended(13.0, 143, signalled=True), output, own)
    found = verdict(one, stop=Stop(12.0, "failure"), rules=TORCHRUN)
    assert [(e.relation, e.exit) for e in found.ranks.values()] == [("alike", 1), ("followed", 143), ("first", 1)]
    assert found.ranks[1].words == "killed by SIGTERM (terminated), exit 143, by torchrun"
    assert (found.failure and found.failure.at) == 10.0


PEER_WENT = (
    Line(10.381, "[rank0]: Traceback (most recent call last):"),
    Line(10.381, '[rank0]:   File "/work/t.py", line 26, in <module>'),
    Line(10.386, "[rank0]:     work.wait()"),
    Line(10.386, f"[rank0]: {ECHO}"),
)


@pytest.mark.parametrize(
    ("oom", "words"),
    [(False, "killed by SIGKILL, exit 137"), (True, "out of memory: the kernel killed it (exit 137)")],
)
def test_the_killed_rank_of_a_torchrun_was_first(oom: bool, words: str) -> None:
    """torchrun ends the other one while that prints that it lost its peer. Of both the engine only knows that the
    kernel killed one for lack of memory: seen with two ranks of FSDP.
    """
    output = agent(10.384, (0, -15, 40), (1, -9, 41), closed=(40,))
    one = node(0, (0, 1), ended(12.0, 1, oom=oom), output, {0: PEER_WENT, 1: (Line(9.0, "step 7"),)})
    found = verdict(one, rules=TORCHRUN)
    assert (failure(found), found.certainty) == ((1, words), "certain")
    assert relations(found) == ["followed", "first"]


def test_two_torchruns_that_fail_alike() -> None:
    """Each container ends seconds later, in the other order, after our stop."""
    nodes = [
        node(0, (0,), ended(14.9, 1, signalled=True), agent(10.2, (0, 1, 9)), {0: said(10.0, LOSS)}),
        node(1, (1,), ended(13.9, 1), agent(10.3, (0, 1, 9)), {1: said(10.1, LOSS)}),
    ]
    found = verdict(*nodes, stop=Stop(14.0, "failure"), rules=TORCHRUN)
    assert (failure(found), relations(found)) == ((0, "exit 1"), ["first", "alike"])


def test_torchrun_names_a_rank_by_its_place() -> None:
    """With c10d it numbers the ranks as it likes: its rank 1 is rank 3, the second on its host."""
    one = node(0, (2, 3), ended(12.0), agent(10.0, (1, -11, 9)), {2: (Line(9.0, "fine"),), 3: (Line(9.0, "segv"),)})
    found = verdict(one, rules=TORCHRUN)
    assert (failure(found), found.failure and found.failure.excerpt) == (
        (3, "killed by SIGSEGV (segmentation fault), exit 139"),
        ("segv",),
    )


@pytest.mark.parametrize("zone", [0, 2 * 3600, -8 * 3600, 5 * 3600 + 2700])
def test_torchrun_s_report_dates_what_has_no_stamp(zone: int) -> None:
    """The second of the report, not the container's end 30 s later, whatever the container's time zone is."""
    began = 1767225600
    said = tuple(Line(None, line.text) for line in agent(0, (0, -9, 9), second=began + zone))
    found = verdict(node(0, (0,), ended(began + 30.25, 1), said, {}), rules=TORCHRUN)
    assert found.failure is not None
    assert found.failure.at == began + 0.5


def test_torchrun_without_a_report_blames_no_rank() -> None:
    """Two ranks in one task and no word which: the host is named, the launcher's lines are shown."""
    found = verdict(node(0, (0, 1), ended(10.0), (Line(9.9, "ValueError: nope"),), {}), rules=TORCHRUN)
    assert found.failure is not None
    assert (found.failure.rank, found.failure.host, found.failure.excerpt) == (None, "h1", ("ValueError: nope",))
    assert relations(found) == ["first", "first"]


def test_only_the_last_round_of_a_torchrun_counts() -> None:
    """Ranks that failed before and were started again have nothing to do with the end."""
    first = (Line(1.0, "failed (exitcode: 7) local_rank: 0 (pid: 3) of binary: p"),)
    report = agent_words((*first, *agent(10.0, (1, 1, 22), closed=(21,))))
    assert (list(report.ends), report.ends[1].code, report.closed, report.noticed_at) == ([1], 1, {21}, 10.0)


FIRST_ROUND = (
    Line(20.0, "W0101 Sending process 30 closing signal SIGTERM"),
    Line(21.0, "E0101 failed (exitcode: 1) local_rank: 1 (pid: 31) of binary: p"),
)
RESTARTS = Rules(launcher="torchrun", max_restarts=1)


def test_what_a_rank_said_in_a_round_before_does_not_count() -> None:
    """Rank 1 raised, all were started again, and rank 0 fails: torchrun ends rank 1, which says nothing more."""
    output = (*FIRST_ROUND, *agent(31.0, (1, -15, 41), (0, 3, 40), closed=(41,)))
    own = {0: (Line(30.0, "begins"),), 1: said(19.8, ROOT)}
    found = verdict(node(0, (0, 1), ended(32.0), output, own), rules=RESTARTS)
    assert (failure(found), found.certainty, relations(found)) == ((0, "exit 3"), "certain", ["first", "followed"])


@pytest.mark.parametrize("later", [0.3, 32.0])
def test_a_round_may_be_short(later: float) -> None:
    """torchrun starts its ranks at once: what they say then is theirs, and what one said before is not told as why."""
    output = (*FIRST_ROUND, *agent(21.2 + later, (1, -15, 41), (0, 1, 40), closed=(41,)))
    own = {0: said(21.0 + later, LOSS), 1: said(19.8, ROOT)}
    found = verdict(node(0, (0, 1), ended(22.0 + later), output, own), rules=RESTARTS)
    assert found.failure is not None
    assert (found.first[0], found.failure.excerpt[-1], found.failure.at) == (0, LOSS, 21.0 + later)


def test_a_crash_is_not_reported_with_what_was_raised_in_a_round_before() -> None:
    """It said no more of it."""
    own = {0: (Line(30.0, "begins"),), 1: (*said(19.8, ROOT), Line(30.0, "begins"))}
    found = verdict(node(0, (0, 1), ended(32.0), (*FIRST_ROUND, *agent(31.0, (1, -11, 41))), own), rules=RESTARTS)
    assert found.failure is not None
    assert (found.first, found.failure.excerpt) == ((1,), ("begins",))


def test_a_round_of_which_torchrun_says_nothing() -> None:
    """Its container is killed while the ranks that it started again work: none of them had failed."""
    own = {0: (Line(30.0, "begins"),), 1: (*said(19.8, ROOT), Line(30.0, "begins"))}
    killed = node(0, (0, 1), ended(52.0, 137), FIRST_ROUND, own)
    found = verdict(killed, rules=RESTARTS)
    assert (failure(found), relations(found)) == ((None, "torchrun killed by SIGKILL, exit 137"), ["first", "first"])
    assert verdict(killed, stop=Stop(51.9, "user"), rules=RESTARTS).failure is None


def test_a_round_begins_long_after_what_torchrun_stopped() -> None:
    """Another node had failed: the ranks of this one were stopped and started again, without a word of that."""
    said = (Line(1.0, "Sending process 30 closing signal SIGTERM"), *agent(99.0, (0, 3, 40)))
    words = agent_words(said)
    assert (words.noticed_at, words.since, words.closed) == (99.0, 2.0, frozenset())


def test_a_signal_belongs_to_the_round_that_it_ends() -> None:
    """It is told before the ranks are stopped."""
    got = Line(55.0, "Received 15 death signal, shutting down workers")
    stops = Line(55.1, "Sending process 40 closing signal SIGTERM")
    assert agent_words((*FIRST_ROUND, got, stops)).signal == "SIGTERM"
    assert (
        agent_words((FIRST_ROUND[0], Line(1.0, got.text), FIRST_ROUND[1], stops, *agent(200.0, (0, 1, 50)))).signal
        == ""
    )


@pytest.mark.parametrize(("code", "status"), [("3", 3), ("-9", 137)])
def test_a_report_tells_exit_and_signal(code: str, status: int) -> None:
    """A signal counts as 128 + number."""
    report = agent_words(agent(1.0, (1, int(code), 99)))
    assert (report.root, report.ends[1].code, report.ends[1].pid) == (1, status, 99)


@pytest.mark.parametrize(
    ("line", "signal"),
    [
        ("SignalException: Process 7 got signal: 15", "SIGTERM"),
        ("Received 1 death signal, shutting down workers", "SIGHUP"),
        ("Received Signals.SIGINT death signal, shutting down workers", "SIGINT"),
        ("SignalException: Process 7 got signal: 99", "signal 99"),
    ],
)
def test_a_torchrun_that_was_signalled_says_by_which(line: str, signal: str) -> None:
    """By number or name; its ranks have no exit status of their own then."""
    words = "got " + signal + " there, not from distui"
    node = TaskSeen(0, "h1", (0, 1), end=ended(9.0, 1), lines={None: (Line(8.0, line),)})
    found = verdict(node, rules=TORCHRUN)
    assert agent_words(node.lines[None]).signal == signal
    assert failure(found) == (None, f"its torchrun {words}")
    assert [end.exit for end in found.ranks.values()] == [None, None]


def signalled(index: int, at: float, end: End, **more: object) -> TaskSeen:
    """A torchrun of two ranks that was sent SIGTERM, which it says."""
    lines = Line(at, "Received 15 death signal, shutting down workers"), Line(at, "Process 7 got signal: 15")
    return TaskSeen(index, f"h{index + 1}", (2 * index, 2 * index + 1), end=end, lines={None: lines}, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("code", [1, 124, 137])
def test_a_torchrun_that_the_job_s_limit_ends_did_not_fail(code: int) -> None:
    """It gets its signal when its time is over, and ends a second later: the first end is not when the limit came."""
    nodes = [
        signalled(0, 11.4, ended(12.4, code, started_at=1.4)),
        signalled(1, 11.6, ended(12.5, code, started_at=1.7)),
    ]
    found = verdict(*nodes, stop=Stop(12.6, "limit"), rules=replace(TORCHRUN, max_duration=10.0))
    assert (found.outcome, found.exit, found.failure, found.over_limit) == ("stopped", 124, None, True)
    assert relations(found) == ["stopped"] * 4
    assert found == verdict(*nodes, rules=replace(TORCHRUN, max_duration=10.0))


def test_an_engine_that_stops_ends_its_torchrun_which_exits_with_a_code_of_its_own() -> None:
    """`systemctl restart docker`: nobody called `docker stop`."""
    node = signalled(0, 9.0, ended(9.2, 1, signalled=True))
    found = judge(Evidence((node,), {"h1": HostSeen(engine_lost_at=9.4, engine_back_at=14.0)}, rules=TORCHRUN))
    assert failure(found)[1] == "its torchrun got SIGTERM: its container engine was stopped or restarted"


@pytest.mark.parametrize(
    ("engine", "known", "words"),
    [
        ("docker", False, "its torchrun got SIGTERM there, not from distui"),
        ("docker", None, "its torchrun got SIGTERM"),
        ("process", False, "its torchrun got SIGTERM"),
    ],
)
def test_who_signalled_a_torchrun_is_reported_where_it_is_known(engine: str, known: bool | None, words: str) -> None:
    """An engine knows of all signals distui had it send; where nobody heard it, or there is none, it may be ours."""
    found = verdict(signalled(0, 8.0, ended(9.0, 1, signalled=known), engine=engine), rules=TORCHRUN)
    assert failure(found) == (None, words)


def test_other_output_is_no_report() -> None:
    """Nobody is named."""
    report = agent_words((Line(1.0, "rank : 3 (local_rank: 1)"), Line(1.0, "exitcode : 3 (pid: 3)")))
    assert (report.ends, report.reported) == ({}, False)


# what ended it from outside


@pytest.mark.parametrize(
    ("end", "host", "removed", "words"),
    [
        (End(137, 9.0, oom=True), HostSeen(), False, "out of memory: the kernel killed it (exit 137)"),
        (End(137, 9.0), HostSeen(), False, "killed by SIGKILL, exit 137"),
        (End(255, 9.0), HostSeen(rebooted=True), False, "exit 255: its host was restarted"),
        (End(3, 9.0), HostSeen(rebooted=True), False, "exit 3"),
        (End(137, 9.0), HostSeen(), True, "killed by SIGKILL, exit 137: its container was removed by somebody else"),
        (End(None, state="removed"), HostSeen(), True, "its container was removed by somebody else"),
        (
            End(143, 9.0),
            HostSeen(engine_lost_at=9.5),
            False,
            "killed by SIGTERM (terminated), exit 143: its container engine was stopped or restarted",
        ),
        (
            End(143, 99.0, signalled=True),
            HostSeen(engine_lost_at=9.5, engine_back_at=20.0),
            False,
            "killed by SIGTERM (terminated), exit 143: by `docker stop` or `docker kill` there, not by distui",
        ),
        (
            End(1, 9.0, signalled=True),
            HostSeen(engine_lost_at=9.5, engine_back_at=20.0),
            False,
            "exit 1: its container engine was stopped or restarted",
        ),
        (
            End(137, 9.0, signalled=True),
            HostSeen(),
            False,
            "killed by SIGKILL, exit 137: by `docker stop` or `docker kill` there, not by distui",
        ),
    ],
)
def test_ends_in_words(end: End, host: HostSeen, removed: bool, words: str) -> None:
    """137 alone is no out-of-memory, and what happened to the host or the container explains an end it may make."""
    found = judge(Evidence((task(0, end, removed=removed),), {"h1": host}))
    assert failure(found) == (0, words)


@pytest.mark.parametrize(
    ("away_at", "spoke", "code", "first"),
    [
        (41.0, 38.0, 255, [1]),
        (41.0, 38.0, None, [1]),
        (41.0, 60.0, 255, [0]),
        (41.0, 38.0, 143, [0]),
        (80.0, 38.0, 255, [0]),
        (None, 38.0, 255, [0]),
    ],
    ids=["unseen", "unseen without a code", "alive then", "stopped", "away later", "not noticed"],
)
def test_a_host_that_went_down_before_the_stop(
    away_at: float | None, spoke: float, code: int | None, first: list[int]
) -> None:
    """Rank 0 loses it and the run is stopped; its boot is over long after, and Docker dates the end by that."""
    lines = {0: said(75.0, ECHO), 1: (Line(spoke, "step 3"),)}
    known = Evidence(
        (task(0, ended(76.0), *lines[0]), task(1, ended(160.0, code), *lines[1])),
        {"h1": HostSeen(), "h2": HostSeen(rebooted=True, away_at=away_at)},
        (Stop(76.2, "failure"),),
    )
    found = judge(known)
    assert list(found.first) == first
    assert (found.ranks[1].words.endswith("its host was restarted"), found.ranks[1].at == 41.0) == ((first == [1]),) * 2


# for all evidence

TIMES = st.floats(1, 30).map(lambda at: round(at, 3))
WORDS = st.sampled_from([(), (ECHO,), (ROOT,), (LOSS,), ("KeyError: 'x'",), ("step 3 loss 0.1",)])
CODES = st.sampled_from([0, 1, 3, 137, 143])


@st.composite
def evidences(draw: st.DrawFn) -> Evidence:
    """Runs of up to five ranks that end anyhow."""
    tasks = []
    for index in range(draw(st.integers(1, 5))):
        at, texts = draw(TIMES), draw(WORDS)
        spoke = round(at - draw(st.floats(0, 3)), 3)
        lines = said(spoke, *texts) if texts and texts[0] != "step 3 loss 0.1" else tuple(Line(spoke, t) for t in texts)
        end = End(draw(CODES), at, oom=draw(st.booleans()), signalled=draw(st.booleans()), seen_at=at + 0.1)
        tasks.append(task(index, draw(st.sampled_from([end, end, None])), *lines, host=draw(st.sampled_from("abc"))))
    stops = tuple(Stop(at, "user") for at in draw(st.lists(TIMES, max_size=2)))
    doubts = draw(st.lists(st.floats(0, 0.5), min_size=3, max_size=3))
    return Evidence(tuple(tasks), {h: HostSeen(doubt=d) for h, d in zip("abc", doubts, strict=True)}, stops)


@given(evidences(), st.integers(0, 2**16))
def test_the_order_of_what_is_known_never_matters(known: Evidence, seed: int) -> None:
    """Any order of the same facts gives the same verdict."""
    by = random.Random(seed)
    tasks, stops = list(known.tasks), list(known.stops)
    by.shuffle(tasks)
    by.shuffle(stops)
    assert judge(replace(known, tasks=tuple(tasks), stops=tuple(stops))) == judge(known)


@given(evidences())
def test_a_rank_that_was_stopped_is_never_first(known: Evidence) -> None:
    """Who is first failed by itself; every rank has a relation, and exactly the named one is `first`."""
    found = judge(known)
    assert set(found.ranks) == {rank for t in known.tasks for rank in t.ranks}
    named = [rank for rank, end in found.ranks.items() if end.relation == "first"]
    assert named == list(found.first[:1])
    stop = min((s.at for s in known.stops), default=None)
    for rank in named:
        its = next(t for t in known.tasks if rank in t.ranks)
        assert its.end is not None
        spoke = min((line.at for line in its.lines[rank] if line.at is not None), default=its.end.at or 0.0)
        early = min(spoke, its.end.at or 0.0) < (stop or 1e9) + known.doubt(its.host)
        assert stop is None or early or its.end.oom


@given(evidences())
def test_no_certainty_where_clocks_overlap(known: Evidence) -> None:
    """A certain first among failures of their own is earlier than each of another kind by more than the clocks err."""
    found = judge(known)
    if found.certainty == "uncertain" or len(found.first) != 1:
        return
    first = found.ranks[found.first[0]]
    for end in found.ranks.values():
        own = all(ECHO not in line.text for t in known.tasks if end.rank in t.ranks for line in t.lines[end.rank])
        if end.relation == "followed" and own and first.at is not None and end.at is not None:
            doubt = 0.0 if end.host == first.host else known.doubt(end.host) + known.doubt(first.host)
            assert end.at - first.at > doubt


# programs that start several ranks themselves

REPORT = """\
E1124 04:27:11.327000 8 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1)
Traceback (most recent call last):
  File "/usr/lib/python3/dist-packages/torch/distributed/launcher/api.py", line 383, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
bad.py FAILED
Root Cause (first observed failure):
[0]:
  rank      : 3 (local_rank: 1)
  exitcode  : 1 (pid: 20)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================""".splitlines()
"""What torch 2.13's torchrun says of its ranks, shortened."""

RAISED = [
    "[rank3]: Traceback (most recent call last):",
    '[rank3]:   File "/work/bad.py", line 14, in work',
    '[rank3]:     raise ValueError("bad shard 17")',
    "[rank3]: ValueError: bad shard 17",
]
CLOSED = [
    "[rank2]: Traceback (most recent call last):",
    '[rank2]:   File "/work/bad.py", line 15, in work',
    f"[rank2]: {ECHO}",
]


@pytest.mark.parametrize(
    "log", [[*RAISED, *CLOSED, *REPORT], [*RAISED, *REPORT], [*CLOSED[:1], *RAISED, *CLOSED[1:], *REPORT]]
)
def test_the_error_of_a_rank_that_a_program_started_is_shown(log: list[str]) -> None:
    """`command: [torchrun, ...]`: what it raised, not what the rank beside it lost and what the launcher adds."""
    lines = tuple(Line(10.0 + at / 100, text) for at, text in enumerate(["step 20", *log]))
    found = verdict(task(0, ended(12.0), Line(10.3, ECHO)), task(1, ended(11.0), *lines)).failure
    assert found is not None
    assert (found.rank, found.excerpt) == (1, tuple(RAISED))


LOST = [f"[rank0]: {line.partition(' ')[2]}" for line in CLOSED]


@pytest.mark.parametrize(
    ("ends", "closed", "words"),
    [
        ([(0, -15, 20), (1, 3, 21)], (20,), "exit 3"),
        ([(0, -15, 20), (1, -11, 21)], (20,), "killed by SIGSEGV (segmentation fault), exit 139"),
        ([(1, 3, 21), (0, 1, 20)], (), "exit 3"),
        ([(1, 1, 21), (0, 1, 20)], (), "exit 1"),
    ],
)
def test_a_process_of_the_job_s_own_torchrun_that_ended_without_a_word_is_named(
    ends: list[tuple[int, int, int]], closed: tuple[int, ...], words: str
) -> None:
    """Reports of torch 2.13: the other one says that its peer closed the connection, and torchrun ends it or not."""
    said = tuple(Line(10.0 + at / 100, text) for at, text in enumerate(["step 20", *LOST]))
    found = verdict(task(0, ended(12.0), *said, *agent(11.0, *ends, closed=closed)))
    failure = found.failure
    assert failure is not None
    assert failure.cause == f"its process with rank 1 ended by itself, by torchrun's report: {words}"
    assert not failure.unsure


MPIRUN = [
    "mpirun detected that one or more processes exited with non-zero status, thus causing",
    "the job to be terminated. The first process to do so was:",
    "",
    "  Process name: [[34831,1],1]",
    "  Exit code:    {code}",
]
DEEPSPEED = [
    "[2026-11-29 14:15:08,710] [INFO] [launch.py:253:sigkill_handler] Killing subprocess 30",
    "[2026-11-29 14:15:08,743] [ERROR] [launch.py:259:sigkill_handler] "
    "['/usr/bin/python3', '-u', '/app/t.py', '--local_rank=1'] exits with return code = {code}",
]
CRASHED = "mpirun noticed that process rank 1 with PID 0 on node h1 exited on signal 11 (Segmentation fault)."
LIGHTNING = (
    "[rank: 1] Child process with PID 24 terminated with code {code}. Forcefully terminating all other processes"
)
SPAWN = [
    "Traceback (most recent call last):",
    '  File "/usr/lib/python3/dist-packages/torch/multiprocessing/spawn.py", line 200, in join',
    "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with exit code {code}",
]
RAY = [
    "(raylet) A worker died or was killed while executing a task by an unexpected system error. To troubleshoot the "
    "problem, check the logs for the dead worker. Lease ID: 0f00 Worker ID: 5d9b Node ID: aa80 Worker IP address: "
    "10.78.0.11 Worker port: 12009 Worker PID: 173 Worker exit type: SYSTEM_ERROR Worker exit detail: The leased "
    "worker has unrecoverable failure. Worker exits with an exit code {code}.",
    "Traceback (most recent call last):",
    '  File "/usr/lib/python3/dist-packages/ray/_private/worker.py", line 1055, in get_objects',
    "ray.exceptions.WorkerCrashedError: The worker died unexpectedly while executing this task.",
]
DASK = [
    "2026-11-29 14:34:34,916 - distributed.nanny - INFO - Worker process 42 exited with status {code}",
    "Traceback (most recent call last):",
    '  File "/usr/lib/python3/dist-packages/distributed/client.py", line 439, in _result',
    "distributed.scheduler.KilledWorker: Attempted to run task 'work-e6d3' on 4 different workers, but all those died",
]


@pytest.mark.parametrize(
    ("report", "code", "cause"),
    [
        (MPIRUN, 3, "its process with rank 1 ended by itself, by mpirun's report: exit 3"),
        (MPIRUN, 1, "its process with rank 1 ended by itself, by mpirun's report: exit 1"),
        ([CRASHED], 139, "rank 1 ended by itself, by mpirun's report: killed by SIGSEGV"),
        (DEEPSPEED, 3, "one of its processes ended by itself, by DeepSpeed's report: exit 3"),
        (["", LIGHTNING], 7, "its process with PID 24 ended by itself, by Lightning's report: exit 7"),
        (SPAWN, 3, "its process 1 ended by itself, by torch.multiprocessing's report: exit 3"),
        (RAY, 3, "its process with PID 173 ended by itself, by Ray's report: exit 3"),
        (DASK, 3, "its process with PID 42 ended by itself, by Dask's report: exit 3"),
    ],
)
def test_a_launcher_s_report_says_more_than_another_process_that_lost_its_peer(
    report: list[str], code: int, cause: str
) -> None:
    """Reports of Open MPI 4.1, DeepSpeed 0.19, Lightning 2.6, torch 2.13, Ray 2.60, Dask 2026.8, as printed."""
    log = ["step 4 loss 2.0", *LOST, *(line.format(code=code) for line in report)]
    found = verdict(task(0, ended(12.0, code), *(Line(10.0 + at / 100, text) for at, text in enumerate(log))))
    assert found.failure is not None
    assert cause in found.failure.cause
    assert not found.failure.unsure


@pytest.mark.parametrize(
    ("report", "status", "code", "cause"),
    [
        (MPIRUN, 3, 3, "its process with rank 1 ended by itself, by mpirun's report: exit 3"),
        (DEEPSPEED, 3, 3, "one of its processes ended by itself, by DeepSpeed's report: exit 3"),
        (SPAWN, 3, 3, "its process 1 ended by itself, by torch.multiprocessing's report: exit 3"),
        ([LIGHTNING], 7, 137, "its process with PID 24 ended by itself, by Lightning's report: exit 7"),
        ([LIGHTNING], 1, 137, "its process with PID 24 ended by itself, by Lightning's report: exit 1"),
    ],
)
def test_a_launcher_s_report_is_the_cause_where_nobody_said_a_word(
    report: list[str], status: int, code: int, cause: str
) -> None:
    """Other processes may print on until they are ended, too. Lightning kills itself then."""
    log = (
        [f"worker 1 step {step}" for step in range(5)]
        + [line.format(code=status) for line in report]
        + ["worker 0 step 5"]
    )
    found = verdict(task(0, ended(12.0, code), *(Line(10.0 + at / 100, text) for at, text in enumerate(log))))
    assert found.failure is not None
    assert found.failure.cause == cause


@pytest.mark.parametrize(
    ("report", "status", "code"), [(MPIRUN, 3, 3), (DEEPSPEED, 3, 3), ([LIGHTNING], -15, 137), ([LIGHTNING], 1, 137)]
)
@pytest.mark.parametrize(("at", "failed"), [(10.7, False), (8.0, True)])
def test_what_a_launcher_reports_of_a_run_that_is_stopped_is_no_failure(
    report: list[str], status: int, code: int, at: float, failed: bool
) -> None:
    """Its process ends by the stop, with whatever status; one that had ended before did so by itself."""
    log = [Line(7.0, "step 5"), *(Line(at, line.format(code=status)) for line in report)]
    found = verdict(task(0, ended(11.0, code), *log), stop=Stop(10.0, "user", live=frozenset({0})))
    assert (found.outcome, found.failure is not None) == ("stopped", failed)


def test_an_error_above_mpirun_s_report_is_shown_though_others_print_below_it() -> None:
    """As it was printed: rank 1 raises, and rank 0 works on until mpirun ends it."""
    raised = [
        "Traceback (most recent call last):",
        '  File "/app/t.py", line 7, in <module>',
        "ValueError: bad sample 17",
    ]
    aborted = [
        "Primary job  terminated normally, but 1 process returned",
        "a non-zero exit code. Per user-direction, ...",
    ]
    report = [line.format(code=1) for line in MPIRUN]
    log = [*raised, *aborted, "worker 0 step 6", *report, *(f"worker 0 step {step}" for step in range(7, 12))]
    found = verdict(task(0, ended(12.0), *(Line(10.0 + at / 100, text) for at, text in enumerate(log))))
    assert found.failure is not None
    assert found.failure.excerpt == tuple(raised)


def test_an_older_report_of_a_launcher_is_not_the_end_of_its_script() -> None:
    """`mpirun first; mpirun second; exit 5`: only the first one failed."""
    log = [*(line.format(code=3) for line in MPIRUN), *(f"worker 0 step {step}" for step in range(12))]
    found = verdict(task(0, ended(12.0, 5), *(Line(10.0 + at / 100, text) for at, text in enumerate(log))))
    assert found.failure is not None
    assert found.failure.cause == ""


@pytest.mark.parametrize("report", [[*MPIRUN[:3], "  Process name: [[34831,1],0]", MPIRUN[4]], DEEPSPEED])
def test_a_launcher_s_report_of_the_process_that_lost_its_peer_names_no_other(report: list[str]) -> None:
    """That one may be on another host."""
    log = [*LOST, *(line.format(code=1) for line in report)]
    found = verdict(task(0, ended(12.0), *(Line(10.0 + at / 100, text) for at, text in enumerate(log))))
    assert found.failure is not None
    assert found.failure.cause == "a peer went away"


@pytest.mark.parametrize("code", [1, 3, -11])
def test_a_torchrun_of_the_job_s_own_whose_processes_all_lost_others_names_none(code: int) -> None:
    """Those may be on another host. With whatever status a program ends then, it has said why."""
    said = [line.replace("rank2", f"rank{rank}") for rank in (0, 1) for line in CLOSED]
    lines = tuple(Line(10.0 + at / 100, text) for at, text in enumerate(["step 20", *said]))
    failure = verdict(task(0, ended(12.0), *lines, *agent(11.0, (0, 1, 20), (1, code, 21)))).failure
    assert failure is not None
    assert failure.cause == "a peer went away"


@pytest.mark.parametrize("tag", ["[1,{}]<stderr>:", "[1,{}]<stderr>: ", "[{}]<stderr>:", "(Trainer pid={}) "])
def test_the_error_of_a_rank_that_another_launcher_started_is_shown(tag: str) -> None:
    """`mpirun --tag-output`, horovodrun, Ray: its own lines, without those of the rank beside it."""
    raised, lost = ([tag.format(rank) + line.partition(" ")[2] for line in lines]
                    for rank, lines in ((3, RAISED), (2, CLOSED)))  # fmt: skip
    log = ["step 20", *lost[:1], *raised, *lost[1:], *REPORT]
    words = last_words(tuple(Line(10.0 + at / 100, text) for at, text in enumerate(log)))
    assert words is not None and words.own == tuple(raised)


def test_what_a_launcher_says_is_shown_where_a_rank_said_nothing() -> None:
    """A rank that was killed: the report is all there is."""
    lines = tuple(Line(10.0, text) for text in ("step 20", *REPORT))
    found = verdict(task(0, ended(11.0), *lines)).failure
    assert found is not None and found.excerpt == tuple(REPORT[-8:])


def test_a_launcher_s_long_report_is_no_work_after_an_error() -> None:
    """Several failures are reported, and a log whose lines have no times ends with it."""
    report = [*REPORT[:7], "-" * 60, "Failures:", "[1]:", "  rank      : 2 (local_rank: 0)", "-" * 60, *REPORT[7:]]
    words = last_words(tuple(Line(None, text) for text in ["step 20", *RAISED, *CLOSED, *report]))
    assert words is not None and (words.weight, words.own) == ("own", tuple(RAISED))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("| 13/25 [00:00<00:00, 14.36it/s]", "| 13/25 [00:04<00:03,  3.11it/s, train_loss=2.36]", True),
        ("| 13/25 [00:00<00:00, 14.36it/s]", "| 14/25 [00:04<00:03,  3.11it/s, train_loss=2.36]", False),
        ("| 1.5k/? [00:10, 9.1it/s]", "| 1.5k/? [00:14,  3.11it/s]", True),
        ("13/25 0:00:01 \u2022 0:00:02 14.36it/s", "13/25 0:00:05 \u2022 0:00:02 14.36it/s", True),
        ("", "| 13/25 [00:04<00:03,  3.11it/s]", False),
        ("13it [00:00, 14.36it/s]", "13it [00:04,  3.11it/s]", True),
        ("13it [00:00, 14.36it/s]", "14it [00:04,  3.11it/s]", False),
        ("13 examples [00:00, 14.36 examples/s]", "13 examples [1:00:04,  3.11 examples/s]", True),
    ],
)
def test_a_progress_bar_that_is_closed_after_an_error_is_no_work(before: str, after: str, said: bool) -> None:
    """It is drawn once more, as far as it was (Lightning, tqdm); one that is further tells that the rank went on."""
    lines = (
        Line(100.0, f"\rEpoch 0:  52%|#### {before}[rank0]: Traceback (most recent call last):"),
        Line(100.0, '[rank0]:   File "train.py", line 3, in step'),
        Line(100.0, "[rank0]:     loss.backward()"),
        Line(100.0, "[rank0]: RuntimeError: [pair.cc:553] Connection closed by peer [10.78.0.12]:7813"),
        Line(105.0, f"\rEpoch 0:  52%|#### {after}"),
    )
    words = last_words(lines)
    assert (words is not None) is said
    assert words is None or (words.weight, words.quiet_for) == ("echo", 0.0)


@pytest.mark.parametrize(
    "head",
    [
        "11/28/2026 13:05:{:02} - INFO - __main__ - ",  # the examples of transformers
        "11/28 13:05:{:02} - mmengine - INFO - ",
        "[11/28 13:05:{:02} d2.utils.events]: ",
        "28/11 [13:05:{:02}] ",
        "11/28/2026 9:05:{:02} PM ",
    ],
)
def test_dates_are_no_progress_bars(head: str) -> None:
    """Work after an error that a program gets over is work, though each line has the same day before its time."""
    lines = (
        *(Line(float(i), f"{head.format(i)}loss {1 / (i + 1):.3f}, lr 0.1, step {i}") for i in range(5)),
        Line(5.0, "Traceback (most recent call last):"),
        Line(5.0, '  File "train.py", line 3, in load'),
        Line(5.0, "OSError: [Errno 5] Input/output error: 'shard-7'"),
        *(Line(float(i), f"{head.format(i)}loss {1 / (i + 1):.3f}, lr 0.1, step {i}") for i in range(6, 40)),
    )
    assert last_words(lines) is None


@pytest.mark.parametrize(("outer", "said"), [("1/3", True), ("2/3", False)])
def test_progress_bars_in_one_another_are_each_compared_with_themselves(outer: str, said: bool) -> None:
    """tqdm draws both once more when they are closed, the inner one and the outer one."""
    lines = (
        Line(90.0, "\rEpochs: 33%|###3      | 1/3 [00:09<00:18,  9.00s/it]"),
        Line(100.0, "\rSteps: 52%|#####2    | 13/25 [00:01<00:01, 14.36it/s]\x1b[A"),
        Line(100.0, "[rank0]: Traceback (most recent call last):"),
        Line(100.0, "[rank0]: RuntimeError: [pair.cc:553] Connection closed by peer [10.78.0.12]:7813"),
        Line(105.0, "\rSteps: 52%|#####2    | 13/25 [00:05<00:03,  3.11it/s]"),
        Line(105.0, f"\rEpochs: 33%|###3      | {outer} [00:15<00:18,  9.00s/it, loss=2.3]"),
    )
    words = last_words(lines)
    assert (words is not None) is said
    assert words is None or (words.weight, words.quiet_for) == ("echo", 0.0)


SPAWNED = """Traceback (most recent call last):
  File "<string>", line 1, in <module>
  File "/usr/lib/python3.11/multiprocessing/spawn.py", line 138, in _check_not_importing_main
    raise RuntimeError('''
RuntimeError:
        An attempt has been made to start a new process before the
        current process has finished its bootstrapping phase.

        This probably means that you are not using fork to start your
        child processes and you have forgotten to use the proper idiom"""
JOINED = """W1128 17:30:01.358000 7 torch/multiprocessing/spawn.py:165] Terminating process 19 via signal SIGTERM
Traceback (most recent call last):
  File "/work/sp.py", line 3, in <module>
    mp.spawn(w, nprocs=2)
torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with exit code 1"""


@pytest.mark.parametrize("said", [SPAWNED, f"{SPAWNED}\n{JOINED}"], ids=["alone", "by mp.spawn"])
def test_a_message_may_begin_below_its_exceptions_name(said: str) -> None:
    """Multiprocessing's longest one does: its cause was not looked for there, and a failure ended with the name."""
    words = last_words(lines_of(said.splitlines(), at=1.0))
    assert words is not None and words.cause is not None and "while its own file is imported" in words.cause.text
    assert not words.own or any("bootstrapping phase" in text for text in words.own[-8:])


@pytest.mark.parametrize(
    "after",
    [
        "terminate called without an active exception",
        "[rank0]:[E1128 21:00:00.123456789 ProcessGroupNCCL.cpp:1000] [PG ID 0 PG GUID 0 Rank 0] Process group watchdog"
        " thread terminated with exception: CUDA driver shutting down",
    ],
)
def test_what_a_process_says_as_it_ends_is_not_why_it_failed(after: str) -> None:
    """Its own exception stood above, and the cause was said to be how its threads ended. Alone it is what is known."""
    raised = ["Traceback (most recent call last):", '  File "t.py", line 3, in <module>', "ValueError: no more data"]
    found = last_words(said(100.0, "step 3 loss 1.0", *raised, after))
    alone = last_words(said(100.0, "step 3 loss 1.0", after))
    assert found is not None and alone is not None
    assert (found.headline, found.weight, found.cause) == ("ValueError: no more data", "own", None)
    assert alone.cause is not None
