"""Options that verbs share which plan a run or follow one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from distui.cli.options import RANKS, RUN, Choice, keep

F = TypeVar("F", bound=Callable[..., Any])


def _env_file(help: str) -> Callable[[Any], Any]:
    """`--env-file`, whose variables are in the settings of the call."""
    return click.option("--env-file", multiple=True, metavar="F", expose_value=False, callback=keep, help=help)


PLAN_OPTIONS = [
    click.option("--name", metavar="NAME", help="Name of the run [JOB-xxxx]."),
    click.option("--nnodes", type=click.IntRange(1), metavar="N", help="Use only the first N hosts."),
    click.option("--gpus-per-node", metavar="N|all", help="GPUs per host."),
    click.option("--image", metavar="IMG", help="Container image."),
    click.option(
        "-e", "--env", multiple=True, metavar="K=V", help="Variable for every rank; K alone passes yours through."
    ),
    _env_file("Read variables, and the job's secrets, from a file."),
    click.option("--set", "set_", multiple=True, metavar="A.B=V", help="Set any key of the job file."),
    click.option("--launcher", metavar="KIND", help="What starts the ranks: env, torchrun, tf, command."),
    click.option("--fabric", metavar="KIND", help="Network for the data: auto, ib, roce, tcp."),
    click.option("--master-port", type=click.IntRange(1, 65535), metavar="PORT", help="Port of the rendezvous."),
    click.option("--pull", metavar="WHEN", help="Pull the image: always, missing, never."),
    click.option("--on-fail", metavar="stop|wait", help="What to do with the other ranks when one fails."),
]
"""Flags that change the plan, shared by `plan` and `run`."""

DIFF_OPTIONS = [
    click.option("--diff", type=RUN, metavar="RUN", help="Show only what differs from that run's plan."),
]
"""Flags of a plan that is only shown."""

SECRET_OPTIONS = [
    _env_file("Read the values of the run's secrets from a file, to mask them."),
]
"""Flags of verbs that show or write down what a run says, as far as `run` has no others for it."""

FOLLOW_OPTIONS = [
    click.option("--log-to", type=Choice(["stdout", "none"]), default="stdout", help="Where logs are shown."),
    click.option("--rank", "ranks", type=RANKS, metavar="SET", help="Show only these ranks: 0,4-7."),
    click.option("--no-prefix", is_flag=True, help="Print lines without rank and host in front."),
    click.option("-t", "--timestamps", is_flag=True, help="Show when each line was printed (UTC)."),
]
"""Flags that change what is shown of a run, shared by `run` and `attach`."""


def with_options(*groups: Sequence[Callable[[F], F]]) -> Callable[[F], F]:
    """A decorator that adds groups of click options, in their order."""

    def decorate(function: F) -> F:
        for option in reversed([o for group in groups for o in group]):
            function = option(function)
        return function

    return decorate
