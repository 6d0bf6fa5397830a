"""`distui why`: which rank holds the others up, and where in the code."""

from __future__ import annotations

from pathlib import Path

import click

from distui.cli.options import RUN, verb
from distui.cli.plan_options import SECRET_OPTIONS, with_options


@verb("why", "why", outputs=("json",))
@click.argument("run", type=RUN)
@click.option("--stacks", is_flag=True, help="Also print each rank's Python stack, equal ones together.")
@click.option(
    "--save",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Save all answers of the ranks in a new folder.",
)
@with_options(SECRET_OPTIONS)
def command() -> None:
    """Say why a run hangs or is slow: which rank has not entered which collective or is late, and what it does.

    Its ranks are asked over ssh and keep running: where each is in its collectives (torch.distributed),
    its Python stack (also of JAX and TensorFlow; neither with `insight: off` in the job), and what its kernel says.
    """
