"""`distui config allow`, `forget`, `allowed`: what jobs may take from this machine."""

from __future__ import annotations

from distui.cli.console import Console
from distui.cli.settings import Settings
from distui.cluster.jobs.permit import consents
from distui.columns import table
from distui.config import tokens
from distui.consent import Ask, Kind
from distui.errors import NotFound
from distui.files import real
from distui.homes import expanded
from distui.plan.content.tree import readable


def allow(settings: Settings, out: Console, kind: Kind, what: str, to: str) -> int:
    """See `config allow --help`."""
    settings.refuse_readonly("config allow")
    ask = _ask(kind, what, to)
    consents(settings.cluster).remember(ask)
    out.say(f"allowed: {ask.kind} {ask.what} to {ask.to}; `distui config forget` takes it back")
    return 0


def forget(settings: Settings, out: Console, kind: Kind, what: str, to: str) -> int:
    """See `config forget --help`."""
    settings.refuse_readonly("config forget")
    ask = _ask(kind, what, to)
    if not consents(settings.cluster).forget(ask):
        raise NotFound(f"{ask.kind} {ask.what} to {ask.to} was not allowed", hint="`distui config allowed` lists all")
    out.say(f"no longer allowed: {ask.kind} {ask.what} to {ask.to}")
    return 0


def allowed(settings: Settings, out: Console) -> int:
    """See `config allowed --help`."""
    listed = [Ask("token", name, host) for name, host in settings["allow_tokens"]]
    listed += [Ask("folder", folder, "any job") for folder in settings["allow_folders"]]
    every = [*consents(settings.cluster).remembered(), *listed]
    if settings.json:
        out.json({"schema": "distui/allowed/v1", "allowed": [[a.kind, a.what, a.to] for a in every]})
        return 0
    out.print("\n".join(table(("KIND", "WHAT", "TO"), [(a.kind, readable(a.what), readable(a.to)) for a in every])))
    return 0


def _ask(kind: Kind, what: str, to: str) -> Ask:
    """The pair as jobs ask for it. Raises UsageError for what can't be one."""
    if kind == "token":
        (found,) = tokens(f"{what}@{to if '${' in to else to.lower()}") or (("", ""),)
        return Ask(kind, *found)
    return Ask(kind, str(real(expanded(what))), str(real(expanded(to))))
