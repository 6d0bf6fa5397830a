"""No text a host can print makes a reader raise, and what is read can be passed on."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Set

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distui.errors import HostCommandError
from distui.facts import engine, frame, infiniband, network, probe, system
from distui.facts.gpus import amd, gpu, gpu_list
from distui.facts.values import Reply, integer, load_json, number, tree
from distui.spec.hosts.inventory import Host

WORDS = [
    "index", "uuid", "pid", "gpu", "[N/A]", "GPU is lost", "GPU 0: x (UUID: y)", "  MIG 1g Device  0:", ", ", "\t",
    "GPU 00000000:01:00.0", " : ", "{", "[", "}", "]", '"', ":", "x/ports/1/state", "LISTEN 0 1 :", "0A", "path /",
    "card0", "gpu_data", "99999999999999999999999999", "\x1b[4mGPU0", "\x00", "-1",
    "\\ud800", "\\uDCFF", "\\\\ud800", "/32 host LOCAL", "|-- 10.0.0.1", "fe80::1", "default", "dev", "\n", "\n", "\n",
]  # fmt: skip
TEXT = st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=8)), max_size=30).map("".join)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.sampled_from(WORDS)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(
                ["ifname", "flags", "addr_info", "local", "prefixlen", "linkinfo", "gpu", "gpu_data", "asic", "vram",
                 "size", "card0", "system", "Server", "Client", "Version", "ServerErrors", "Runtimes", "Status",
                 "ExitCode", "dst", "dev", "nexthops", "metric", "value"]
            ),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=20,
)  # fmt: skip

READERS: list[Callable[[str], object]] = [
    gpu.parse_query,
    gpu.parse_apps,
    gpu.broken_devices,
    lambda text: gpu.classify(text, 255),
    lambda text: gpu.nvidia(Reply(text, 15), listed=gpu_list.parse_list(text)),
    gpu_list.parse_list,
    amd.parse_monitor,
    amd.parse_static,
    amd.parse_rocm,
    network.parse_ip_addr,
    network.default_nic,
    lambda text: network.nics_from_sys(tree(text), text, text, text),
    lambda text: infiniband.ports_from_tree(tree(text)),
    engine.read_info,
    lambda text: engine.classify(text, 1),
    lambda text: engine.read_engine("docker", ("docker",), Reply(text, 0), Reply(text, 0)),
    lambda text: engine.read_engine("podman", ("podman",), Reply(text, 1), Reply(text, None)),
    system.disks,
    system.listening_ports,
    system.container_of,
    system.port_range,
    lambda text: system.owners(tree(text)),
    lambda text: system.name_is_loopback("n", text, text),
    number,
    integer,
]


def assert_can_be_written(found: object) -> None:
    """As JSON in UTF-8: without half characters, and without numbers that JSON has not."""
    json.dumps(found, default=_plain, ensure_ascii=False, allow_nan=False).encode("utf-8")


def _plain(found: object) -> object:
    if dataclasses.is_dataclass(found):
        return {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    assert isinstance(found, Set | Mapping), type(found)
    return dict(found) if isinstance(found, Mapping) else sorted(found, key=repr)


@given(text=TEXT)
@settings(max_examples=150)
def test_readers_take_any_text(text: str) -> None:
    """Rubbish gives an empty or classified value, which facts can hold."""
    for reader in READERS:
        assert_can_be_written(reader(text))


@given(value=JSON)
@settings(max_examples=100)
def test_readers_take_json_of_any_shape(value: object) -> None:
    """A key that holds something else than last year's is unknown, not a crash."""
    text = json.dumps(value)
    for reader in READERS:
        assert_can_be_written(reader(text))


PARTS = ["system", "sys_net", "ip_addr", "ip_route", "nvidia_query", "nvidia_apps", "nvidia_list", "amd_static",
         "engine_version", "engine_info", "engine_path", "engine_socket", "disk", "name", "ports",
         "python"]  # fmt: skip


@given(bodies=st.dictionaries(st.sampled_from(PARTS), st.tuples(TEXT, st.integers(0, 255)), max_size=6))
@settings(max_examples=60)
def test_facts_come_from_any_answer(bodies: dict[str, tuple[str, int]]) -> None:
    """Whatever the commands of a host print, the host has facts."""
    parts = "".join(f"\nn0 part {name}\n{body}\nn0 rc {rc}\n" for name, (body, rc) in bodies.items())
    stdout = f"\nn0 begin 1700000000000000000\n{parts}\nn0 end 1700000000000000000\n".encode("utf-8", "replace")
    facts = probe.read(Host("h"), stdout, "n0", sent_at=0.0, received_at=1.0, connect_ms=1.0)
    assert facts.host == "h"
    assert_can_be_written(facts)


@given(noise=st.binary(max_size=200))
@settings(max_examples=60)
def test_bytes_without_a_frame_are_rubbish(noise: bytes) -> None:
    """Never facts, never another error."""
    assert frame.parse(noise, "nonce0123") is None
    with pytest.raises(HostCommandError) as caught:
        probe.read(Host("h"), noise, "nonce0123", sent_at=0, received_at=0)
    assert caught.value.code == "rubbish"


def test_hostile_sizes_are_harmless() -> None:
    """Deep JSON, huge numbers, a long table."""
    assert load_json("[" * 200_000) is None
    assert number("9" * 5000) is None
    assert gpu.parse_query("uuid, index\n" + "a, b\n" * 50_000) == ()
