"""`distui doctor`: what would break, where, and what to do about it."""

from __future__ import annotations

import click

from distui.cli.options import verb


@verb("doctor", "doctor", outputs=("json", "ndjson"))
@click.argument("sets", metavar="[SET]...", nargs=-1)
@click.option("--job", metavar="JOB", help="Also check that the job can be planned, its image and its data.")
@click.option("--env-file", multiple=True, metavar="F", help="Read variables, and the secrets of --job, from a file.")
@click.option("--only", multiple=True, metavar="CHECK", help="Only these checks (and login), by their names in --json.")
@click.option("--skip", multiple=True, metavar="CHECK", help="All but these checks.")
@click.option("--all", "all_", is_flag=True, help="Also show checks that passed.")
@click.option(
    "--smoke", is_flag=True, help="Also an all-reduce of 8 MB between neighbours, in --job's image; asks first."
)
@click.option("--bundle", metavar="F.tgz", help="Save everything in a file to share, without names and addresses.")
@click.option("--include-identifiers", is_flag=True, help="Keep names and addresses in the bundle.")
def command() -> None:
    """Check hosts: login, clock, engine, GPUs, networks, who reaches whom, ports, disk. Starts no container on them.

    --smoke does start containers, two for each pair of neighbours, and removes them. Exit code 0 when nothing failed
    (warnings may be), 3 when a check failed.
    """
