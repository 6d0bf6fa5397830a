"""Strict YAML: what values mean, where problems are, and that nothing hostile gets through."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from distui.errors import ExitCode, Problem, SpecError
from distui.spec.yaml import document, files
from distui.spec.yaml.core_schema import resolve
from distui.spec.yaml.document import parse
from distui.spec.yaml.nodes import Items, Node, Scalar, Source, Table
from distui.spec.yaml.problems import Problems, render


def parsed(text: str) -> list[Node]:
    """The documents of a text that has no problem."""
    problems = Problems()
    documents = parse(Source("f.yaml", text), problems)
    problems.raise_any()
    return documents


def plain(node: Node) -> Any:
    """A tree as plain values."""
    match node:
        case Scalar():
            return node.value
        case Items():
            return [plain(n) for n in node.items]
        case Table():
            return {k: plain(v) for k, (_, v) in node.pairs.items()}


def problem_of(text: str) -> Problem:
    """The only problem of a text."""
    problems = Problems()
    parse(Source("f.yaml", text), problems)
    (found,) = problems.error().problems
    return found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("22:22", "22:22"),
        ("017", 17),
        ("0o17", 15),
        ("0x1F", 31),
        ("no", "no"),
        ("on", "on"),
        ("y", "y"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("null", None),
        ("3.10", 3.1),
        ("1e3", 1000.0),
        ("-.5", -0.5),
        (".inf", float("inf")),
        ("-.INF", float("-inf")),
        ("1_000", "1_000"),
        ("0b11", "0b11"),
        ("2001-01-01", "2001-01-01"),
        ("=", "="),
        ("+", "+"),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_plain_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    """A port pair is not a number of base 60, a leading zero is not octal, `no` is a word."""
    assert resolve(text) == value
    assert type(resolve(text)) is type(value)


def test_quoted_and_block_scalars_are_text() -> None:
    """Quotes and block style make text of anything."""
    (root,) = parsed("a: '1'\nb: \"true\"\nc: |\n  1\nd: !!str 5\n")
    assert plain(root) == {"a": "1", "b": "true", "c": "1\n", "d": "5"}


def test_what_was_written_is_kept_beside_the_value() -> None:
    """3.10 is the number 3.1, but nobody who wrote a version has to lose the zero."""
    (root,) = parsed("v: 3.10")
    assert isinstance(root, Table)
    node = root.get("v")
    assert isinstance(node, Scalar)
    assert (node.text, node.value, node.line, node.column) == ("3.10", 3.1, 1, 4)


def test_documents_are_separate_and_empty_ones_are_left_out() -> None:
    """`---` divides; a trailing `---` is no document."""
    assert [plain(d) for d in parsed("---\na: 1\n---\n---\nb: 2\n---\n")] == [{"a": 1}, {"b": 2}]


def test_byte_order_mark_at_the_start_is_fine() -> None:
    """Editors on Windows write one."""
    assert plain(parsed("\ufeffa: 1")[0]) == {"a": 1}


def test_anchors_and_merge_keys() -> None:
    """`<<` fills what the mapping leaves open, the first of several winning."""
    (root,) = parsed("a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc: {<<: [*a, *b], x: 0}\n")
    assert plain(root)["c"] == {"x": 0, "y": 1, "z": 2}


def test_duplicate_key_is_refused_where_it_stands() -> None:
    """The last one does not silently win."""
    assert problem_of("a: 1\nb:\n  c: 1\n  c: 2\n") == Problem(
        "f.yaml", 4, 3, "c", "duplicate key, first written on line 3", "  c: 2"
    )


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("groups: {h100: node[01-04]}", (1, 20), 'quote a range inside braces or brackets: {h100: "node[01-04]"}'),
        ("hosts: [node[01-04], gw1]", (1, 13), "quote a range inside braces"),
        ("env: {A: ${HOME}}", (1, 11), 'quote a variable inside braces: {NAME: "${VAR}"}'),
        ("a:\n\tb: 1", (2, 1), "a tab can't indent YAML"),
        ("hosts: @h100", (1, 8), "can't start with @: quote it"),
        ("hosts: *", (1, 9), "must be quoted"),
        ("hosts: *x", (1, 8), "refers to nothing above it"),
        ("a: b: c", (1, 5), "quote the value if the ':' belongs to it"),
        ('a: "x', (1, 4), "the closing quote is missing"),
        ("a: 'x\nb: 1\nc: 2\n", (1, 4), "the closing quote is missing"),
        ("- a\nb: 1", (2, 1), "a list and keys can't be mixed (in the list that begins on line 1)"),
        ("a: [b, c", (1, 4), "the [ is never closed: a ] is missing"),
        ("a: [b, c\n\n", (1, 4), "the [ is never closed: a ] is missing"),
        ("a: [b, c\nd: {e: f}\n", (1, 4), "the [ is never closed: a ] is missing"),
        ("x:\n  a: {b: c\n  d: 1\n", (2, 6), "the { is never closed: a } is missing"),
        ("a: [\n  b,\n  {c: d,\n", (3, 3), "the { is never closed: a } is missing"),
        ("a: [\n  'b'\n  'c',\n]\n", (3, 3), "expected ',' or ']' here: a comma or the closing bracket is missing"),
        ("groups: {h100: node[01-04]\n", (1, 20), 'quote a range inside braces or brackets: {h100: "node[01-04]"}'),
        ("a: [b]]", (1, 7), "this ] closes nothing"),
        ("a: 'b' c", (1, 8), "nothing may follow the closing quote or bracket"),
        ("a: 1\n- b\n", (2, 1), "a list item can't stand among keys"),
        ("a: - b", (1, 4), "a list begins on a line of its own"),
        ("a: 1\nb\n", (2, 1), "a ':' is missing after this key"),
        ("a: 1\nb\nc: 2\n", (2, 1), "a ':' is missing after this key"),
        ("a: |x\n b\n", (1, 5), "nothing but a comment may follow here"),
        ('a: "\\q"', (1, 5), "no such escape in double quotes"),
        ('a: "\\xzz"', (1, 7), "hexadecimal digits are missing"),
        ("a: 1\n...\nb: 2\n", (3, 1), "expected a line `---` here"),
        ("a: 1\n  b: 2\n", (2, 4), "a ':' here makes no sense"),
        ("a:\n  b: 1\n c: 2\n", (3, 2), "check the indentation and the quotes (in the mapping that begins on line 1)"),
        ("a: [,]", (1, 5), "expected a value here, not ,"),
        ("a: !<x", (1, 7), "a value that starts with ! must be quoted"),
        ("a: !!python/object:os.system x", (1, 4), "is not supported"),
        ("a: !<! b", (1, 7), "a value that starts with ! must be quoted"),
        ("%FOO\n", (1, 5), "a line that begins with % is a directive, which is not supported"),
        ("%YAML x\n", (1, 7), "a line that begins with % is a directive, which is not supported"),
        ("a: !x {b: 1}", (1, 4), "is not supported"),
        ("? [a]\n: b", (1, 3), "a key must be a word"),
        ("a: \x1b[31m", (1, 4), "the character U+001B is not allowed"),
        ("a: \ud800", (1, 4), "U+D800"),
        ("a: {<<: 1}", (1, 9), "expected a mapping"),
        ("&a [*a]", (1, 5), "refers to nothing above it"),
    ],
)
def test_syntax_errors_say_what_to_do(text: str, place: tuple[int, int], words: str) -> None:
    """Each common slip is answered at its place in words that lead out of it."""
    problem = problem_of(text)
    assert (problem.line, problem.column) == place
    assert words in problem.message


@given(st.text(alphabet="ab:-[]{}'\"#&*!|>%@\\ \n\t,?", max_size=40))
def test_every_syntax_error_shows_a_line_and_no_jargon(text: str) -> None:
    """Whatever is wrong, a person sees the line with a caret, and no word of the parser's."""
    problems = Problems()
    parse(Source("f.yaml", text), problems)
    for problem in problems.error().problems if problems else ():
        assert problem.line
        assert render(problem).endswith("^") or not problem.snippet.strip()  # a blank line has nothing to point at
        assert not [w for w in ("token", "scalar", "node", "flow", "block mapping", "while ") if w in problem.message]


