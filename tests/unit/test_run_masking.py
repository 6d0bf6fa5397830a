"""Values of secrets in bytes that come in pieces, in events and in recorded logs."""

from __future__ import annotations

import json
import time
from base64 import b64encode, urlsafe_b64encode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.plan.labels import TaskLabels, task_from_labels, to_labels
from distui.runs.lines.batch import Batch
from distui.runs.lines.events import Failure, FailureFound, LogLine, Notice
from distui.runs.lines.text import MAX_OPEN, WholeLines, safe
from distui.runs.store.logs import TaskLog
from distui.runs.store.masking import Mask, MaskedStream
from distui.runs.store.runs import RunStore
from distui.runs.store.secret_checks import keep_checks, others
from distui.tui.logs.buffer import SHOWN_BYTES, LogBuffer

VALUE = "hunter2-hunter2"
MASK = Mask({"TOKEN": VALUE})


@pytest.mark.parametrize("before", range(0, len(VALUE) + 1))
def test_a_value_in_two_parts_of_an_endless_line_is_hidden(tmp_path: Path, before: int) -> None:
    """Wherever the part of a mebibyte ends; also where the rest of the line comes later."""
    stored = RunStore(tmp_path).create("r1")
    log = TaskLog(stored, 0, [0], mask=MASK)
    text = b"x" * (MAX_OPEN - before) + VALUE.encode() + b"y" * 10 + b"\n"
    for start in range(0, len(text), 16384):
        log.feed(Batch((1,), (b"",), (text[start : start + 16384],)))
    log.close()
    assert stored.rank_log(0).read_bytes() == text.replace(VALUE.encode(), b"***")


@pytest.mark.parametrize(
    "between", ["\x1b[0m", "\x1b[1;31m\x1b[4m", "\x1b]8;;http://h/\x1b\\", "\x1b(B", "\x1b\x1b[0m"]
)
def test_a_value_with_colours_in_it_is_hidden(between: str) -> None:
    """What shows a line takes them out, and would show the value; the line keeps its other colours."""
    line = f"\x1b[2mtoken {VALUE[:4]}{between}{VALUE[4:-1]}{between}{VALUE[-1]}\x1b[0m\n".encode()
    _, hidden, found = MASK.hide(Batch((1,), (b"",), (line,)), line)
    assert (hidden, found) == (b"\x1b[2mtoken ***\x1b[0m\n", ("TOKEN",))
    _, twice, _ = MASK.hide(Batch((1,), (b"",), (line * 2,)), line * 2)
    assert twice == hidden * 2
    other = b"\x1b[31mhunter\x1b[0m\n"
    assert MASK.hide(Batch((1,), (b"",), (other,)), other)[1:] == (other, ())


@pytest.mark.parametrize(
    "between", ["\x1b[1;31m", "\x1b(B\x1b[m", "\x1b]8;;http://a\x1b\\", "\x1b]0;t\x07", "\x1bPq\x07\x1b\\"]
)
def test_a_value_with_colours_in_it_is_hidden_wherever_two_reads_part_it(between: str) -> None:
    """What may go on waits for that, but not without measure."""
    line = f"a\ntoken {VALUE[:4]}{between}{VALUE[4:]}\x1b[0m ok\n".encode()
    for at in range(len(line)):
        for then in range(at, len(line)):
            stream = MaskedStream(MASK)
            shown = [stream.feed(part) for part in (line[:at], line[at:then], line[then:])]
            assert b"".join(shown) + stream.rest() == MASK.raw(line)
    stream = MaskedStream(MASK)
    assert stream.feed(b"\x1b]0;" + b"x" * 9) == b""
    assert len(stream.feed(b"x" * 2 * MAX_OPEN)) > MAX_OPEN


@pytest.mark.parametrize(
    "text", ["\x1b[1mGo on?\x1b[0m ", "\x1b[32m 10%\r\x1b[32m 20%", "\x1b[1G\x1b[2K*", "\x1b]0;t\x07> "]
)
def test_what_no_end_of_a_line_follows_is_shown_at_once(text: str) -> None:
    """Prompts and bars with colours, whose values are none of a secret."""
    stream = MaskedStream(MASK)
    assert [stream.feed(text.encode()) for _ in range(2)] == [text.encode()] * 2


@pytest.mark.parametrize("title", ["\x1b]0;title\n", "\x1b]0;title\r", "\x1bPwords\n", "\x1b^words\r"])
def test_a_title_that_is_never_ended_hides_no_value_behind_its_line(title: str) -> None:
    """What shows a line begins anew with each, and behind `\\r`; the value is whole there."""
    text = f"{title}{VALUE[:4]}\x1b[31m{VALUE[4:]}\n".encode()
    pieces = text.splitlines(keepends=True) if b"\r" not in text else [text]
    block = Batch((1,) * len(pieces), (b"",) * len(pieces), pieces)
    _, hidden, found = MASK.hide(block, text)
    assert (hidden, found) == (title.encode() + b"***\n", ("TOKEN",))


