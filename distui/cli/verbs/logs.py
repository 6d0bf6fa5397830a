"""`distui logs`: what the ranks of a run printed."""

from __future__ import annotations

import click

from distui.cli.options import RANKS, RUN, verb
from distui.cli.plan_options import SECRET_OPTIONS, with_options


@verb("logs", "logs")
@click.argument("run", type=RUN)
@click.option("-f", "--follow", is_flag=True, help="Print new lines as they arrive, until the run ends.")
@click.option("--rank", "ranks", type=RANKS, metavar="SET", help="Only these ranks: 0,4-7.")
@click.option("-n", "--tail", type=click.IntRange(0), metavar="N", help="The last N lines of each rank.")
@click.option("-t", "--timestamps", is_flag=True, help="Show when each line was printed (UTC).")
@click.option("--since", metavar="WHEN", help="Lines since 5m, 2h or 2026-01-31T12:00:00Z.")
@click.option("--until", metavar="WHEN", help="Lines before WHEN.")
@click.option("--grep", metavar="RX", help="Lines that match a regular expression.")
@click.option("--stderr", "stderr_only", is_flag=True, help="Only what went to stderr.")
@click.option("--no-prefix", is_flag=True, help="Print lines without rank and host in front.")
@click.option("--merge/--no-merge", help="All ranks in one log, ordered by time, on one clock.")
@click.option("--save", metavar="PATH", help="Save to a folder, one file per rank; with --merge, to one file.")
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="An earlier attempt of a run with retries.")
@with_options(SECRET_OPTIONS)
def command() -> None:
    """Print the logs of a run: rank after rank, or with -f as the lines arrive.

    Logs of an ended run, or of one that this machine follows, are read from files here; those of any other run from
    its hosts, whoever started it. Files here hold a rank's output byte for byte and the time of each line by this
    machine's clock, but do not distinguish stdout from stderr: --stderr asks the hosts, whose times are by their own
    clocks; --merge corrects them. Ctrl-C ends only this command, not the run.
    """
