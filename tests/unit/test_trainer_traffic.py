"""Which interfaces carried the bytes, by the kernel's counters; without torch."""

from __future__ import annotations

from pathlib import Path

from distui.trainers import traffic
from distui.trainers.traffic import Bytes

DEV = """Inter-| Receive | Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo:     500   5 0 0 0 0 0 0      500   5 0 0 0 0 0 0
  eth0: 1000000 900 0 0 0 0 0 0  2000000 800 0 0 0 0 0 0
eth0:1:      11   1 0 0 0 0 0 0       12   1 0 0 0 0 0 0
"""


def host(folder: Path) -> tuple[Path, Path]:
    """A /proc with three interfaces, a /sys with one InfiniBand port that counts and one that does not."""
    (folder / "net").mkdir()
    (folder / "net/dev").write_text(DEV)
    counting = folder / "class/infiniband/mlx5_0/ports/1/counters"
    counting.mkdir(parents=True)
    (counting / "port_xmit_data").write_text("1000\n")
    (counting / "port_rcv_data").write_text("2000\n")
    (folder / "class/infiniband/mlx5_1/ports/1").mkdir(parents=True)
    return folder, folder


def test_interfaces_and_infiniband_ports_are_read(tmp_path: Path) -> None:
    """InfiniBand counts words of four bytes, and its traffic passes by the interfaces."""
    assert traffic.counters(*host(tmp_path)) == {
        "lo": Bytes(500, 500),
        "eth0": Bytes(2000000, 1000000),
        "eth0:1": Bytes(12, 11),
        "mlx5_0:1": Bytes(4000, 8000),
    }


def test_a_system_without_counters_has_none(tmp_path: Path) -> None:
    """As on macOS: nothing is said to be wrong."""
    assert traffic.counters(tmp_path, tmp_path) == {}
    assert traffic.text({}) == "nothing that can be seen here"


def test_what_was_carried_between_two_looks() -> None:
    """The busiest first; idle interfaces, and those that came or went, are left out."""
    before = {"eth0": Bytes(5, 5), "ib0": Bytes(0, 0), "idle": Bytes(7, 7), "gone": Bytes(1, 1)}
    after = {"eth0": Bytes(1_000_005, 5), "ib0": Bytes(3_000_000_000, 2), "idle": Bytes(7, 7), "new": Bytes(9, 9)}
    carried = traffic.between(before, after)
    assert list(carried.items()) == [("ib0", Bytes(3_000_000_000, 2)), ("eth0", Bytes(1_000_000, 0))]
    assert traffic.text(carried) == "ib0 3,000.0 MB out 0.0 MB in, eth0 1.0 MB out 0.0 MB in"