def test_nesting_is_bounded() -> None:
    """A hundred thousand brackets cost neither the stack nor the time."""
    assert "nested more than" in problem_of("[" * 100_000).message


def test_aliases_are_bounded_by_what_they_stand_for() -> None:
    """The billion laughs are counted, not expanded."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 20)]
    assert "aliases count each time" in problem_of("\n".join(lines)).message


def test_render_points_at_the_place() -> None:
    """Headline, source line, caret: the form the manual shows."""
    problem = Problem("hosts.yaml", 8, 5, "hosts.node[01-02].prot", "unknown key, did you mean 'port'?", "    prot: 22")
    assert render(problem) == (
        "hosts.yaml:8:5: hosts.node[01-02].prot: unknown key, did you mean 'port'?\n    8 |     prot: 22\n      |     ^"
    )


@pytest.mark.parametrize(
    ("snippet", "column", "last_lines"),
    [
        ("名前: x", 5, ("    1 | 名前: x", "      |       ^")),
        ("\ta: x", 2, ("    1 |  a: x", "      |  ^")),
        ("a: \x1b[31mred", 4, ("    1 | a: \ufffd[31mred", "      |    ^")),
    ],
)
def test_caret_stands_under_the_place(snippet: str, column: int, last_lines: tuple[str, str]) -> None:
    """Wide characters, tabs and escapes shift nothing, and no escape reaches the terminal."""
    assert tuple(render(Problem("f", 1, column, "", "m", snippet)).splitlines()[1:]) == last_lines


def test_long_lines_are_cut_around_the_place() -> None:
    """A line of 10,000 characters shows the part that matters."""
    shown = render(Problem("f", 1, 5001, "", "m", "a" * 5000 + "X" + "b" * 5000)).splitlines()
    assert len(shown[1]) < 140
    assert shown[1][shown[2].index("^")] == "X"


def test_problems_are_bounded_and_in_file_order() -> None:
    """Thousands of problems show the first ones and say how many more there are."""
    text = "\n".join(f"a: {i}" for i in range(1000))
    problems = Problems()
    parse(Source("f", text), problems)
    found = problems.error().problems
    assert [p.line for p in found[:3]] == [2, 3, 4]
    assert found[-1].message == "799 more problems not shown"
    assert len(problems) == 999


def failure(path: str) -> Problem:
    with pytest.raises(SpecError) as caught:
        files.read_text(path)
    assert caught.value.exit_code is ExitCode.USAGE
    return caught.value.problems[0]


def test_missing_file_names_the_nearest(tmp_path: Path) -> None:
    """A slip in a file's name is as common as one in a key."""
    (tmp_path / "hosts.yaml").write_text("")
    message = "there is no such file, did you mean 'hosts.yaml'?"
    assert failure(str(tmp_path / "host.yaml")).message == message
    assert failure(str(tmp_path / "no" / "host.yaml")).message == "there is no such file"


