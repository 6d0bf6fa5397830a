"""The keys of `hosts.yaml`: the one table that its reader and its schema share."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from distui.regex import regex
from distui.spec.hosts import names
from distui.spec.hosts.address import six_login
from distui.spec.yaml import leaves
from distui.spec.yaml.nodes import Scalar
from distui.spec.yaml.problems import Wrong, shown
from distui.spec.yaml.shapes import ByKind, Key, Leaf, ListOf, MapOf, Record

ENGINES = ("docker", "podman")

_GROUP_NAME = regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
_LABEL = r"[A-Za-z0-9][A-Za-z0-9_./-]{0,62}"
_INTERFACE = r"[^\s/,=^:\"']{1,15}"
"""One interface as Linux allows it (15 bytes, no space or slash), and none of NCCL's list characters."""
_ADDRESS = r"[A-Za-z0-9_:{][A-Za-z0-9_.:%{}-]{0,252}"


def _version(node: Scalar) -> int:
    if node.value == "1":
        raise Wrong("write version: 1, without quotes")
    if node.value != 1 or isinstance(node.value, bool):
        raise Wrong(f"this distui reads version 1, got {shown(node.text)}; write version: 1")
    return 1


VERSION = Key(
    "version",
    Leaf("`version: 1`, the format of this file", _version, {"const": 1}),
    "Version of the file format: 1.",
    required=True,
)


def engine_command(value: str) -> tuple[str, tuple[str, ...]]:
    """`sudo -n docker` -> the engine's name and the words that call it. Raises Wrong."""
    if value == "process":
        return "process", ()
    try:
        words = tuple(shlex.split(value))
    except ValueError:
        words = ()
    name = words[-1].rpartition("/")[2] if words else ""
    if words[:1] == ("sudo",) and words[1:2] != ("-n",) and name in ENGINES:
        raise Wrong(f"write 'sudo -n {words[-1]}': without -n sudo would ask for a password, and nobody is there")
    path = words[-1] if words else ""
    if name not in ENGINES or words[:-1] not in ((), ("sudo", "-n")) or path not in (name, f"/{path.lstrip('/')}"):
        raise Wrong(f"expected {_ENGINE_WORDS}, got {shown(value)}")
    return name, words


def is_engine_command(words: Sequence[str]) -> bool:
    """Whether these words call an engine, and nothing else: for what was written down by a distui before."""
    if tuple(words) in ((), ("process",)):
        return True
    try:
        return engine_command(shlex.join(words))[1] == tuple(words)
    except Wrong:
        return False


_ENGINE_WORDS = "docker, podman, process or 'sudo -n docker'"


def group_key(word: Scalar) -> str:
    """The name of a group. Raises Wrong."""
    if not _GROUP_NAME.fullmatch(word.text):
        raise Wrong(f"{shown(word.text)} is not a group name: letters, digits, '.', '_' and '-'")
    if word.text == "all":
        raise Wrong("@all always means every host; choose another name")
    return word.text


def label_key(word: Scalar) -> str:
    """The name of a label. Raises Wrong."""
    if not re.fullmatch(_LABEL, word.text):
        raise Wrong(f"{shown(word.text)} is not a label: letters, digits, '.', '_', '/' and '-'")
    return word.text


GPU_INDEX = leaves.whole(0, names.MAX_GPU, "a GPU index")
GPU_COUNT = leaves.whole(0, names.MAX_GPU + 1, "a number of GPUs")
GPU_LIST = ListOf(GPU_INDEX, "a list of GPU indices such as [0, 1]", leaves.once)
LABELS = MapOf(
    label_key,
    leaves.text("text", verbatim=True),
    "labels such as {gpu: h100}",
    names={"pattern": f"^{_LABEL}$"},
)
PORT = leaves.whole(1, 65535, "a port")
INTERFACE = leaves.text("the name of one network interface, such as eno1", pattern=_INTERFACE)
HCAS = leaves.text("InfiniBand devices such as mlx5_[0-7], or ^mlx5_3 to leave some out", pattern=r"\^?=?[^\s^]{1,200}")

