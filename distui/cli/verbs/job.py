"""`distui job`: job files."""

from __future__ import annotations

import click

from distui.cli.app import Verbs
from distui.cli.options import Choice, add_globals, verb
from distui.cluster.jobs.job_templates import TEMPLATES


@click.group("job", cls=Verbs)
def _group() -> None:
    """Check, list, show and create job files. No host is contacted."""


command = add_globals(_group)


@verb("validate", "job.validate", outputs=("json",))
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
def validate() -> None:
    """Check job files: every problem with its line and column. Exit 2 if there is one.

    With an inventory the job's hosts must be in it; folders of this machine (`code`, `build`) must exist.
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
    """Write a job file to start from.

    Without FILE, or with `-`, it is printed; an existing file is left alone. The job is for the first hosts of the
    inventory, if there is one. It runs as it is, with a small program in it that shows that the hosts can talk to each
    other, and mounts nothing of them: put your own program in its place. `n` in the terminal UI has the same templates.
    """


for _verb in (validate, ls, show, new):
    command.add_command(_verb)
