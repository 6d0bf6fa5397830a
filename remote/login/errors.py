"""From asyncssh's and the system's exceptions to sentences that say what happened and what to do: the one place."""

from __future__ import annotations

import errno
import os
import shlex
import socket

import asyncssh

from distui.errors import HostAuthError, HostError, HostKeyError, HostUnreachable, SessionLost
from distui.files import reason as why
from distui.remote.config import Resolved
from distui.remote.login.keys import KeyRing
from distui.remote.login.known_hosts import Entry, KnownHost, fingerprint

_NO_ROUTE = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTDOWN})
_QUOTED = 160


def quoted(data: bytes) -> str:
    """What a host printed, short and harmless: control and invisible characters are spelled out."""
    text = data.decode("utf-8", "backslashreplace").strip()
    cut = text[:_QUOTED]
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)
    return f"'{shown}{'…' if len(text) > _QUOTED else ''}'"


def place(target: Resolved) -> str:
    """Where an alias leads, for messages: nothing to add when it is its own address on port 22."""
    if target.hostname == target.alias and target.port == 22:
        return target.alias
    address = f"[{target.hostname}]" if ":" in target.hostname else target.hostname
    return f"{target.alias} ({address}{'' if target.port == 22 else f':{target.port}'})"


def lost(host: str, exc: Exception | None) -> SessionLost:
    """A connection that worked is gone."""
    if isinstance(exc, asyncssh.ConnectionLost) and "keepalive" in str(exc).lower():
        reason = "it no longer answers"
    elif isinstance(exc, asyncssh.ChannelOpenError | None):
        reason = "the host closed it"
    else:
        reason = _reason(exc)
    message = f"lost the connection to {host}: {reason}"
    return SessionLost(host, message, hint=f"what runs there may still be running; look with `ssh {host} uptime`")


def unresolved(target: Resolved, exc: OSError, via: str) -> HostUnreachable:
    """The name has no address."""
    message = f"{target.alias}: there is no address for the name {target.hostname!r}{via}"
    hint = f"correct `addr` of {target.alias} in hosts.yaml or HostName in ~/.ssh/config, or look at your DNS"
    if isinstance(exc, socket.gaierror) and exc.errno == socket.EAI_AGAIN:
        message = f"{target.alias}: the name {target.hostname!r} can't be looked up now (DNS does not answer){via}"
    return HostUnreachable(target.alias, message, hint=hint, code="dns")


def no_connection(target: Resolved, exc: OSError) -> HostUnreachable:
    """TCP was refused or found no way."""
    name = target.alias
    if isinstance(exc, socket.gaierror):
        return unresolved(target, exc, "")
    if isinstance(exc, ConnectionRefusedError):
        message = f"{place(target)} refuses connections: no ssh server listens on port {target.port}"
        hint = f"start sshd there, or correct the port: `{target.ssh_v}`"
        return HostUnreachable(name, message, hint=hint, code="refused")
    if exc.errno in _NO_ROUTE:
        message = f"{place(target)} can't be reached: {_reason(exc)}"
        return HostUnreachable(
            name, message, hint="is it switched on, and are you on the right network?", code="no_route"
        )
    return HostUnreachable(name, f"{place(target)}: {_reason(exc)}", hint=f"try `{target.ssh_v}`")


def through_jump(target: Resolved, exc: asyncssh.ChannelOpenError, jump: str) -> HostUnreachable:
    """The jump host could not, or would not, connect on."""
    reason, name = exc.reason, target.alias
    low = reason.lower()
    via = f", says the jump host {jump}"
    if "refused" in low:
        message = f"{place(target)} refuses connections on port {target.port}{via}"
        return HostUnreachable(name, message, hint=f"start sshd there: `{target.ssh_v}`", code="refused")
    if "name" in low or "resolve" in low or "address" in low:
        return unresolved(target, OSError(), via)
    if exc.code == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED:
        message = f"the jump host {jump} does not forward connections (to {place(target)}): {reason}"
        return HostUnreachable(name, message, hint=f"sshd_config on {jump}: AllowTcpForwarding yes", code="no_route")
    code = "timeout" if "timed out" in low else "no_route"
    message = f"{place(target)} can't be reached{via}: {reason}"
    return HostUnreachable(name, message, hint=f"try `ssh {jump}` and from there `ssh {target.hostname}`", code=code)


