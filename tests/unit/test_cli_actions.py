"""Every verb has an action that takes what it gives: the one is imported only when the other is called."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module

import click
import pytest

from distui.cli.app import build
from distui.cli.options import Verb


def verbs(group: click.Group) -> Iterator[tuple[str, Verb]]:
    """All verbs, with those of groups."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from ((f"{name} {below}", found) for below, found in verbs(command))
        elif isinstance(command, Verb):
            yield name, command


ALL = dict(verbs(build()))


@pytest.mark.parametrize("name", ALL)
def test_an_action_takes_what_its_verb_gives(name: str) -> None:
    """Its own arguments by name, and the words after `--` where it has those."""
    verb = ALL[name]
    module, _, function = verb.does.partition(".")
    action = getattr(import_module(f"distui.cli.actions.{module}"), function or "act")
    given = {param.name for param in verb.params if param.expose_value} | ({"words"} if verb.takes_words else set())
    inspect.signature(action).bind("settings", "out", **dict.fromkeys(given, None))
    assert inspect.signature(action).return_annotation == "int"


def test_all_verbs_are_there() -> None:
    """Each of the table, and those of the groups among them."""
    assert len(ALL) >= 40
    assert {"run", "kill", "hosts add", "config allow", "image push"} <= ALL.keys()
