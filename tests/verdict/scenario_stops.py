"""Endings by somebody's hand: stops by the user, limits, kills and removals from outside, hosts that go down."""

from __future__ import annotations

import time
from typing import Any

from verdict.scenario import Scenario, job, plain, truth

LONG = ("--steps", "300")
TERM = "stopped SIGTERM"
NO_BLAME = ("failed first", "first failure")
OUTSIDE = ("out of memory:",)


def interrupt(stage: Any) -> None:
    """Ctrl-C while both ranks step."""
    stage.said("step 5", 2)
    stage.interrupt()


def interrupt_twice(stage: Any) -> None:
    """Ctrl-C, and again two seconds later."""
    interrupt(stage)
    time.sleep(2)
    stage.interrupt()


def stop_beside(stage: Any) -> None:
    """`distui stop` in another terminal."""
    stage.said("step 5", 2)
    stage.distui("stop", stage.run, "-y")


def kill_beside(stage: Any) -> None:
    """`distui kill` in another terminal."""
    stage.said("step 5", 2)
    stage.distui("kill", stage.run, "-y")


def stop_from_elsewhere(stage: Any) -> None:
    """`distui stop` on another machine: nothing of the run is known there."""
    stage.said("step 5", 2)
    stage.distui_elsewhere("stop", stage.run, "-y")


def after(text: str, seconds: float) -> Any:
    """Ctrl-C so long after a line was read."""

    def act(stage: Any) -> None:
        stage.said(text)
        time.sleep(seconds)
        stage.interrupt()

    return act


def when_silent(stage: Any) -> None:
    """Ctrl-C once distui said that a rank is silent."""
    stage.wait_for("silence")
    stage.interrupt()


def docker(host: str, *words: str) -> Any:
    """`docker WORDS CONTAINER` on a host by somebody else, while the ranks step."""

    def act(stage: Any) -> None:
        stage.said("step 5", 2)
        stage.docker(host, *words)

    return act


def rank_kill(host: str) -> Any:
    """kill -9 of a rank's process from outside its container."""

    def act(stage: Any) -> None:
        stage.said("step 5", 2)
        stage.host(host).fault("rank-kill", stage.host(host).containers()[0])

    return act


def reboot(host: str) -> Any:
    """A host's power is cut and comes back."""

    def act(stage: Any) -> None:
        stage.said("step 5", 2)
        stage.host(host).fault("crash")
        stage.host(host).fault("poweron")

    return act


def kill_engine(host: str) -> Any:
    """dockerd and all it runs die, and dockerd is started again."""

    def act(stage: Any) -> None:
        stage.said("step 5", 2)
        stage.host(host).fault("docker-killall")
        stage.wait_for("host")
        stage.host(host).fault("docker-up")

    return act


