"""Every place of the app and its actions: for the keys table of the docs, and for checks over all of them.

`python -m distui.tui.registry` writes the table into docs/tui.md; a test says when that was forgotten.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from pathlib import Path

from distui.tui.app import DistuiApp, Keymap
from distui.tui.frame.actions import Action
from distui.tui.frame.keys import is_key, key_name, key_word

PANES = "Panes of logs"
_EVERYWHERE = frozenset({"Lists", PANES, "Everywhere"})
BEGIN, END = "<!-- keys: written by `python -m distui.tui.registry` -->", "<!-- end of keys -->"


def places() -> tuple[tuple[str, tuple[Action, ...]], ...]:
    """Title and actions of every place, the app's own last."""
    from distui.tui.dialogs.text import TextScreen
    from distui.tui.doctor.screen import DoctorScreen
    from distui.tui.first.screen import FirstScreen
    from distui.tui.frame.bars import FilterBar
    from distui.tui.frame.commands import CommandBar
    from distui.tui.hosts.container_log import ContainerLogScreen
    from distui.tui.hosts.detail import HostDetailScreen
    from distui.tui.hosts.screen import HostsScreen
    from distui.tui.launch.form.form_field import TypingInput
    from distui.tui.launch.form.form_yaml import JobText
    from distui.tui.launch.jobs import JobsScreen
    from distui.tui.launch.screen import LaunchScreen
    from distui.tui.metrics.screen import MetricsScreen
    from distui.tui.problems.screen import ProblemsScreen
    from distui.tui.run.screen import RunScreen
    from distui.tui.runs.compare_screen import CompareScreen
    from distui.tui.runs.screen import RunsScreen
    from distui.tui.why.screen import WhyScreen
    from distui.tui.widgets.rows import RowList

    found = {
        "Hosts": HostsScreen, "One host": HostDetailScreen, "Jobs": JobsScreen, "Launch": LaunchScreen,
        "Runs": RunsScreen, "One run": RunScreen, "Why": WhyScreen, "Metrics": MetricsScreen, "Compare": CompareScreen,
        "Doctor": DoctorScreen, "Problems": ProblemsScreen, "A text": TextScreen,
        "A container's log": ContainerLogScreen, "First start": FirstScreen,
        "A field of the form": TypingInput, "The text of a job": JobText,
        "A filter": FilterBar, "A command": CommandBar,
        "Lists": RowList, "Everywhere": DistuiApp,
    }  # fmt: skip
    return tuple((title, _actions(kind)) for title, kind in found.items())


def _actions(kind: type) -> tuple[Action, ...]:
    """The actions a class and those it is made from declare, each id once."""
    found: dict[str, Action] = {}
    for one in kind.__mro__:
        for action in one.__dict__.get("ACTIONS", ()):
            found.setdefault(action.id, action)
    return tuple(found.values())


def keymap_of(keymap: Mapping[str, str]) -> Keymap:
    """The keys of the config file as the app takes them."""
    if not keymap:
        return {}, ()
    good, wrong = checked_keymap(keymap)
    made = with_keys_taken(good)
    return made, (*wrong, *conflicts(good, made))


def checked_keymap(keymap: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The entries that may be used, and what is wrong with the others in words."""
    known = {action.id: action for _, actions in places() for action in actions}
    good, wrong = {}, []
    for name, keys in keymap.items():
        action = known.get(name)
        if action is None:
            near = difflib.get_close_matches(name, known, n=1)
            wrong.append(f"keymap: there is no action {name}" + (f"; did you mean {near[0]}?" if near else ""))
        elif action.changes and not all(len(key) == 1 and key.isupper() for key in keys.split(",")):
            wrong.append(f"keymap: {name} touches hosts or runs: its key stays an uppercase letter, not {keys}")
        elif odd := [key for key in _keys(keys) if not is_key(key)]:
            wrong.append(f"keymap: {name}: there is no key {odd[0]}")
        else:
            good[name] = ",".join(_keys(keys))
    return good, tuple(wrong)


def conflicts(asked: Mapping[str, str], keymap: Mapping[str, str]) -> tuple[str, ...]:
    """Keys that the config file gives to an action though others of the same place have no other key, in words."""
    found: dict[tuple[str, str], set[str]] = {}
    for title, actions in _rooms():
        here = {action.id: action for action in actions}
        for name, other in ((n, o) for n in asked for o in here if o != n and _meet(n, title)):
            shared = set(_keys(keymap[name])) & set(_keys(keymap.get(other, ",".join(here[other].keys))))
            for key in shared:
                found.setdefault((key, title), set()).update((name, other))
    conflicts: dict[str, list[set[str]]] = {}
    words = []
    for (key, title), names in found.items():
        if not any(names <= before for before in conflicts.setdefault(key, [])):
            conflicts[key].append(names)
            *first, last = sorted(names)
            words.append(f"keymap: {key_word(key)} is {', '.join(first)} and {last} ({title}): only one can be meant")
    return tuple(words)


def _keys(text: str) -> list[str]:
    return [key_name(key.strip()) for key in text.split(",") if key.strip()]


def _rooms() -> tuple[tuple[str, tuple[Action, ...]], ...]:
    """Every place, and the panes of logs, which are in one of them."""
    from distui.tui.logs.pane import Pane

    return (*places(), (PANES, _actions(Pane)))


def _meet(name: str, title: str) -> bool:
    """Whether an action can be meant where the actions of a place are."""
    homes = {home for home, actions in _rooms() for action in actions if action.id == name}
    return bool({title, *homes} & _EVERYWHERE) or title in homes


def with_keys_taken(keymap: Mapping[str, str]) -> dict[str, str]:
    """The keymap, and the actions that lose a key to it: what lies nearer to the focus would win otherwise.

    An action that has no other key keeps it.
    """
    found = dict(keymap)
    for title, actions in _rooms():
        near = {name: _keys(keys) for name, keys in keymap.items() if _meet(name, title)}
        for action in actions:
            taken = {key for name, keys in near.items() if name != action.id for key in keys}
            left = [key for key in action.keys if key not in taken]
            if action.id not in keymap and left and len(left) < len(action.keys):
                found[action.id] = ",".join(left)
    return found


def with_table(page: str) -> str:
    """The page with its keys table as the registry has it."""
    from distui.tui.frame.help import keys_table

    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{keys_table(places())}\n{END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/tui.md")
    path.write_text(with_table(path.read_text("utf-8")), "utf-8")