@given(
    st.lists(
        st.sampled_from(["\x1b", "\x1b[0m", "\x1b[2K", "\x1b]", "x", "\x07", "[", "\x1b\\", "\x1bP", "\r"]), max_size=6
    )
)
def test_no_escape_sequences_show_a_value_that_they_part(parts: list[str]) -> None:
    """Whatever they are: what is shown of a line and where values are looked for is by one rule."""
    line = f"token {VALUE[:5]}{''.join(parts)}{VALUE[5:]}".encode()
    assert VALUE not in safe(MASK.raw(line).decode())
    assert VALUE not in safe(MASK.raw(line).decode(), colour=True)


values = st.text("ab", min_size=6, max_size=9)


@given(st.lists(values, min_size=1, max_size=3), st.lists(st.text("ab\n", max_size=12), max_size=8))
def test_reads_of_any_size_give_the_same_as_one(secrets: list[str], reads: list[str]) -> None:
    """No value is left in what a stream gave, however its bytes came and values overlap; nothing is lost before it."""
    mask = Mask({str(n): value for n, value in enumerate(secrets)})
    stream = MaskedStream(mask)
    got = b"".join([stream.feed(read.encode()) for read in reads] + [stream.rest()])
    assert not any(value.encode() in got for value in secrets)
    whole = "".join(reads)
    if not any(value in whole for value in secrets):
        assert got == whole.encode()


