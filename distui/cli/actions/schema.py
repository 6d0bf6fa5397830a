"""`distui schema`: JSON Schema for editors."""

from __future__ import annotations

import json
from typing import Literal

from distui.cli.console import Console
from distui.cli.settings import Settings
from distui.spec.schema import schema


def act(settings: Settings, out: Console, kind: Literal["hosts", "job"]) -> int:
    """See `schema --help`."""
    out.print(json.dumps(schema(kind), ensure_ascii=False, indent=2))
    return 0
