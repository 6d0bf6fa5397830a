"""Variables of the caller in a job file: `${VAR}`, `${VAR:-x}`, `$$` (compose's rules).

A `$` that is followed by neither `{` nor `$` stays as it is: it belongs to the shell on the host. To write `${VAR}`
for the host, write `$${VAR}`.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator, Mapping

from distui.regex import regex
from distui.spec.job.placeholders import PLACEHOLDERS
from distui.spec.yaml.core_schema import resolve
from distui.spec.yaml.nodes import Items, Node, Scalar, Table
from distui.spec.yaml.problems import Problems, Wrong, shown
from distui.spec.yaml.shapes import join

_NAME = regex(r"[A-Za-z_][A-Za-z0-9_]*")
_RULE = regex(r"(:?[-?+])(.*)", re.DOTALL)
_MAX_NESTED = 8


class _Unset(Wrong):
    """A variable that is not set and has no default."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the variable {name} is not set; set it, or write ${{{name}:-default}}")
        self.name = name


def expand_text(text: str, environ: Mapping[str, str], depth: int = 0) -> str:
    """`text` with the caller's variables put in. Raises Wrong for a variable that is not set and has no default."""
    if depth > _MAX_NESTED:
        raise Wrong("variables are nested too deeply")
    parts, at = [], 0
    while (dollar := text.find("$", at)) >= 0:
        parts.append(text[at:dollar])
        match text[dollar + 1 : dollar + 2]:
            case "$":
                parts.append("$")
                at = dollar + 2
            case "{":
                end = _closing(text, dollar)
                parts.append(_value(text[dollar + 2 : end], environ, depth))
                at = end + 1
            case _:
                parts.append("$")
                at = dollar + 1
    return "".join(parts) + text[at:]


