"""The help made from the registry: as rows for the overlay, as a table for the docs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from textwrap import wrap

from distui.tui.frame.actions import Action, Group
from distui.tui.frame.keys import keys_of
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette

MOST_ROWS = 14
"""Rows of a group that stay together where there is little room."""
ORDER: tuple[Group, ...] = ("View", "Logs", "Layout", "Move", "Global")

TITLES: Mapping[Group, str] = {
    "Move": "Move",
    "View": "Here",
    "Logs": "Logs",
    "Layout": "Layout",
    "Change": "Touches the hosts",
    "Global": "Everywhere",
}


def matches(action: Action, keys: Sequence[str], wanted: str) -> bool:
    """Whether all words typed into the help are in the action's keys, title, command, help or other names."""
    message = f"{' '.join(keys)} {action.title} :{action.command} {action.help} {action.id} {action.also}".lower()
    return all(word in message for word in wanted.lower().split())


def reachable(actions: Sequence[Action], keymap: Mapping[str, str]) -> tuple[Action, ...]:
    """The actions without those of which every key means another one that lies nearer to the focus.

    A list's own key that has nothing to tell (`enter`) only hands on to the view's: that one stands there.
    """
    found: dict[str, Action] = {}
    first: dict[str, Action] = {}
    for action in actions:
        keys = keys_of(action, keymap) if action.keys else ()
        before = first.get(keys[0]) if keys else None
        if before is not None and action.help and not before.help and keys_of(before, keymap) == keys:
            found.pop(before.id, None)
        elif keys and all(key in first for key in keys):
            continue
        found[action.id] = action
        first = dict.fromkeys(keys, action) | first
    return tuple(found.values())


def help_rows(
    actions: Sequence[Action], keymap: Mapping[str, str], palette: Palette, width: int, wanted: str = ""
) -> tuple[list[Line], list[Line]]:
    """The rows of the overlay: groups in columns, and what touches hosts, which stands apart below them."""
    shown = [(a, keys_of(a, keymap)) for a in actions if a.keys]
    shown = [(a, keys) for a, keys in shown if matches(a, keys, wanted)]
    if not shown:
        return [Line().put("nothing matches", palette.muted)], []
    columns = 2 if width >= 90 else 1
    cell = width // columns - 2
    blocks = [_block(group, shown, palette, cell) for group in ORDER]
    return _beside([b for b in blocks if b], columns, cell), _changes(shown, palette, width)


def short_rows(
    actions: Sequence[Action], keymap: Mapping[str, str], palette: Palette, width: int
) -> tuple[list[Line], list[Line]]:
    """The same on as few rows as it takes: names alone, pairs of keys together, what works everywhere last in a row."""
    shown = [(a, keys_of(a, keymap)) for a in actions if a.keys]
    columns = 3 if width >= 105 else 2 if width >= 70 else 1
    cell = width // columns - 2
    blocks = [block for group in ORDER if group != "Global" for block in _short_blocks(group, shown, palette, cell)]
    rows = _beside(blocks, columns, cell)
    if everywhere := [(a, keys) for a, keys in shown if a.group == "Global" and not a.changes]:
        words = [Line().put(keys[0], palette.key).gap(1).put(a.title, palette.muted) for a, keys in everywhere]
        rows += [Line(), Line().put(TITLES["Global"], palette.bold), *_flow(words, width)]
    if not (own := [(a, keys) for a, keys in shown if a.changes]):
        return rows, []
    chips = [Line().put(f" {keys[0]} ", palette.chip).gap(1).put(a.title, palette.text) for a, keys in own]
    return rows, [_changes_head(palette, width), *_flow(chips, width)]


def _flow(pieces: Sequence[Line], width: int) -> list[Line]:
    """Pieces one after the other, on as many rows as they take."""
    rows = [Line().gap(2)]
    for piece in pieces:
        if rows[-1].width > 2 and rows[-1].width + piece.width > width:
            rows.append(Line().gap(2))
        rows[-1].add(piece).gap(3)
    return rows


def _short_blocks(
    group: Group, shown: Sequence[tuple[Action, tuple[str, ...]]], palette: Palette, width: int
) -> list[list[Line]]:
    """A group as blocks of rows that are short enough to share columns evenly."""
    own = [(a, keys) for a, keys in shown if a.group == group and not a.changes]
    if not own:
        return []
    rows: list[tuple[str, str]] = []
    for action, keys in own:
        both = "" if action.help or not rows else _both(rows[-1][1], action.title)
        if both and len(rows[-1][0]) + len(keys[0]) + len(both) < width - 4:
            rows[-1] = (f"{rows[-1][0]} {keys[0]}", both)
        else:
            rows.append((keys[0], action.title))
    room = max(len(keys) for keys, _ in rows)
    lines = [Line().gap(2).put(keys, palette.key, width=room).gap(2).put(title, palette.muted) for keys, title in rows]
    parts = [lines[at : at + MOST_ROWS] for at in range(0, len(lines), MOST_ROWS)]
    return [[Line().put(TITLES[group], palette.bold), *(line.cut(width) for line in part), Line()] for part in parts]


