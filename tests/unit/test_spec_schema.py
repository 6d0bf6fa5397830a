"""The JSON Schemas accept what the readers accept, key by key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml

from distui.spec.hosts.host_keys import INVENTORY
from distui.spec.job.job import Job
from distui.spec.job.job_keys import JOB
from distui.spec.schema import schema
from distui.spec.yaml.shapes import ByKind, ListOf, MapOf, Record, Shape

ROOT = Path(__file__).parents[2]
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}
KNOWN = {
    "$schema", "$defs", "$ref", "title", "description", "default", "type", "properties", "required", "const", "enum",
    "patternProperties", "additionalProperties", "propertyNames", "items", "minItems", "minProperties",
    "maxProperties", "minimum", "maximum", "pattern", "anyOf", "not",
}  # fmt: skip


def faults(value: Any, rule: Any, root: Any, at: str = "") -> Iterator[str]:
    """Why `value` does not fit a schema: the part of draft 2020-12 that ours use."""
    if "$ref" in rule:
        yield from faults(value, root["$defs"][rule["$ref"].rpartition("/")[2]], root, at)
    if "anyOf" in rule and all(list(faults(value, r, root, at)) for r in rule["anyOf"]):
        yield f"{at}: fits none of {len(rule['anyOf'])}"
    if "not" in rule and not list(faults(value, rule["not"], root, at)):
        yield f"{at}: excluded"
    if "const" in rule and value != rule["const"]:
        yield f"{at}: not {rule['const']}"
    if "enum" in rule and value not in rule["enum"]:
        yield f"{at}: not in {rule['enum']}"
    yield from typed_faults(value, rule, at)
    match value:
        case dict():
            yield from object_faults(value, rule, root, at)
        case list():
            for i, item in enumerate(value):
                yield from faults(item, rule.get("items", {}), root, f"{at}[{i}]")


def typed_faults(value: Any, rule: Any, at: str) -> Iterator[str]:
    kinds = rule.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    fits = [k for k in kinds if isinstance(value, TYPES[k]) and (k == "boolean" or not isinstance(value, bool))]
    if kinds and not fits:
        yield f"{at}: {value!r} is not {kinds}"
    if isinstance(value, str) and not re.search(rule.get("pattern", ""), value):
        yield f"{at}: {value!r} does not match {rule['pattern']}"
    if isinstance(value, int | float) and not rule.get("minimum", value) <= value <= rule.get("maximum", value):
        yield f"{at}: {value} out of bounds"
    if isinstance(value, list) and len(value) < rule.get("minItems", 0):
        yield f"{at}: too few items"


def object_faults(value: dict[str, Any], rule: Any, root: Any, at: str) -> Iterator[str]:
    if not rule.get("minProperties", 0) <= len(value) <= rule.get("maxProperties", len(value)):
        yield f"{at}: wrong number of keys"
    yield from (f"{at}: lacks {k}" for k in rule.get("required", ()) if k not in value)
    for key, item in value.items():
        yield from faults(key, rule.get("propertyNames", {}), root, f"{at}.{key}")
        if key in rule.get("properties", {}):
            yield from faults(item, rule["properties"][key], root, f"{at}.{key}")
        elif not any(re.search(p, key) for p in rule.get("patternProperties", ())):
            other = rule.get("additionalProperties", {})
            yield from [f"{at}.{key}: unknown"] if other is False else faults(item, other, root, f"{at}.{key}")


def words(rule: Any) -> Iterator[str]:
    """Every keyword a schema uses; the names of properties are not keywords."""
    for word, value in rule.items():
        yield word
        if word in ("properties", "patternProperties", "$defs"):
            for below in value.values():
                yield from words(below)
        elif word in ("items", "additionalProperties", "propertyNames", "not") and isinstance(value, dict):
            yield from words(value)
        elif word == "anyOf":
            for below in value:
                yield from words(below)


@pytest.mark.parametrize(
    ("path", "kind"),
    [("hosts.yaml", "hosts"), *((f"jobs/{path.name}", "job") for path in sorted((ROOT / "jobs").glob("*.yaml")))],
)
def test_the_examples_fit_their_schema(path: str, kind: Literal["hosts", "job"]) -> None:
    """What distui runs an editor does not underline."""
    rules = schema(kind)
    assert list(faults(yaml.safe_load((ROOT / path).read_text()), rules, rules)) == []


@pytest.mark.parametrize("kind", ["hosts", "job"])
def test_schemas_are_json_and_use_only_what_this_test_checks(kind: Literal["hosts", "job"]) -> None:
    """They can be printed, and no keyword is there that the checker above would pass over."""
    rules = schema(kind)
    assert json.loads(json.dumps(rules)) == rules
    assert rules["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert set(words(rules)) <= KNOWN


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("hosts", "version: 2\nhosts: {a: }"),
        ("hosts", "version: 1"),
        ("hosts", "version: 1\nhosts: {a: {prot: 22}}"),
        ("hosts", "version: 1\nhosts: {a: {port: 0}}"),
        ("hosts", "version: 1\nhosts: {a: {gpus: many}}"),
        ("hosts", "version: 1\nhosts: {a: {gpus: [x]}}"),
        ("hosts", "version: 1\nhosts: {a: {}}\ngroups: {all: a}"),
        ("job", "version: 1"),
        ("job", "version: 1\nname: A b"),
        ("job", "version: 1\nname: a\nroles: {wroker: {}}"),
        ("job", "version: 1\nname: a\nlauncher: mpi"),
        ("job", "version: 1\nname: a\nranks: {per_host: 1, per_gpu: 1}"),
        ("job", "version: 1\nname: a\nranks: {a: 2}"),
        ("job", "version: 1\nname: a\ncommand: []"),
        ("job", "version: 1\nname: a\nfabric: {kind: infiniband}"),
        ("job", "version: 1\nname: a\nulimits: {memlok: -1}"),
        ("job", "version: 1\nname: a\nenv: {A-B: 1}"),
        ("job", "version: 1\nname: a\nstop_grace: long"),
    ],
)
def test_schemas_refuse_what_the_readers_refuse(kind: Literal["hosts", "job"], text: str) -> None:
    """An editor shows the slip before distui does."""
    rules = schema(kind)
    assert list(faults(yaml.safe_load(text), rules, rules))


def test_variables_may_stand_for_any_single_value() -> None:
    """${PORT} is text to YAML and a number to the reader."""
    rules = schema("job")
    job = {"version": 1, "name": "${N}", "master_port": "${P}", "ranks": {"per_host": "${R}"}, "env": {"A": "${A}"}}
    assert list(faults(job, rules, rules)) == []


def records(shape: Shape) -> Iterator[Record]:
    """Every mapping with known keys below a shape."""
    match shape:
        case Record():
            yield shape
            for key in shape.keys:
                yield from records(key.shape)
        case MapOf():
            yield from records(shape.value)
        case ListOf():
            yield from records(shape.item)
        case ByKind():
            for below in shape.shapes:
                yield from records(below)


@pytest.mark.parametrize("top", [INVENTORY, JOB])
def test_every_key_that_is_read_is_in_the_schema_with_a_description(top: Record) -> None:
    """One table gives both; no key is undocumented, doubled, or hinted at as unknown."""
    for record in records(top):
        names = [k.name for k in record.keys]
        rules = record.schema(variables=False)
        assert list(rules["properties"]) == names
        assert len(set(names)) == len(names)
        assert all(len(rules["properties"][n]["description"]) > 5 for n in names)
        assert not set(names) & set(record.hints)


def test_every_field_of_a_job_has_its_key() -> None:
    """A field nobody can write, or a key nobody reads, would be a bug; two say where the others come from."""
    fields = set(Job.__dataclass_fields__) - {"path", "image_variables"}
    assert {k.field or k.name for k in JOB.keys} == fields | {"version"}
    assert {k.name for k in INVENTORY.keys} == {"version", "defaults", "hosts", "groups"}
