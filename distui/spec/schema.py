"""JSON Schema of the files, for editors, made from the same tables of keys that the readers use."""

from __future__ import annotations

from typing import Literal

from distui.spec.hosts.host_keys import INVENTORY
from distui.spec.job.job_keys import JOB
from distui.spec.yaml.shapes import Schema

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema(kind: Literal["hosts", "job"]) -> Schema:
    """The JSON Schema (draft 2020-12) of `hosts.yaml` or of one job."""
    if kind == "hosts":
        return _headed("distui hosts.yaml", INVENTORY.schema(variables=False))
    variable = {"type": "string", "pattern": r"\$\{", "description": "${VAR} or ${VAR:-default} of the caller."}
    return _headed("distui job", JOB.schema(variables=True)) | {"$defs": {"variable": variable}}


def _headed(title: str, body: Schema) -> Schema:
    return {"$schema": DIALECT, "title": title, **body}