def test_what_is_not_a_readable_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder, an endless device, a name that can't be, bytes that are not UTF-8."""
    assert "this is a folder" in failure(str(tmp_path)).message
    assert "is a device, not a regular file" in failure("/dev/zero").message
    with (tmp_path / "large").open("wb") as large:
        large.truncate(9 << 20)
    assert "larger than 8 MiB" in failure(str(tmp_path / "large")).message
    assert "embedded null" in failure("a\0b").message  # a byte, or a character since Python 3.13
    (tmp_path / "latin").write_bytes(b"a: 1\nname: caf\xe9\n")
    problem = failure(str(tmp_path / "latin"))
    assert (problem.line, problem.column) == (2, 10)
    assert problem.message == "the byte 0xe9 is not UTF-8; save the file as UTF-8"
    (tmp_path / "utf16").write_bytes("a: 1".encode("utf-16"))
    assert "UTF-16" in failure(str(tmp_path / "utf16")).message

    def refuse(path: str) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files, "_read", refuse)
    assert failure("x").message == "you may not read this file"


def test_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` reads what is piped in."""
    monkeypatch.setattr(files, "sys", SimpleNamespace(stdin=SimpleNamespace(buffer=io.BytesIO(b"a: 1"))))
    assert files.read_text("-") == "a: 1"


SIGNS = ["a", ": ", "- ", "  ", "[", "]", "{", "}", ", ", "&x ", "*x", "!t ", '"', "'", "#", "%", "@", "? ", "<<: "]
BREAKS = ["\n", "|\n", ">\n", "---\n", "...\n", "\u2028", "\x85"]
ODD = ["\t", "é", "😀", "\\", "1", "~", "$", "`", "\0", "\ud800"]
YAML_BITS = st.sampled_from([*SIGNS, *BREAKS, *ODD])
YAMLISH = st.lists(YAML_BITS, max_size=40).map("".join)


@settings(max_examples=300)
@given(st.one_of(YAMLISH, st.text(max_size=200)))
@example("a: &a\n  <<: *a")
@example("%YAML 9.9\n---\na")
def test_any_text_gives_a_tree_or_problems_with_places(text: str) -> None:
    """Nothing else ever comes out, and every place lies inside the text."""
    problems = Problems()
    source = Source("f", text)
    documents = document.parse(source, problems)
    if not problems:
        for node in documents:
            plain(node)
        return
    lines = len(text.splitlines()) + 1
    for problem in problems.error().problems:
        assert 1 <= problem.line <= lines
        assert problem.column >= 1
        assert render(problem).splitlines()[0].endswith(problem.message.splitlines()[-1])


@settings(max_examples=100)
@given(YAMLISH)
def test_pure_python_yaml_gives_the_same_trees(text: str) -> None:
    """Where libyaml is missing, valid files mean the same."""
    fast, slow = Problems(), Problems()
    expected = document.parse(Source("f", text), fast)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document, "_LOADER", document.yaml.SafeLoader)
        found = document.parse(Source("f", text), slow)
    if not fast and not slow:
        assert [plain(n) for n in found] == [plain(n) for n in expected]