_ADDR = Key(
    "addr",
    leaves.text("an address or name", pattern=_ADDRESS),
    "Address or DNS name to connect to, where ~/.ssh/config has no HostName. {n} stands for the range's number.",
)
DATA = Record(
    (
        Key(
            "addr",
            leaves.text("an IP address", pattern=_ADDRESS),
            "Address that the other hosts reach this one at for training data. {n} stands for the range's number.",
        ),
        Key("ifname", INTERFACE, "Interface that carries training data on this host."),
        Key("hcas", HCAS, "InfiniBand devices to use (`mlx5_[0-7]`), or to leave out (`^mlx5_3`)."),
    ),
    "a mapping such as {ifname: eno1}",
    hints={"interface": "unknown key, did you mean 'ifname'?", "nic": "unknown key, did you mean 'ifname'?"},
)
_HOST_KEYS = (
    Key(
        "user",
        leaves.text("a user name", pattern=r"[A-Za-z0-9_][A-Za-z0-9_.@\\+-]{0,63}"),
        "Login, where ~/.ssh/config leaves it open.",
    ),
    Key("port", PORT, "Port of sshd, where ~/.ssh/config leaves it open."),
    Key(
        "docker",
        Leaf(_ENGINE_WORDS, lambda node: engine_command(node.text), {"type": "string"}),
        "How to call the container engine: docker, podman, 'sudo -n docker', or process for none.",
        field="engine",
        default="docker",
    ),
    Key(
        "gpus",
        ByKind(leaf=leaves.either(leaves.choice("auto"), GPU_COUNT), items=GPU_LIST),
        "GPUs distui may use: auto (all it finds), a number (the host fails with fewer) or a list of indices.",
        default="auto",
    ),
    Key("labels", LABELS, "Labels to choose hosts by, with -l or `hosts: {label: ...}`."),
    Key("data", DATA, "Network for training data between the hosts, where the choice must not be left to distui."),
    Key(
        "connect_timeout",
        leaves.duration(0.1, 3600),
        "Time for connecting and logging in.",
        default="10s",
    ),
)
_ADDR_ELSEWHERE = ("hostname", "host", "ip", "ansible_host", "ssh_host")
_SSH = "comes from ~/.ssh/config (Host, IdentityFile, ProxyJump); distui reads it"
_HINTS = {
    "password": "passwords have no place here: use a key or an ssh agent",
    "key": f"unknown key: the ssh key {_SSH}",
    "identity_file": f"unknown key: the ssh key {_SSH}",
    **dict.fromkeys(("proxy_jump", "proxyjump", "ProxyJump", "jump", "jump_host", "jumphost", "bastion", "gateway"),
                    f"unknown key: the jump host {_SSH}"),
    **dict.fromkeys(("ssh_key", "private_key", "key_file", "keyfile", "IdentityFile"),
                    f"unknown key: the ssh key {_SSH}"),
    **dict.fromkeys(("pass", "passwd", "ssh_pass", "sudo_password"),
                    "passwords have no place here: use a key or an ssh agent"),
    "name": "unknown key: a host's name stands before the colon, `node01: {...}`",
    **dict.fromkeys(_ADDR_ELSEWHERE, "unknown key, did you mean 'addr'?"),
    **dict.fromkeys(("ansible_user", "login"), "unknown key, did you mean 'user'?"),
    "ansible_port": "unknown key, did you mean 'port'?",
    **dict.fromkeys(("engine", "podman", "container_runtime"), "unknown key, did you mean 'docker'?"),
    **dict.fromkeys(("tags", "roles"), "unknown key, did you mean 'labels'?"),
    **dict.fromkeys(("ifname", "interface", "iface", "nic"), "unknown key; write `data: {ifname: NAME}`"),
    **dict.fromkeys(("hcas", "hca", "ib"), "unknown key; write `data: {hcas: NAMES}`"),
    **dict.fromkeys(("group", "groups"), "unknown key: groups stand at the top of the file, `groups: {NAME: HOSTS}`"),
    "slots": "unknown key: slots belong to a --hostfile; here a job says how many ranks a host gets",
}  # fmt: skip
HOST = Record((_ADDR, *_HOST_KEYS), "the host's settings, such as {gpus: 8}", hints=_HINTS)
DEFAULTS = Record(
    _HOST_KEYS,
    "settings for all hosts, such as {user: ubuntu}",
    hints=_HINTS | dict.fromkeys(("addr", *_ADDR_ELSEWHERE), "an address belongs to one host, not to the defaults"),
)


def _host_key(word: Scalar) -> str:
    if "@" not in word.text and ":" in word.text and six_login(word.text) is None:
        raise Wrong(f"{shown(word.text)} is not a host name; a port is written {{port: 2222}}")
    if word.text.startswith("@"):
        raise Wrong(f"{shown(word.text)}: a host's name can't start with @; groups are written under `groups:`")
    return names.checked(word.text, gpus=False)


HOSTS = MapOf(_host_key, HOST, "hosts by their ssh name, such as node[01-04]: {gpus: 8}", partial=True)
_HOST_SET = Leaf(
    "host names such as node[01-04]", lambda node: names.checked(node.text, gpus=False), {"type": "string"}
)
GROUPS = MapOf(
    group_key,
    ByKind(leaf=_HOST_SET, items=ListOf(_HOST_SET, "a list of host names")),
    "groups such as h100: node[01-04]",
    names={"pattern": f"^{_GROUP_NAME.pattern}$", "not": {"const": "all"}},
)
INVENTORY = Record(
    (
        VERSION,
        Key("defaults", DEFAULTS, "What holds for every host that does not say otherwise."),
        Key(
            "hosts",
            HOSTS,
            "The hosts. A key is the name `ssh` knows the host by; ranges such as node[01-04] stand for several.",
            required=True,
        ),
        Key("groups", GROUPS, "Names for sets of hosts, used as @name."),
    ),
    "a mapping with `version: 1` and `hosts:`",
    extensions=True,
)
