"""A task of launcher `tf` that ends as it is told: `roles.py ps/0:3:raise chief/0:5:exit:0`.

Each action is ROLE/INDEX:SECONDS:NAME[:ARGUMENT]; without one a task goes on for --seconds and ends well. With
--tensorflow the workers sum a value by MultiWorkerMirroredStrategy all the time. TF_CONFIG says who this is.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable


def main() -> None:
    """Be the task that TF_CONFIG names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--tensorflow", action="store_true")
    parser.add_argument("actions", nargs="*")
    options = parser.parse_args()
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    me = f"{task['type']}/{task['index']}"
    step = reducing() if options.tensorflow else lambda: time.sleep(0.2)
    print(f"{me} begins", flush=True)
    step()
    began = time.monotonic()
    if any(action == f"{me}:0:on-term" for action in options.actions):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    mine = [action.split(":", 3)[1:] for action in options.actions if action.split(":")[0] == me]
    while time.monotonic() < began + options.seconds:
        for at, name, *argument in mine:
            if time.monotonic() >= began + float(at):
                print(f"{me} does {name}", flush=True)
                act(name, *argument)
        step()
        print(f"{me} works", flush=True)
    print(f"{me} done", flush=True)


def reducing() -> Callable[[], None]:
    """One collective of TensorFlow among all workers."""
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    @tf.function
    def total() -> object:
        return strategy.reduce("SUM", strategy.run(lambda: tf.constant(1.0)), axis=None)

    def step() -> None:
        print(f"sum {float(total())}", flush=True)
        time.sleep(0.2)

    return step


def act(name: str, argument: str = "") -> None:
    """One way to end."""
    match name:
        case "raise":
            raise ValueError(argument or "bad record in part-00017.tfrecord")
        case "exit":
            sys.exit(int(argument or 0))
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "on-term":
            return
        case "hang":
            time.sleep(600)


main()
