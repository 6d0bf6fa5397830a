"""`distui demo`: a real distributed training on two hosts made on this machine."""

from __future__ import annotations

import click

from distui.cli.options import verb

IMAGE = "pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime"


@verb("demo", "demo", outputs=("json", "ndjson"))
@click.option("--docker", is_flag=True, help="Use containers of this machine's Docker instead of plain processes.")
@click.option("--image", metavar="IMG", default=IMAGE, help="Image for --docker; it must have torch.")
@click.option("--epochs", type=click.IntRange(1, 1000), default=8, help="Passes over the data [8].")
@click.option("--hosts", "count", type=click.IntRange(1, 8), default=2, help="Number of hosts [2].")
@click.option("--headless", is_flag=True, help="Without the terminal UI: train, logs on stdout.")
def command() -> None:
    """Train a small network on handwritten digits over two ssh servers on loopback, one rank on each.

    Everything works as on real hosts: ssh, probe, plan, env files, start, logs, result, clean-up. Needs nothing but
    Python and torch. On a terminal the UI opens with these hosts and jobs to try; otherwise, and with --headless, the
    training runs at once.
    """
