"""`distui serve`: the terminal UI in a browser."""

from __future__ import annotations

import click

from distui.cli.options import verb


@verb("serve", "serve")
@click.option("--port", type=click.IntRange(1, 65535), default=8000, metavar="N", help="Port on 127.0.0.1 [8000].")
@click.option("--public-url", metavar="URL", help="Its address behind a reverse proxy, such as https://ui.lab.")
def command() -> None:
    """Show the terminal UI in a browser of this machine, until Ctrl-C.

    It listens on 127.0.0.1 only and prints an address with a token: whoever has it can do what you can, unless
    --readonly is given. From another machine, go through ssh (`ssh -L 8000:127.0.0.1:8000 HERE`), or put a
    reverse proxy that authenticates its users in front of it. Each visit starts a process of its own; closing the page
    leaves runs running. What needs a real terminal (a shell on a host, $EDITOR) is off. Needs the extra
    `distui[serve]`.
    """
