"""`distui run`: plan, confirm, launch, follow."""

from __future__ import annotations

import click

from distui.cli.options import JOB, verb
from distui.cli.plan_options import DIFF_OPTIONS, FOLLOW_OPTIONS, PLAN_OPTIONS, with_options


@verb("run", "run", words=True, outputs=("json", "ndjson"))
@click.argument("job", type=JOB, required=False)
@click.option("--headless", is_flag=True, help="Without the terminal UI: logs on stdout.")
@click.option("--dry-run", is_flag=True, help="Print the plan and exit.")
@click.option("-d", "--detach", is_flag=True, help="Run in the background and print the run's name.")
@with_options(DIFF_OPTIONS, PLAN_OPTIONS, FOLLOW_OPTIONS)
@click.option("--no-preflight", is_flag=True, help="Skip the checks that hosts reach each other and have the data.")
@click.option("--force", is_flag=True, help="Start even if another run uses the same GPUs.")
@click.option("--exit-first", is_flag=True, help="Exit with the first failed rank's exit code instead of 1.")
@click.option("--keep", is_flag=True, help="Keep ended containers on the hosts until `distui stop`.")
def command() -> None:
    """Run a job: ask the hosts, plan, start the ranks in containers, follow the logs, report, clean up.

    \b
      distui run job.yaml --headless -y
      distui run job.yaml -H 'node[01-04]' -- --epochs 3     more arguments
      distui run -H 'node[01-02]' --image IMG --set code=./ -- python train.py

    On a terminal the run's view opens; quitting it leaves the run running unless you ask to stop it. Otherwise,
    and with --headless, stdout holds what the ranks print (`013 node02 | text`), or events with -o ndjson; distui's
    own messages go to stderr. Ctrl-C stops the run on all hosts, a second one kills it. A closed stdout (`| head`) does
    not end the run: it is followed quietly, and its logs are in its folder.
    """