def too_slow(target: Resolved, phase: str, seconds: float) -> HostUnreachable:
    """Nothing came of it within the connect limit; `phase` is tcp, banner or login."""
    where, name = place(target), target.alias
    match phase:
        case "tcp":
            what = f"{where} does not answer on port {target.port} (no TCP connection within {seconds:g} s)"
            hint = "is it switched on, and does a firewall drop connections?"
        case "banner":
            what = f"{where} takes the connection but says nothing within {seconds:g} s: no ssh greeting"
            hint = f"the port may belong to something else, or the host hangs: `{target.ssh_v}`"
        case _:
            what = f"{where} did not finish the login within {seconds:g} s"
            hint = f"slow DNS or directory service on the host? `{target.ssh_v}` shows where it waits"
    return HostUnreachable(name, what, hint=hint, code="timeout")


def not_ssh(target: Resolved, said: bytes) -> HostUnreachable:
    """Something else listens there."""
    message = f"{place(target)} does not speak ssh on port {target.port}: it said {quoted(said)}"
    return HostUnreachable(
        target.alias, message, hint="correct the port in hosts.yaml or ~/.ssh/config", code="not_ssh"
    )


def penalized(target: Resolved, said: bytes) -> HostUnreachable:
    """sshd >= 9.8 refuses an address for a while after failed logins (PerSourcePenalties)."""
    message = f"{place(target)} refuses us for a while: it said {quoted(said)}"
    hint = "failed logins from here earned a penalty (PerSourcePenalties); wait a minute before trying again"
    return HostUnreachable(target.alias, message, hint=hint, code="penalty")


def hung_up(target: Resolved, tries: int, exc: Exception | None) -> HostUnreachable:
    """The server closed every connection before saying anything useful."""
    message = f"{place(target)} closed the connection before the login, {tries} times: {_reason(exc)}"
    hint = f"too many logins at once (MaxStartups), or an allow-list that lacks us? `{target.ssh_v}`"
    return HostUnreachable(target.alias, message, hint=hint)


def broken(target: Resolved, exc: Exception) -> HostUnreachable:
    """The ssh handshake failed in another way."""
    name = target.alias
    if isinstance(exc, asyncssh.KeyExchangeFailed):
        message = f"{place(target)} and we share no algorithm: {_reason(exc)}"
        return HostUnreachable(name, message, hint=f"compare with `{target.ssh_v}`", code="not_ssh")
    return HostUnreachable(name, f"{place(target)}: {_reason(exc)}", hint=f"try `{target.ssh_v}`")


def refused_login(
    target: Resolved, ring: KeyRing, tried: list[str], methods: set[str], exc: Exception
) -> HostAuthError:
    """No key was good enough."""
    name = target.alias
    start = f"{place(target)} refuses the login as {target.user}"
    if "too many" in str(exc).lower():
        message = f"{start}: too many keys, it gave up after {', '.join(tried)}"
        hint = f"name the right key for {name} in ~/.ssh/config: IdentityFile and `IdentitiesOnly yes`"
        return HostAuthError(name, message, hint=hint)
    if ring.locked:
        keys = ", ".join(str(path) for path in ring.locked)
        message = f"{start}; the key {keys} has a passphrase and no ssh agent holds it{_tried(tried)}"
        return HostAuthError(
            name, message, hint=f"unlock it for this session: ssh-add {ring.locked[0]}", code="key_passphrase"
        )
    if ring.unreadable and not tried:
        message = f"{start}: the key can't be used: {'; '.join(ring.unreadable)}"
        return HostAuthError(name, message, hint=f"see `{target.ssh_v}`", code="key_unreadable")
    if ring.missing:
        start += f"; the key {', '.join(map(str, ring.missing))} that ssh's config names is not there"
    return HostAuthError(
        name, f"{start}{_tried(tried)}{_offers(methods)}", hint=_auth_hint(target, ring, tried, methods)
    )


def wants_more(target: Resolved, key: str, methods: set[str]) -> HostAuthError:
    """A key is only the first of what it wants: a one-time code, or a password, comes next."""
    more = " or ".join(sorted(methods - {"publickey"})) or "more"
    message = f"{place(target)} wants {more} besides a key, which distui never answers; the key {key} is taken"
    hint = (
        "have its administrator let that key in alone (AuthenticationMethods); hosts behind it can be reached through "
        f"a connection that you opened: ControlMaster for it, `ProxyCommand ssh -W %h:%p {target.alias}` for them"
    )
    return HostAuthError(target.alias, message, hint=hint)


def _auth_hint(target: Resolved, ring: KeyRing, tried: list[str], methods: set[str]) -> str:
    if methods and "publickey" not in methods:
        return f"it takes no keys: have its administrator set `PubkeyAuthentication yes`; see `{target.ssh_v}`"
    hint = f"install your public key: {target.ssh_copy_id}; or see `{target.ssh_v}`"
    if ring.agent_problem:
        hint = f"{ring.agent_problem}; {hint}"
    if ring.missing:
        hint = f"correct IdentityFile in ~/.ssh/config; else {hint}"
    elif not tried and not ring.candidates:
        hint = f"you have no key: ssh-keygen -t ed25519; then {hint}"
    return hint