def _both(one: str, other: str) -> str:
    """Two names of a pair as one: `next, previous match`, `half a page down, up`; "" when they are none."""
    first, second = one.split(), other.split()
    if (one, other) in (("down", "up"), ("first", "last"), ("right", "left")):
        return f"{one}, {other}"
    if "," in one or len(first) < 2 or len(first) != len(second):
        return ""
    if first[1:] == second[1:]:
        return f"{first[0]}, {other}"
    return f"{one}, {second[-1]}" if first[:-1] == second[:-1] else ""


def _block(group: Group, shown: Sequence[tuple[Action, tuple[str, ...]]], palette: Palette, width: int) -> list[Line]:
    own = [(a, keys) for a, keys in shown if a.group == group and not a.changes]
    if not own:
        return []
    lines = [Line().put(TITLES[group], palette.bold)]
    room = max(len(" ".join(keys[:2])) for _, keys in own)
    for action, keys in own:
        line = Line().gap(2).put(" ".join(keys[:2]), palette.key, width=room).gap(2)
        first, *more = wrap(_words(action), max(10, width - line.width)) or [""]
        lines.append(line.put(first, palette.muted).cut(width))
        lines += [Line().gap(room + 4).put(part, palette.muted).cut(width) for part in more]
    return [*lines, Line()]


def _words(action: Action) -> str:
    words = action.help or action.title
    return words[:1].lower() + words[1:].rstrip(".") if words[1:2].islower() else words.rstrip(".")


def _beside(blocks: Sequence[list[Line]], columns: int, width: int) -> list[Line]:
    """Blocks in columns, dealt so that the longest column is as short as it can be."""
    sizes = [len(block) for block in blocks]
    best = min(product(range(columns), repeat=len(blocks)), key=lambda dealt: _longest(sizes, dealt, columns))
    stacks: list[list[Line]] = [[] for _ in range(columns)]
    for block, at in zip(blocks, best, strict=True):
        stacks[at].extend(block)
    rows = []
    for number in range(max(map(len, stacks), default=0)):
        row = Line()
        for column, stack in enumerate(stacks):
            row.gap(column * (width + 3) - row.width)
            if number < len(stack):
                row.add(stack[number])
        rows.append(row)
    while rows and not rows[-1].plain.strip():
        rows.pop()
    return rows


def _longest(sizes: Sequence[int], dealt: Sequence[int], columns: int) -> int:
    return max(sum(size for size, at in zip(sizes, dealt, strict=True) if at == c) for c in range(columns))


def _changes(shown: Sequence[tuple[Action, tuple[str, ...]]], palette: Palette, width: int) -> list[Line]:
    own = [(a, keys) for a, keys in shown if a.changes]
    if not own:
        return []
    rows = [_changes_head(palette, width)]
    for action, keys in own:
        line = Line().gap(2).put(f" {keys[0]} ", palette.chip).gap(2).put(action.title, palette.text, width=16).gap(1)
        first, *more = wrap(_words(action) if action.help else "", max(10, width - line.width)) or [""]
        start = line.width
        rows.append(line.put(first, palette.muted).cut(width))
        rows += [Line().gap(start).put(part, palette.muted).cut(width) for part in more]
    return rows


def _changes_head(palette: Palette, width: int) -> Line:
    head = Line().put(TITLES["Change"], palette.bold)
    return head.rule(width - 20, palette.rule).gap(2).put("always asks first", palette.muted).cut(width)


def keys_table(places: Sequence[tuple[str, Sequence[Action]]]) -> str:
    """The tables of docs/tui.md: one for each place, as Markdown."""
    parts = []
    for title, actions in places:
        rows = [f"### {title}", "", "| keys | action | command | does |", "| --- | --- | --- | --- |"]
        for action in actions:
            keys = " ".join(f"`{key}`" for key in keys_of(action, {}))
            does = (action.help or action.title).rstrip(".") + (" (asks first)" if action.changes else "")
            command = f"`:{action.command}`" if action.command else ""
            rows.append(f"| {keys} | `{action.id}` | {command} | {does} |")
        parts.append("\n".join(rows).replace("`|`", "`\\|`"))
    return "\n\n".join(parts) + "\n"
