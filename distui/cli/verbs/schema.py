"""`distui schema`: JSON Schema for editors."""

from __future__ import annotations

import click

from distui.cli.options import Choice, verb


@verb("schema", "schema", outputs=("json",))
@click.argument("kind", type=Choice(["hosts", "job"]))
def command() -> None:
    """Print the JSON Schema of hosts.yaml or of job files, for editors.

    \b
      mkdir -p .distui
      distui schema job > .distui/job-v1.json
      # yaml-language-server: $schema=./.distui/job-v1.json
    Put the last line at the top of the job file.
    """
