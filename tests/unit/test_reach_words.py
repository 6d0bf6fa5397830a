"""What a reachability proof found, in few words: one line for what has one reason, none is left out."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from distui.doctor.reach import ReachProblem
from distui.doctor.reach_words import in_words
from distui.spec.hosts.names import expand

HOSTS = tuple(f"h{number}" for number in range(1, 65))


def pairs(which: Iterable[tuple[str, str]], error: str = "timed out") -> list[ReachProblem]:
    """One problem a pair, each host at an address by its number."""

    def addr(host: str) -> str:
        return f"10.0.0.{host[1:]}"

    return [ReachProblem(a, b, error, "pin it", 0, addr(a), addr(b), 4000 + int(b[1:])) for a, b in which]


def words(problems: list[ReachProblem]) -> list[str]:
    """Without what to do."""
    return [words for words, _ in in_words(problems)]


def test_sixty_four_hosts_behind_firewalls_are_one_line() -> None:
    """And not 4,032."""
    assert in_words(pairs(permutations(HOSTS, 2))) == [("h[1-64]: can't reach each other: timed out", "pin it")]


def test_hosts_that_reach_nobody_are_one_line_though_others_could_not_try() -> None:
    """Each would name all the others."""
    assert words(pairs((a, b) for a, b in permutations(HOSTS, 2) if a not in ("h7", "h9"))) == [
        "h[1-6,8,10-64]: can't reach each other, nor h[7,9]: timed out"
    ]


def test_a_host_that_nobody_reaches_is_one_line() -> None:
    """Its address stands there with the port, which a firewall may be about: rank 0's host listens on the run's own."""
    found = words(pairs((host, "h7") for host in HOSTS if host != "h7"))
    assert found == ["h[1-6,8-64]: can't reach h7 at 10.0.0.7:4007: timed out"]


def test_a_host_that_reaches_nobody_is_one_line() -> None:
    """With the address that it tries it from."""
    found = words(pairs(("h7", host) for host in HOSTS if host != "h7"))
    assert found == ["h7: can't reach h[1-6,8-64] from 10.0.0.7: timed out"]


def test_two_halves_are_a_line_each() -> None:
    """A switch between them is down."""
    here, there = HOSTS[:3], HOSTS[3:6]
    found = words(pairs([*((a, b) for a in here for b in there), *((b, a) for a in here for b in there)]))
    assert found == ["h[1-3]: can't reach h[4-6]: timed out", "h[4-6]: can't reach h[1-3]: timed out"]


def test_one_pair_has_both_addresses_and_the_port() -> None:
    """Also where two hosts don't reach each other: it may have two reasons."""
    found = words([*pairs([("h1", "h2")]), *pairs([("h2", "h1")], "refused")])
    assert found == [
        "h1: can't reach h2 at 10.0.0.2:4002 from 10.0.0.1: timed out",
        "h2: can't reach h1 at 10.0.0.1:4001 from 10.0.0.2: refused",
    ]


def test_other_reasons_are_other_lines() -> None:
    """And a host that can't listen is said first."""
    deaf = ReachProblem("h9", "", "can't listen on 10.0.0.9: in use", "stop it")
    found = [*pairs(permutations(HOSTS[:3], 2)), *pairs([("h4", "h5"), ("h4", "h6")], "No route to host"), deaf]
    assert in_words(found) == [
        ("h9: can't listen on 10.0.0.9: in use", "stop it"),
        ("h[1-3]: can't reach each other: timed out", "pin it"),
        ("h4: can't reach h[5-6] from 10.0.0.4: No route to host", "pin it"),
    ]


@given(st.sets(st.tuples(st.integers(1, 6), st.integers(1, 6)).filter(lambda pair: pair[0] != pair[1])))
def test_every_pair_is_in_one_line(numbers: set[tuple[int, int]]) -> None:
    """Read back, the lines name the pairs that fail and no others, each once."""
    asked = sorted((f"h{a}", f"h{b}") for a, b in numbers)
    named = []
    for line in words(pairs(asked)):
        who, _, rest = line.partition(": can't reach ")
        hosts = expand(who)
        _, each_other, more = rest.removesuffix(": timed out").rpartition("each other")
        more = more.removeprefix(", nor ").split(" ")[0]
        whom = (*(hosts if each_other else ()), *(expand(more) if more else ()))
        named += [(a, b) for a in hosts for b in whom if a != b]
    assert sorted(named) == asked
