"""`distui schema`: JSON Schema for editors."""

from __future__ import annotations

from typing import Literal

import click

from distui.cli import console as consoles
from distui.cli.options import Choice, verb
from distui.cli.settings import settings_of


@verb("schema", outputs=("json",))
@click.argument("kind", type=Choice(["hosts", "job"]))
@click.pass_context
def command(ctx: click.Context, kind: Literal["hosts", "job"]) -> int:
    """Print the JSON Schema of hosts.yaml or of job files, for editors.

    \b
      distui schema job > .distui/job-v1.json
      # yaml-language-server: $schema=./.distui/job-v1.json
    The second line is the first one of the job file.
    """
    import json

    from distui.spec.schema import schema

    out = consoles.of(settings_of(ctx))
    out.print(json.dumps(schema(kind), ensure_ascii=False, indent=2))
    return 0