def _tried(tried: list[str]) -> str:
    return f"; keys tried: {', '.join(tried)}" if tried else "; no key was tried"


def _offers(methods: set[str]) -> str:
    """The ways the server would take, when they are not ours."""
    if not methods:
        return ""
    return f"; it offers {', '.join(sorted(methods))}, and distui only logs in with keys (it never asks)"


def unknown_key(target: Resolved, kind: str, blob: bytes) -> HostKeyError:
    """Nobody has vouched for this host yet."""
    message = f"{place(target)} is not in known_hosts; it shows the {kind} key {fingerprint(blob)}"
    hint = (
        f"compare the fingerprint with the host's administrator, then log in once and accept it: `{target.ssh_accept}`"
    )
    return HostKeyError(target.alias, message, hint=hint, code="host_key_unknown")


def changed_key(target: Resolved, known: KnownHost, kind: str, blob: bytes) -> HostKeyError:
    """Another key than the one known: a new installation, or somebody in between."""
    old = _same_kind_first(known.keys, kind)
    message = (
        f"THE HOST KEY OF {place(target)} HAS CHANGED: it shows the {kind} key {fingerprint(blob)}, "
        f"but {old.place} says {old.kind} {old.print}; somebody may be in between"
    )
    hint = (
        f"if the host was reinstalled and its administrator confirms the new fingerprint, forget the old key: "
        f"ssh-keygen -R '{known.name}' -f {old.path}"
    )
    return HostKeyError(target.alias, message, hint=hint, code="host_key_changed")


def revoked_key(target: Resolved, known: KnownHost, kind: str, blob: bytes) -> HostKeyError:
    """A key that a known_hosts line says must not be used."""
    lines = ", ".join(entry.place for entry in known.revoked)
    message = f"{place(target)} shows the {kind} key {fingerprint(blob)}, which is revoked ({lines})"
    return HostKeyError(
        target.alias, message, hint="the host needs a new key; ask its administrator", code="host_key_revoked"
    )


def revoked_unseen(target: Resolved, known: KnownHost) -> HostKeyError:
    """A plain key that must not be used, of which only that is known: it is one of those revoked."""
    keys = ", ".join(f"{entry.kind} {entry.print} ({entry.place})" for entry in known.revoked)
    message = f"{place(target)} shows a key that is revoked: {keys}"
    return HostKeyError(
        target.alias, message, hint="the host needs a new key; ask its administrator", code="host_key_revoked"
    )


def bad_certificate(target: Resolved, reason: str) -> HostKeyError:
    """The host's certificate is not good: expired, for another name, revoked."""
    message = f"{place(target)} shows a host certificate that is not good: {reason}"
    return HostKeyError(target.alias, message, hint="ask whoever signs host keys (@cert-authority in known_hosts)")


def revoked_certificate(target: Resolved, known: KnownHost, reason: str) -> HostKeyError:
    """The certificate's key, or the key that signed it, must not be used."""
    lines = ", ".join(entry.place for entry in known.revoked)
    message = f"{place(target)} shows a host certificate with a revoked key ({lines}): {reason}"
    hint = "the host needs a new key; ask its administrator"
    return HostKeyError(target.alias, message, hint=hint, code="host_key_revoked")


def config_problem(host: str, exc: Exception) -> HostError:
    """ssh's own configuration can't be read."""
    return HostUnreachable(host, f"{host}: {exc}", hint=f"see `ssh -G {host}`", code="ssh_config")


def unreadable(host: str, exc: OSError) -> HostError:
    """A file of known_hosts that is there can't be read."""
    path = str(exc.filename or "known_hosts")
    hint = f"see its owner and mode: {shlex.join(('ls', '-ld', path))}"
    return HostUnreachable(host, f"{host}: {path} {why(exc)}", hint=hint, code="ssh_config")


def _same_kind_first(keys: tuple[Entry, ...], kind: str) -> Entry:
    return next((entry for entry in keys if entry.kind == kind), keys[0])


def _reason(exc: Exception | None) -> str:
    """An exception's own words without Python's decoration; the system's for its errors, as asyncio has others."""
    if isinstance(exc, OSError) and exc.strerror:
        number = exc.errno if not isinstance(exc, socket.gaierror) else None
        words = os.strerror(number) if number and number in errno.errorcode else exc.strerror
        return words[:1].lower() + words[1:]
    text = str(exc) if exc is not None else ""
    return text or (type(exc).__name__ if exc is not None else "no reason given")
