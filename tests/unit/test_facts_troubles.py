"""The same trouble of many hosts is told once."""

from __future__ import annotations

import importlib

import pytest

from distui.facts.host import Trouble
from distui.facts.troubles import lines, shared, without_host


def refused(host: str, addr: str) -> Trouble:
    return Trouble("refused", f"{host} ({addr}:22) refuses connections: no ssh server listens", f"`ssh -v {host}`")


def test_equal_troubles_are_one_line_with_all_hosts() -> None:
    """Host name and address differ anyway; one hint stands for all."""
    found = {f"node0{i}": refused(f"node0{i}", f"10.0.0.{i}") for i in (1, 2, 3)}
    found["gw"] = Trouble("auth", "publickey refused", "ssh -v gw")
    assert list(lines(found)) == [
        "node[01-03]: refuses connections: no ssh server listens",
        "  try: `ssh -v node01`",
        "gw: publickey refused",
        "  try: ssh -v gw",
    ]


def test_hosts_with_addresses_of_their_own_are_one_line_too() -> None:
    """The command for the first of them has its address; it stands for all."""
    found = {
        f"web{i}": Trouble("auth", "publickey refused", f"see `ssh -v -p 22 -o HostName=10.0.0.{i} web{i}`")
        for i in (1, 2)
    }
    assert list(lines(found)) == [
        "web[1-2]: publickey refused",
        "  try: see `ssh -v -p 22 -o HostName=10.0.0.1 web1`",
    ]


def test_one_host_keeps_its_own_words() -> None:
    """With its address, and its name once."""
    (only,) = shared({"n1": refused("n1", "10.0.0.1")})
    assert only.message == "n1 (10.0.0.1:22) refuses connections: no ssh server listens"
    assert only.hosts == ("n1",)


def test_a_name_within_another_is_not_cut() -> None:
    """`n1` in `n10` is no host's own name; the messages differ and stay apart."""
    found = shared({"n1": Trouble("x", "n10 is in the way"), "n2": Trouble("x", "n20 is in the way")})
    assert [one.message for one in found] == ["n1: n10 is in the way", "n2: n20 is in the way"]


def test_a_message_that_names_its_host_names_all_hosts_that_have_it() -> None:
    """No placeholder of the comparison is ever shown, and a word HOST of the message's own is left alone."""
    found = shared({n: Trouble("dns", f"{n}: nothing is known of '{n}', see HOST") for n in ("n1", "n2")})
    assert [one.message for one in found] == ["n[1-2]: nothing is known of 'n[1-2]', see HOST"]


def test_names_without_an_address_are_several() -> None:
    """No name server was asked for `n[1-2]`. Of one host the name stands there."""
    found = {n: Trouble("dns", f"{n}: there is no address for the name '{n}'") for n in ("n1", "n2")}
    assert [one.message for one in shared(found)] == ["n[1-2]: there is no address for these names"]
    assert [one.message for one in shared({"n1": found["n1"]})] == ["n1: there is no address for the name 'n1'"]


def test_a_host_is_named_though_the_message_has_its_name_as_a_word() -> None:
    """Nobody would know which host it is."""
    (one,) = shared({"docker": Trouble("daemon_down", "the docker daemon does not answer")})
    assert one.message == "docker: the docker daemon does not answer"


def test_a_message_that_names_its_host_in_the_middle_is_not_begun_with_it() -> None:
    """Whether one host has it or several."""
    for message in ("can't pull it on n1: gone", "lost the connection to n1: the host closed it"):
        (one,) = shared({"n1": Trouble("image", message)})
        assert one.message == message
    found = shared({n: Trouble("image", f"can't pull it on {n}: gone") for n in ("n1", "n2")})
    assert [one.message for one in found] == ["can't pull it on n[1-2]: gone"]


def test_a_thousand_hosts_cost_no_pattern_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the few hundred that Python keeps each would be made again for each text: `doctor` took 17 s."""
    made: list[object] = []
    compiler = importlib.import_module("re._compiler")
    usual = compiler.compile
    monkeypatch.setattr(compiler, "compile", lambda *given: made.append(given) or usual(*given))
    hosts = [f"cost{number:04}" for number in range(1000)]
    left = {without_host(host, f"{host} (10.0.0.1): see `ssh -v {host}`") for host in hosts}
    assert left == {"see `ssh -v \0`"}
    assert len(made) < 20