STOPS = (
    Scenario(
        "stop-user",
        "Ctrl-C while both ranks are well",
        plain(1, *LONG),
        truth("stopped", TERM, TERM, never=NO_BLAME),
        interrupt,
    ),
    Scenario(
        "stop-user-sixteen",
        "Ctrl-C while sixteen ranks are well",
        plain(8, *LONG),
        truth("stopped", *[TERM] * 16, never=NO_BLAME),
        interrupt,
    ),
    *(
        Scenario(
            f"stop-user-term-{code}",
            f"Ctrl-C; the ranks catch SIGTERM and end with {code}",
            plain(1, f"all:0:on-term:{code}", *LONG),
            truth("stopped", *[f"stopped {code if code < 128 else '?'}"] * 2, never=NO_BLAME),
            interrupt,
        )
        for code in (0, 1, 143)
    ),
    Scenario(
        "stop-user-one-saves",
        "Ctrl-C; rank 0 catches SIGTERM and ends with 1, rank 1 does not",
        plain(1, "0:0:on-term:1", *LONG),
        truth("stopped", "stopped 1", TERM, never=NO_BLAME),
        interrupt,
    ),
    Scenario(
        "stop-user-ignored",
        "Ctrl-C; rank 1 ignores SIGTERM and is killed after the grace",
        job(1, "sh", "-c", "echo step 5; test $RANK = 1 && trap '' TERM; while :; do sleep 0.2; done"),
        truth("stopped", "stopped ?", "stopped SIGKILL", never=(*NO_BLAME, "outside distui", "out of memory")),
        interrupt,
    ),
    Scenario(
        "stop-beside",
        "`distui stop` in another terminal while all is well",
        plain(1, *LONG),
        truth("stopped", TERM, TERM, never=NO_BLAME),
        stop_beside,
    ),
    Scenario(
        "stop-elsewhere",
        "`distui stop` on another machine while all is well",
        plain(1, *LONG),
        truth("stopped", TERM, TERM, never=NO_BLAME),
        stop_from_elsewhere,
    ),
    Scenario(
        "stop-user-after-end-0",
        "rank 0 has said its last words and ended with 0; half a second later Ctrl-C",
        plain(1, "0:10:quit", *LONG),
        truth("stopped", "before 0", TERM, never=(*NO_BLAME, "stopped by distui .exit 0")),
        after("rank 0 done", 0.5),
    ),
    Scenario(
        "stop-user-while-failing",
        "rank 1 has raised and takes 4 s to end; 2 s after its traceback Ctrl-C",
        plain(1, "1:10:raise-linger:4", *LONG),
        truth("stopped", TERM, "first ?", first=[1], never=["rank 1 .*stopped by distui"]),
        after("bad batch 17", 2),
    ),
    Scenario(
        "stop-failure-term-0",
        "rank 1 raises; rank 0 catches the SIGTERM that follows and ends with 0",
        plain(1, "1:10:raise", "0:0:on-term:0", *LONG),
        truth("failed", "stopped 0", "first 1", first=[1]),
    ),
    Scenario(
        "stop-failure-term-1",
        "rank 2 ends with 3; ranks 0 and 1 catch the SIGTERM that follows and end with 1",
        plain(1, "2:10:exit:3", "0:0:on-term:1", "1:0:on-term:1", *LONG, hosts="h[1-3]"),
        truth("failed", "stopped 1", "stopped 1", "first 3", first=[2]),
    ),
    Scenario(
        "stop-timeout",
        "--timeout ends the run while both ranks are well",
        plain(1, *LONG),
        truth("stopped", TERM, TERM, never=NO_BLAME),
        flags=("--timeout", "12s"),
    ),
    Scenario(
        "stop-limit",
        "the job's max_duration ends the run while both ranks are well",
        plain(1, *LONG, max_duration="4s"),
        truth("stopped", "stopped ?", "stopped ?", never=NO_BLAME),
    ),
    Scenario(
        "stop-user-silent",
        "rank 1 hangs and says nothing for 3 s, then Ctrl-C",
        plain(1, "1:10:hang", *LONG, stall_after="3s"),
        truth("stopped", TERM, TERM, never=NO_BLAME, says=["rank 1", "silent|said nothing|quiet"]),
        when_silent,
    ),
    Scenario(
        "stop-timeout-silent",
        "rank 0 hangs and says nothing, then --timeout ends the run",
        plain(1, "0:10:hang", *LONG, stall_after="2s"),
        truth("stopped", TERM, TERM, never=NO_BLAME, says=["rank 0", "silent|said nothing|quiet"]),
        flags=("--timeout", "20s"),
    ),
    Scenario(
        "wait-one-failed",
        "on_fail: wait; rank 0 raises, rank 1 goes on and ends well",
        plain(1, "0:5:raise", "--steps", "30", on_fail="wait"),
        truth("failed", "first 1", "succeeded 0", first=[0], never=["rank 1 .*because"]),
    ),
    Scenario(
        "wait-one-failed-user-stops",
        "on_fail: wait; rank 0 raises, rank 1 goes on until Ctrl-C",
        plain(1, "0:5:raise", *LONG, on_fail="wait"),
        truth("stopped", "first 1", TERM, first=[0]),
        after("step 20", 0),
    ),
    Scenario(
        "outside-kill-9",
        "somebody kills rank 1's process with kill -9",
        plain(1, *LONG),
        truth("failed", TERM, "first SIGKILL", first=[1], cause="outside|kill", never=OUTSIDE),
        rank_kill("h2"),
    ),
    Scenario(
        "outside-docker-kill",
        "somebody calls docker kill for rank 0's container",
        plain(1, *LONG),
        truth("failed", "first SIGKILL", TERM, first=[0], never=OUTSIDE, says=["docker kill|docker stop"]),
        docker("h1", "kill"),
    ),
    Scenario(
        "outside-docker-stop",
        "somebody calls docker stop for rank 1's container",
        plain(1, *LONG),
        truth("failed", TERM, "first ?", first=[1], never=OUTSIDE, says=["docker kill|docker stop"]),
        docker("h2", "stop", "-t", "1"),
    ),
    Scenario(
        "outside-docker-rm",
        "somebody removes rank 1's container while it runs",
        plain(1, *LONG),
        truth("failed", TERM, "first ?", first=[1], never=OUTSIDE, says=["removed"]),
        docker("h2", "rm", "-f"),
    ),
    Scenario(
        "host-rebooted",
        "the second host's power is cut, it boots again; rank 0 is well",
        plain(1, *LONG),
        truth("failed", TERM, "first ?", first=[1], never=OUTSIDE, says=["restarted|rebooted"]),
        reboot("h2"),
    ),
    Scenario(
        "host-rebooted-of-three",
        "the first of three hosts is rebooted; four ranks on the others are well",
        plain(2, *LONG, hosts="h[1-3]"),
        truth("failed", "alike ?", "alike ?", *[TERM] * 4, first=[0, 1], never=OUTSIDE, says=["restarted|rebooted"]),
        reboot("h1"),
    ),
    Scenario(
        "engine-killed",
        "dockerd of the first host dies with all containers and is started again",
        plain(1, *LONG),
        truth("failed", "first ?", TERM, first=[0], never=OUTSIDE),
        kill_engine("h1"),
    ),
    Scenario(
        "stop-user-term-raise",
        "Ctrl-C; both ranks raise in their handler of SIGTERM",
        plain(1, "all:0:on-term:raise", *LONG),
        truth("stopped", "stopped 1", "stopped 1", never=NO_BLAME),
        interrupt,
    ),
    Scenario(
        "stop-failure-term-raise",
        "rank 1 raises; rank 0 raises in its handler of the SIGTERM that follows",
        plain(1, "0:0:on-term:raise", "1:10:raise", *LONG),
        truth("failed", "stopped 1", "first 1", first=[1]),
    ),
    Scenario(
        "outside-kill-term",
        "somebody kills rank 1's process with SIGTERM",
        plain(1, "1:10:signal:SIGTERM", *LONG),
        truth("failed", TERM, "first SIGTERM", first=[1], never=["stopped by distui .*rank 1"]),
    ),
    Scenario(
        "outside-kill-int",
        "rank 0 gets a SIGINT that nobody here sent",
        plain(1, "0:10:signal:SIGINT", *LONG),
        truth("failed", "first ?", TERM, first=[0]),
    ),
    Scenario(
        "stop-user-twice",
        "Ctrl-C twice: the second one kills the ranks, which ignore SIGTERM",
        job(1, "sh", "-c", "trap '' TERM; echo step 5; while :; do sleep 0.2; done", stop_grace="30s"),
        truth("stopped", "stopped SIGKILL", "stopped SIGKILL", never=(*NO_BLAME, "outside distui", "out of memory")),
        interrupt_twice,
    ),
    Scenario(
        "stop-kill",
        "`distui kill` in another terminal while all is well",
        plain(1, *LONG),
        truth("stopped", "stopped SIGKILL", "stopped SIGKILL", never=(*NO_BLAME, "outside distui", "out of memory")),
        kill_beside,
    ),
    Scenario(
        "stop-process-user",
        "engine process: Ctrl-C while both ranks are well",
        job(
            1,
            "python3",
            "/mnt/pytorch/programs/ends.py",
            "--meet",
            "/mnt/pytorch/meet",
            *LONG,
            image=None,
            volumes=None,
        ),
        truth("stopped", TERM, TERM, never=NO_BLAME),
        interrupt,
        engine="process",
    ),
)