def values_in(text: str, environ: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """`text` with each variable that has a value as `${NAME}`, and their names: what of the caller's would go into it.

    To be asked before `expand_node`. Nothing of a text that can't be expanded.
    """
    try:
        marked = expand_text(text, {name: value and f"${{{name}}}" for name, value in environ.items()})
    except Wrong:
        return text, ()
    names = dict.fromkeys(re.findall(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", marked))
    return marked, tuple(name for name in names if environ.get(name))


SECRETS = (("secrets",), ("data", "*", "secrets"), ("code", "token"))
"""Keys that name variables whose values are shown nowhere."""

PEERS = (("code", "git"), ("code", "ref"), ("data", "*", "url"), ("data", "*", "endpoint"), ("data", "*", "nfs"))
"""Keys whose text other machines get to see, some of them before anything was confirmed."""


def refuse_for_peers(root: Node, problems: Problems) -> None:
    """Note every variable in a key of PEERS: a job file may come from a stranger, and would send itself your values.

    To be called before `expand_node`, which leaves them alone then, also where an alias leads to them.
    """
    for keys in PEERS:
        for at, scalar in _at(root, keys, ""):
            if re.search(r"(?<!\$)(\$\$)*\$\{", scalar.text) and not scalar.noted:
                problems.add(scalar, at, "takes no variable of yours, since other machines see it; write it out, or "
                             f"give it by --set {at}=...")  # fmt: skip
                scalar.noted = True


def _at(node: Node | None, keys: tuple[str, ...], at: str) -> Iterator[tuple[str, Scalar]]:
    """The scalars at a path of keys, one or a list of them; `*` is every key."""
    if isinstance(node, Scalar) and not keys:
        yield at, node
    elif isinstance(node, Items) and not keys:
        yield from ((at, item) for item in node.items if isinstance(item, Scalar))
    elif isinstance(node, Table) and keys:
        for key in node.pairs if keys[0] == "*" else (keys[0],):
            yield from _at(node.get(key), keys[1:], join(at, key))


def refuse_secrets(root: Node, environ: Mapping[str, str], problems: Problems) -> None:
    """Note every place that would take the value of one of the job's secrets: plan, files and process lists show it.

    To be called before `expand_node`, which leaves them alone then.
    """
    secrets = {name.text for keys in SECRETS for _, name in _at(root, keys, "")}
    of_ranks = {name.text for _, name in _at(root, ("secrets",), "")}
    for at, scalar in _scalars(root, "", set()) if secrets else ():
        table, _, key = at.rpartition(".")
        named = {key} & of_ranks if table == "env" else set()  # a name that is in `env`, too, is refused for that
        taken = [] if scalar.noted else sorted(_taken(scalar.text, environ) & secrets - named)
        if taken:
            shown = f"takes the value of secret {taken[0]}, which the plan and process lists would show"
            problems.add(scalar, at, f"{shown}; {_instead(at, taken[0], of_ranks)}")
            scalar.noted = True


def _instead(at: str, name: str, of_ranks: Collection[str]) -> str:
    """What to write in place of a secret's value; only those in `secrets` are in the ranks' environment."""
    if name not in of_ranks:
        return "no rank gets it"
    if _in_command(at):
        return f"ranks have it in their environment: a shell of theirs takes $${{{name}}}"
    return "ranks have it in their environment; list the name that they need in `secrets`"


def _in_command(at: str) -> bool:
    return at.partition(".")[0].partition("[")[0] == "command"


def _for_ranks(wrong: Wrong) -> str:
    """What else may be meant by a variable that is not set here: one that the ranks have."""
    if not isinstance(wrong, _Unset):
        return ""
    filled = f"{{{wrong.name.lower()}}}, which distui fills in, or " if wrong.name.lower() in PLACEHOLDERS else ""
    return f"; the ranks' own is {filled}$${{{wrong.name}}} for a shell of theirs"


def _taken(text: str, environ: Mapping[str, str]) -> set[str]:
    """The variables whose values would go into a text; none of one that can't be expanded."""
    with contextlib.suppress(Wrong):
        marked = expand_text(text, {name: value and f"\0{name}\0" for name, value in environ.items()})
        return {*marked.split("\0")[1::2]}
    return set()


def expand_node(node: Node, environ: Mapping[str, str], problems: Problems) -> None:
    """Put variables into every value below `node` (not into keys), in place."""
    seen: set[int] = set()
    for at, scalar in _scalars(node, "", seen):
        if "$" in scalar.text and not scalar.noted:
            _expand(scalar, at, environ, problems)


def _expand(scalar: Scalar, at: str, environ: Mapping[str, str], problems: Problems) -> None:
    try:
        text = expand_text(scalar.text, environ)
    except Wrong as wrong:
        problems.add(scalar, at, wrong.message + (_for_ranks(wrong) if _in_command(at) else ""))
        scalar.noted = True
        return
    if text != scalar.text:
        scalar.value = resolve(text)
        scalar.text, scalar.loose = text, True
        if scalar.value is None:
            scalar.value = text


def _scalars(node: Node, at: str, seen: set[int]) -> Iterator[tuple[str, Scalar]]:
    """Every scalar below `node` once, with its dotted key; aliases lead to the same one."""
    if id(node) in seen:
        return
    seen.add(id(node))
    match node:
        case Scalar():
            yield at, node
        case Items():
            for i, child in enumerate(node.items):
                yield from _scalars(child, f"{at}[{i}]", seen)
        case Table():
            for key, (_, child) in node.pairs.items():
                yield from _scalars(child, join(at, key), seen)


def _closing(text: str, dollar: int) -> int:
    """Where the brace opened after `dollar` closes."""
    depth = 0
    for at in range(dollar + 1, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return at
    raise Wrong("${ is not closed; write $${ for a ${ that is meant for the host")


def _value(inside: str, environ: Mapping[str, str], depth: int) -> str:
    """The value of what stands between `${` and `}`."""
    name = _NAME.match(inside)
    rule = _RULE.fullmatch(inside, name.end()) if name else None
    if name is None or (rule is None and name.end() != len(inside)):
        raise Wrong(f"{shown('${' + inside + '}')} is not a variable; write $${{ for a ${{ meant for the host")
    value = environ.get(name[0])
    if rule is None:
        if value is None:
            raise _Unset(name[0])
        return value
    return _by_rule(rule[1], rule[2], name[0], value, environ, depth)


def _by_rule(rule: str, word: str, name: str, value: str | None, environ: Mapping[str, str], depth: int) -> str:
    """Compose's `:-`, `-`, `:+`, `+`, `:?` and `?`; with `:` an empty value counts as not set."""
    is_set = bool(value) if rule[0] == ":" else value is not None
    match rule[-1]:
        case "+":
            return expand_text(word, environ, depth + 1) if is_set else ""
        case "?" if not is_set:
            raise Wrong(f"the variable {name} is not set{': ' + word if word else ''}")
        case "-" if not is_set:
            return expand_text(word, environ, depth + 1)
    return value or ""