def test_a_line_that_is_printed_in_part_ends_before_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a value at the end of the longest part is not shown."""
    monkeypatch.setattr("distui.runs.lines.text.LONGEST", 100)
    lines = WholeLines(MASK.cut)
    (line,) = lines.feed(b"x" * 95 + VALUE.encode() + b"\n")
    assert line == b"x" * 95 + b" ... and 15 bytes more in the log file"


def test_events_have_no_value_in_any_of_their_words() -> None:
    """Notices, causes, excerpts, whoever made them."""
    notice = MASK.event(Notice(1.0, "error", f"docker: bad token {VALUE}", "h1"))
    assert notice.text == "docker: bad token ***"
    failure = Failure(rank=0, host="h1", exit=1, words=f"exit {VALUE}", excerpt=(f"a {VALUE}", "b"))
    assert VALUE not in repr(MASK.event(FailureFound(1.0, failure)))


def test_what_a_url_python_or_json_makes_of_it_is_hidden() -> None:
    """Request lines and dumps of the environment are where values are printed by accident."""
    mask = Mask({"ODD": 'a"b/c é+&=1'})
    for text in ("a%22b%2Fc+%C3%A9%2B%26%3D1", 'a\\"b/c \\u00e9+&=1', "{'ODD': 'a\"b/c é+&=1'}"):
        assert "***" in mask.text(text), text


@pytest.mark.parametrize("before", ["", "u", "me", "user:", "a:b:c"])
@pytest.mark.parametrize("after", ["", "\n", "@host", "xy"])
def test_base64_of_it_is_hidden_wherever_it_begins(before: str, after: str) -> None:
    """`Authorization: Basic ...` is printed by `curl -v`; of its letters none that is of the value alone is left."""
    value = "s3cr3t-T0ken/abc+9"
    for code in (b64encode, urlsafe_b64encode):
        said = code(f"{before}{value}{after}".encode()).decode()
        hidden = Mask({"TOKEN": value}).text(f"> Authorization: Basic {said}")
        left = hidden.removeprefix("> Authorization: Basic ").replace("***", "", 1)
        assert "***" in hidden
        assert len(left) <= len(b64encode(before.encode())) + len(b64encode(after.encode())) + 2, hidden


def test_hexadecimal_digits_of_it_are_hidden() -> None:
    """`xxd -p`, `bytes.hex()`, and `%02X` of C."""
    value = "s3cr3t-\u00e9"
    for text in (value.encode().hex(), value.encode().hex().upper()):
        assert Mask({"TOKEN": value}).text(f"key 0x{text}.") == "key 0x***."


def test_json_in_a_text_of_json_is_hidden() -> None:
    """A log in JSON lines whose message is what was sent, or the environment."""
    value = 'a"b\\c-\u00e9'
    for ascii_only in (True, False):
        inner = json.dumps({"token": value}, ensure_ascii=ascii_only)
        for outer in (json.dumps({"msg": inner}), json.dumps({"msg": inner}, ensure_ascii=False)):
            assert "***" in Mask({"TOKEN": value}).text(outer), outer


def test_what_a_shell_s_trace_makes_of_it_is_hidden() -> None:
    """`sh -x` of dash, and of bash."""
    mask = Mask({"TOKEN": "it's-a-token"})
    for text in ("+ login 'it'\"'\"'s-a-token'", "+ login 'it'\\''s-a-token'"):
        assert mask.text(text) == "+ login '***'"


def test_a_very_long_value_costs_no_more_than_it_is_long() -> None:
    """Each end of a read was compared with every beginning of the value: seconds for one of 60 kB."""
    mask, data = Mask({"LONG": "ab" + "L" * 60000}), b"x" * 65536
    started = time.process_time()
    for _ in range(50):
        assert mask.cut(data) == len(data)
    assert time.process_time() - started < 1


def test_names_of_secrets_are_in_a_label() -> None:
    """Names only, and what a stranger writes there is no more than names."""
    labels = TaskLabels("r", 0, (0,), "h1", "j", secrets=("HF_TOKEN", "KEY"))
    assert to_labels(labels)["distui.secrets"] == "HF_TOKEN,KEY"
    found = task_from_labels({**to_labels(labels), "distui.secrets": "A,,b c,$(x),B," + ",".join(["X"] * 9999)})
    assert found is not None
    assert found.secrets[:3] == ("A", "B", "X")
    assert len(found.secrets) < 300


def test_a_log_that_was_recorded_without_the_value_is_shown_without_it(tmp_path: Path) -> None:
    """Also where the screen cuts a line, and in the copy that is saved."""
    path = tmp_path / "a.log"
    path.write_text(f"one {VALUE}\n" + "x" * (SHOWN_BYTES - 5) + VALUE + "\n")
    buffer = LogBuffer(path, mask=MASK)
    while buffer.grow():
        pass
    assert buffer.text(0, 2) == ["one ***", "x" * (SHOWN_BYTES - 5) + "***"]
    with (tmp_path / "copy.log").open("wb") as copy:
        buffer.copy(copy)
    assert VALUE not in (tmp_path / "copy.log").read_text()


def test_of_a_long_line_no_part_of_a_value_is_shown(tmp_path: Path) -> None:
    """Values that are hidden make it shorter: where it was cut comes into sight."""
    log = LogBuffer(tmp_path / "log", mask=MASK)
    log.path.write_text(f"{VALUE * SHOWN_BYTES}\n")
    log.grow()
    (shown,) = log.raw(0, 1)
    assert shown and not shown.replace(b"***", b"")


def test_what_is_not_hidden_is_said() -> None:
    """Values that are not known here, and those that are too short to be looked for."""
    mask = Mask.of(["A", "B", "C"], {"A": VALUE, "B": "abc"})
    unknown, short = mask.warnings
    assert "secret C is not set here" in unknown
    assert "secret B is shorter than 6 bytes" in short
    assert mask.lines([LogLine("stdout", VALUE)]) == [LogLine("stdout", "***")]


def test_another_value_than_that_of_the_start_is_reported(tmp_path: Path) -> None:
    """By a slow hash in the run's private folder: each run has others, a short value, which is easy to guess, none."""
    value, stored, second = "hunter2-é\udcff", RunStore(tmp_path).create("r1"), RunStore(tmp_path).create("r2")
    given = {"TOKEN": value, "SAME": value, "SHORT": "abc", "EMPTY": ""}
    assert others(stored, given) == ()
    keep_checks(stored, given)
    keep_checks(second, given)
    assert others(stored, given) == ()
    assert others(stored, {**given, "TOKEN": VALUE, "SHORT": "xyz", "NEW": VALUE}) == ("TOKEN",)

    path = stored.path / "secrets.json"
    kept, again = json.loads(path.read_text()), json.loads((second.path / "secrets.json").read_text())
    assert path.stat().st_mode & 0o777 == 0o600
    assert set(kept["hashes"]) == {"TOKEN", "SAME"}
    assert len({*kept["hashes"].values(), *again["hashes"].values()}) == 4
    assert kept["salt"] != again["salt"]

    other, short = Mask.of(given, given | {"TOKEN": "x"}, stored).warnings
    assert other.startswith("the value of secret TOKEN is not the one that the run was started with")
    assert Mask.of(given, given, stored).warnings == (short,)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"kind": "scrypt 1 1 1", "salt": "", "hashes": {"TOKEN": "x"}}', "\0"]
)
def test_a_check_that_can_not_be_read_tells_nothing(tmp_path: Path, text: str) -> None:
    """A torn file, or one of another distui."""
    stored = RunStore(tmp_path).create("r1")
    (stored.path / "secrets.json").write_text(text)
    assert others(stored, {"TOKEN": VALUE}) == ()


def test_without_scrypt_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some builds of Python have none, and one whose OpenSSL forbids it says so with a ValueError."""
    stored = RunStore(tmp_path).create("r1")
    keep_checks(stored, {"TOKEN": VALUE})
    monkeypatch.delattr("hashlib.scrypt")
    assert others(stored, {"TOKEN": "other-value"}) == ()
    (stored.path / "secrets.json").unlink()
    keep_checks(stored, {"TOKEN": VALUE})
    assert not (stored.path / "secrets.json").exists()
