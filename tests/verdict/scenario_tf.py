"""Endings of TensorFlow's tasks: workers of a real strategy, and chiefs, parameter servers and evaluators."""

from __future__ import annotations

from typing import Any

from verdict.scenario import Scenario, truth
from verdict.scenario_stops import NO_BLAME, TERM

REAL = {"image": "lab/tensorflow:1", "flags": ["--tensorflow"]}
ROLES = {"chief": {"count": 1}, "worker": {"count": 2}, "ps": {"count": 1}, "evaluator": {"count": 1}}
"""Numbered in this order: chief 0, workers 1 and 2, parameter server 3, evaluator 4."""


def tf(*actions: str, image: str = "lab/python:1", flags: list[str] | None = None, **keys: Any) -> dict[str, Any]:
    """A job of launcher `tf` on two hosts."""
    given = {"version": 1, "name": "ending", "hosts": "h[1-2]", "launcher": "tf", "image": image, "stop_grace": "3s"}
    command = ["python3", "/pytorch/programs/roles.py", *(flags or ()), *actions]
    return given | {"volumes": ["/mnt/pytorch:/pytorch"], "command": command} | keys


def interrupt(stage: Any) -> None:
    """Ctrl-C while all tasks work."""
    stage.said("works", 6)
    stage.interrupt()


TF = (
    Scenario(
        "tf-worker-raises",
        "MultiWorkerMirroredStrategy: worker 1 of 2 raises, worker 0 loses its collective",
        tf("worker/1:1:raise", **REAL),
        truth("failed", "followed|stopped ?", "first 1", first=[1]),
    ),
    Scenario(
        "tf-chief-worker-raises",
        "MultiWorkerMirroredStrategy: worker 0 of 2 raises, worker 1 loses its collective",
        tf("worker/0:1:raise", **REAL),
        truth("failed", "first 1", "followed|stopped ?", first=[0]),
    ),
    Scenario(
        "tf-worker-killed",
        "MultiWorkerMirroredStrategy: worker 1 of 2 is killed with SIGKILL",
        tf("worker/1:1:kill", **REAL),
        truth(
            "failed", "followed|stopped ?", "first SIGKILL", first=[1], cause="outside|kill", never=["out of memory:"]
        ),
    ),
    Scenario(
        "tf-succeeds",
        "MultiWorkerMirroredStrategy: both workers end well",
        tf("--seconds", "1", **REAL),
        truth("succeeded", "succeeded 0", "succeeded 0"),
    ),
    Scenario(
        "tf-roles-chief-done",
        "the chief is done and ends with 0; workers, parameter server and evaluator are stopped",
        tf("chief/0:3:exit:0", roles=ROLES),
        truth("succeeded", "succeeded 0", *[TERM] * 4, never=NO_BLAME),
    ),
    Scenario(
        "tf-roles-chief-raises",
        "the chief raises, all others are stopped",
        tf("chief/0:3:raise", roles=ROLES),
        truth("failed", "first 1", *[TERM] * 4, first=[0]),
    ),
    Scenario(
        "tf-roles-ps-raises",
        "the parameter server raises, all others work on",
        tf("ps/0:3:raise", roles=ROLES),
        truth("failed", *[TERM] * 3, "first 1", TERM, first=[3]),
    ),
    Scenario(
        "tf-roles-evaluator-raises",
        "the evaluator raises, all others work on",
        tf("evaluator/0:3:raise", roles=ROLES),
        truth("failed", *[TERM] * 4, "first 1", first=[4]),
    ),
    Scenario(
        "tf-roles-stop-user",
        "Ctrl-C while chief, workers, parameter server and evaluator work",
        tf(roles=ROLES),
        truth("stopped", *[TERM] * 5, never=NO_BLAME),
        interrupt,
    ),
    Scenario(
        "tf-roles-done-term-1",
        "the chief is done; the parameter server and the workers end with 1 on the SIGTERM that follows",
        tf("chief/0:3:exit:0", "ps/0:0:on-term", "worker/0:0:on-term", "worker/1:0:on-term", roles=ROLES),
        truth("succeeded", "succeeded 0", "stopped 1", "stopped 1", "stopped 1", TERM, never=NO_BLAME),
    ),
)
