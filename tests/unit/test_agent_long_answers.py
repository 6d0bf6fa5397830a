"""Answers of torch's recorder that are too long to be read as they are: they tell the same, or their newest part."""

from __future__ import annotations

import json
import tracemalloc
from importlib import resources
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.agent.ranks.hooked import LAST_BYTES, MOST_LAST
from distui.agent.ranks.long_answers import NEXT, Answer, thin
from distui.agent.ranks.recorded import shorten

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


def entry(number: int, tensors: int = 1, *, group: int = 0, **more: Any) -> dict[str, Any]:
    """As torch 2.13 records a collective of so many tensors, its names in order."""
    name = ["0", "default_pg"] if group == 0 else [f"{group}", "undefined"]
    sizes, kinds = [[10 + at, 3] for at in range(tensors)], (["Float", "BFloat16"] * tensors)[:tensors]
    return {
        "collective_seq_id": number, "input_dtypes": kinds, "input_sizes": sizes, "is_p2p": False,
        "op_id": number, "output_dtypes": kinds, "output_sizes": sizes, "p2p_seq_id": 0, "pg_id": group,
        "process_group": name, "profiling_name": "gloo:all_reduce", "record_id": number, "retired": True,
        "state": "scheduled", "thread_id": "140538364332928", "thread_name": "python",
        "time_created_ns": 1795457849498133633 + number, "time_discovered_completed_ns": 0,
        "time_discovered_started_ns": 0, "timeout_ms": 1800000, **more,
    }  # fmt: skip


def reported(*entries: dict[str, Any]) -> bytes:
    """The text that torch 2.13 answers."""
    config = {"0": {"desc": "default_pg", "name": "0", "ranks": "[0, 1]"}}
    status = {"0": {"last_completed_collective": "30", "last_enqueued_collective": "31"}}
    said = {"comm_lib_version": "", "entries": entries, "nccl_comm_state": {}, "pg_config": config}
    return json.dumps({**said, "pg_status": status, "version": "2.10"}, separators=(",", ":")).encode()


def taken(text: bytes, most: int, *, chunk: int = 1 << 16, longest: int = 1 << 26) -> dict[str, Any]:
    """What is read of it, coming piece by piece."""
    answer = Answer(most, longest)
    for at in range(0, len(HEAD + text), chunk):
        answer.add((HEAD + text)[at : at + chunk])
    head, _, body = answer.whole().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    found: dict[str, Any] = json.loads(body)
    return found


@pytest.mark.parametrize("chunk", [4096, 65536, 1 << 20])
def test_collectives_over_long_lists_of_tensors_are_told_as_they_are(chunk: int) -> None:
    """2,000 of 500 tensors: nothing of what is told of them is lost."""
    text = reported(*(entry(number, 500, group=number % 3) for number in range(500)))
    assert len(text) > 4 << 20
    found = taken(text, 2 << 20, chunk=chunk)
    assert shorten(found, 400) == shorten(json.loads(text), 400)


def test_of_a_recorder_that_keeps_more_than_is_read_the_newest_are_reported() -> None:
    """And that older ones are lost, as where the recorder itself has dropped them; what is behind them is read."""
    text = reported(*(entry(number) for number in range(20_000)))
    found = taken(text, 1 << 20)
    numbers = [one["record_id"] for one in found["entries"]]
    assert numbers == list(range(numbers[0], 20_000)) and len(numbers) > 1000
    assert found["pg_status"] and found["version"] == "2.10"
    (group,) = shorten(found, 5)["groups"].values()
    assert (group["enqueued"], [row[0] for row in group["recent"]]) == (19_999, list(range(19_995, 20_000)))
    barely = reported(*(entry(number) for number in range(2400)))
    assert 1 << 20 < len(barely) < 2 << 20
    assert len(taken(barely, 1 << 20)["entries"]) > 1500


NAMES = st.sampled_from(
    ["gloo:all_reduce", 'x","input_sizes":[[1]],"y', "},{", '",{"collective_seq_id":1', "\\", "é", "[[]]"]
)


@given(
    st.lists(
        st.builds(
            entry, st.integers(0, 99), st.integers(0, 400), group=st.integers(0, 2), profiling_name=NAMES,
            process_group=st.tuples(st.sampled_from(["0", "Float"]), NAMES),
        ),
        min_size=1, max_size=20,
    ),
    st.integers(1000, 20_000), st.integers(1, 3000),
)  # fmt: skip
def test_whatever_names_are_in_it(entries: list[dict[str, Any]], most: int, chunk: int) -> None:
    """It stays JSON, and what is read of it is the same of as many of the newest as there are."""
    try:
        found = taken(reported(*entries), most, chunk=chunk)
    except ValueError as error:
        assert "an answer of more than" in str(error)
        return
    kept = found["entries"]
    expected = json.loads(reported(*entries))
    expected["entries"] = expected["entries"][len(entries) - len(kept) :]
    assert kept and shorten(found, 400) == shorten(expected, 400)


def test_a_rank_that_ends_leaves_no_more_than_is_read() -> None:
    """Its newest collectives, over long lists of tensors, too (`PID.last`)."""
    text = reported(*(entry(number, 500) for number in range(200)))
    place = SimpleNamespace(_dump_fr_trace_json=lambda: text)
    torch = SimpleNamespace(_C=SimpleNamespace(_distributed_c10d=place))
    file = str(resources.files("distui.agent") / "hook/distui_insight.py")
    left = run_path(file)["_recorder"](torch, "_dump_fr_trace_json")
    assert len(json.dumps(left)) < LAST_BYTES // 2
    (group,) = shorten(left, MOST_LAST)["groups"].values()
    (whole,) = shorten(json.loads(text), MOST_LAST)["groups"].values()
    assert (group["recent"], group["enqueued"]) == (whole["recent"], whole["enqueued"])


def test_what_is_short_is_left_as_it_is() -> None:
    text = reported(entry(1, 3))
    assert taken(text, 1 << 20) == json.loads(text)
    assert NEXT in reported(entry(1), entry(2))


@pytest.mark.parametrize(
    "part",
    [b" " * 1000, b"[]," * 1000, b',{"collective_seq_id":' + b"[" * 300_000, b'"entries":[' * 100],
    ids=["blanks", "lists", "an entry for ever", "heads"],
)
def test_what_is_no_record_is_given_up(part: bytes) -> None:
    """After so many bytes, with no more than that in memory."""
    answer = Answer(1 << 18, 1 << 26)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="an answer of more than"):
            for _ in range(1 << 20):
                answer.add(part)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_record_without_end_is_given_up() -> None:
    """What is kept of it has a measure, too."""
    answer, one = Answer(1 << 18, 1 << 23), b"," + json.dumps(entry(1), separators=(",", ":")).encode()
    answer.add(HEAD + b'{"entries":[' + one[1:])
    with pytest.raises(ValueError, match="an answer of more than 8388608 bytes"):
        for _ in range(1 << 20):
            answer.add(one * 50)
            assert sum(map(len, answer.pieces)) <= 1 << 18
    assert len(thin(one)) < len(one)
