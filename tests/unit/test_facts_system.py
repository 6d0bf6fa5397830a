"""Clock, memory, disks, ports, names and owners from literals."""

from __future__ import annotations

import pytest

from distui.facts import frame, system
from distui.facts.host import Disk

ID = "ab" * 32


@pytest.mark.parametrize(("ahead", "output"), [(5.0, 4900), (-5.0, -4900), (0.0, 0), (0.05, 0), (0.3, 200)])
def test_the_clock_offset_is_the_smallest_that_the_stamps_allow(ahead: float, output: float) -> None:
    """100 ms there, 100 ms back, half a second of work in between."""
    offset, trip = system.clock_offset(1000.1 + ahead, 1000.6 + ahead, 1000.0, 1000.7, None)
    assert (offset, trip) == (pytest.approx(output, abs=1e-3), pytest.approx(200))


@pytest.mark.parametrize("ahead", [0.0, 5.0, -5.0])
def test_a_slow_login_shell_does_not_move_the_clock(ahead: float) -> None:
    """20 s in .bashrc lie on the way there only; the way back is bounded by what connecting took."""
    offset, trip = system.clock_offset(1020.0 + ahead, 1020.5 + ahead, 1000.0, 1020.51, 120.0)
    assert offset == pytest.approx(ahead * 1000, abs=15)
    assert trip == pytest.approx(20)


@pytest.mark.parametrize(
    ("age", "asked", "output"),
    [
        ("8000.25 799525", 9.0, 5.0),
        ("8000.25 799525", 0.2, 0.2),  # the shell waited for something to do
        ("8000.25 800026", 9.0, 0.0),
        ("8000.25 ", 9.0, None),
        ("", 9.0, None),
        (None, 9.0, None),
    ],
)
def test_how_long_the_login_shell_took(age: str | None, asked: float, output: float | None) -> None:
    """By the host's own times, and not longer than was waited for the answer."""
    assert system.login_shell_s(age, asked) == output


@pytest.mark.parametrize(
    "line",
    [
        f"12:pids:/docker/{ID}",
        f"0::/system.slice/docker-{ID}.scope",
        f"0::/machine.slice/libpod-{ID}.scope/container",
        f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope",
        f"4:memory:/kubepods/besteffort/pod1f/{ID}",
        f"1:cpu:/lab/h1/{ID}",
    ],
)
def test_the_container_of_a_process(line: str) -> None:
    """Every layout of cgroups that Docker and Podman use."""
    assert system.container_of(line) == ID


def test_a_process_outside_containers_has_none() -> None:
    """A login session, a service, the root."""
    for line in ("0::/user.slice/user-0.slice/session-1.scope", "0::/", "", f"0::/x{ID}y"):
        assert system.container_of(line) is None


def test_listening_ports_of_ss_and_of_the_kernel() -> None:
    """IPv4, IPv6, wildcard and scoped addresses; other states are not listening."""
    ss = (
        "State  Recv-Q Send-Q Local Address:Port Peer Address:Port\nLISTEN 0 128 0.0.0.0:22 0.0.0.0:*\n"
        "LISTEN 0 128 [::]:2222 [::]:*\nLISTEN 0 5 127.0.0.1%lo:53 *:*\nESTAB 0 0 10.0.0.1:99 10.0.0.2:1\n"
    )
    assert system.listening_ports(ss) == {22, 2222, 53}
    proc = "   0: 0100007F:0CEA 00000000:0000 0A 0:0 0:0 0 0 0\n   1: 0100007F:0CEB 00000000:0000 01 0:0\n"
    assert system.listening_ports(proc) == {3306}


@pytest.mark.parametrize("used", ["-", "-5"])
def test_a_disk_that_says_nothing_of_what_is_used_keeps_its_place(used: str) -> None:
    """Else the next path's space would be taken for its own."""
    text = f"path /\nand /x\ntank 1000 {used} 600 1% /\n/dev/sda 2000 1 1999 1% /x\n"
    assert system.disks(text) == (Disk("/", 600 * 1024, 1000 * 1024), Disk("/x", 1999 * 1024, 2000 * 1024))


def test_disks_by_path() -> None:
    """A path without an answer (it is not there, or its server is dead) is left out; spaces are no trouble."""
    text = "path /\n/dev/sda1 1000 400 600 40% /\npath /gone\npath /mnt/x\nsrv:/a b 2000 1 1999 1% /mnt/x y\n"
    assert system.disks(text) == (Disk("/", 600 * 1024, 1000 * 1024), Disk("/mnt/x", 1999 * 1024, 2000 * 1024))


@pytest.mark.parametrize(
    ("getent", "hosts", "is_loopback"),
    [
        ("127.0.1.1 STREAM n1\n10.0.0.1 STREAM\n", "", True),
        ("10.0.0.1 STREAM n1\n127.0.1.1 STREAM\n", "", False),
        ("::1 STREAM n1\n", "", True),
        ("", "127.0.1.1 n1.lan n1\n10.0.0.1 n1\n", True),
        ("", "#127.0.1.1 n1\n10.0.0.1 n1\n", False),
        ("", "", False),
        ("getent: not found\n", "", False),
    ],
)
def test_a_name_that_leads_home(getent: str, hosts: str, is_loopback: bool) -> None:
    """Debian's 127.0.1.1 line, which breaks gloo."""
    assert system.name_is_loopback("n1", getent, hosts) is is_loopback


def test_small_readers() -> None:
    """Limits, ranges, names and sizes, and None for what is not there."""
    assert (system.memlock_kib("unlimited"), system.memlock_kib("8192"), system.memlock_kib("")) == (-1, 8192, None)
    assert (system.port_range("15000\t61000"), system.port_range("x")) == ((15000, 61000), (32768, 60999))
    assert system.os_name('PRETTY_NAME="Debian GNU/Linux 12"') == "Debian GNU/Linux 12"
    assert system.kib_line_as_mib("MemTotal:       2048 kB") == 2
    assert (system.os_name(None), system.kib_line_as_mib(None), system.after_colon("")) == (None, None, None)


def answer(body: str, nonce: str = "n0") -> frame.Answer | None:
    return frame.parse(f"\nn0 begin 1700000000000000000\n{body}\nn0 end 1700000001000000000\n".encode(), nonce)


def test_a_part_has_its_text_and_status() -> None:
    """Text as printed, status as given; a part whose command never ended has none."""
    got = answer("\nn0 part a\none\ntwo\nn0 rc 3\n\nn0 part b\nhalf of")
    assert got is not None
    assert (got.part("a").text, got.part("a").status) == ("one\ntwo", 3)
    assert (got.part("b").status, got.part("b").timed_out) == (None, True)
    assert (got.part("c").text, got.ended - got.began, got.coarse) == ("", 1.0, False)


def test_output_can_not_pass_for_a_frame() -> None:
    """Without the word, a line that looks like a frame is text of the part it stands in."""
    got = answer("\nn0 part a\nn1 rc 0\nn1 part b\nx\nn0 rc 0\n")
    assert got is not None and set(got.parts) == {"a"}
    assert got.text("a") == "n1 rc 0\nn1 part b\nx"


def test_a_frame_that_is_cut_off_is_no_answer() -> None:
    """Half an answer must not be taken for a host that lacks things."""
    assert frame.parse(b"\nn0 begin 1700000000000000000\n\nn0 part a\nx\nn0 rc 0\n", "n0") is None
    assert frame.parse(b"", "n0") is None
