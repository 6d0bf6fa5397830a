"""`distui job`: job files."""

from __future__ import annotations

import click

from distui.cli.app import Verbs
from distui.cli.options import Choice, add_globals, verb
from distui.cluster.jobs.job_templates import TEMPLATES


@click.group("job", cls=Verbs)
def _group() -> None:
    """Check, list, show and make job files. Nothing is contacted."""


command = add_globals(_group)


@verb("validate", "job.validate", outputs=("json",))
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
def validate() -> None:
    """Check job files: every problem with its line and column. Exit 2 when there is one.

    With an inventory the job's hosts must be in it; folders of this machine (`code`, `build`) must be there.
    """


@verb("ls", "job.ls", outputs=("json", "name"))
@click.argument("folder", required=False)
def ls() -> None:
    """List the jobs of this folder, or of FOLDER.

    Without FOLDER these are the *.yaml here that look like a job (with a key such as `command:`), and all in ./jobs and
    in the user's jobs folder.
    """


@verb("show", "job.show", outputs=("json",))
@click.argument("job")
def show() -> None:
    """Show a job as distui reads it, with every default filled in."""


@verb("new", "job.new")
@click.argument("file", required=False)
@click.option(
    "--template",
    type=Choice(list(TEMPLATES), {"gloo": "torch", "tf-mwms": "tf"}),
    default="torch",
    help="Kind of job [torch].",
)
def new() -> None:
    """Write a job file to begin with.

    It is printed without FILE, or with `-`; an existing file is left alone. A new job is for the first hosts of the
    inventory, where there is one. It runs as it is, with a small program in it that shows that the hosts talk, and
    mounts nothing of them: put your own in its place. The app's `n` begins with the same ones.
    """


for _verb in (validate, ls, show, new):
    command.add_command(_verb)
