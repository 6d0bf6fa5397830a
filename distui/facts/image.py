"""What an engine says about an image: `docker image inspect` as a value, and which layers two images share."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

from distui.facts.values import loads
from distui.frozen import frozen
from distui.regex import regex
from distui.whole import count

_PROCESSORS = {"x86_64": ("amd64", "386"), "aarch64": ("arm64", "arm"), "ppc64le": ("ppc64le",), "s390x": ("s390x",)}
"""`uname -m` -> the architectures of images that such a processor runs."""

_UNREADABLE = "the engine's answer can't be read"

TELL_SECONDS = 15.0
"""How long a host may take to say what an image is there: its engine may hang, or print without end."""

BUILD_LABEL = "distui.build"
"""On images that distui built: the hash of what they were built from."""

_TASK_LABEL = regex(r"distui\.[a-z_]+")


@frozen
class ImageFacts:
    """One image on one host."""

    id: str
    """`sha256:...`, of its configuration in Docker's own store and in podman, of a manifest in containerd's: one image
    has several."""
    layers: tuple[str, ...] = ()
    """Digests of the layers' contents, the lowest first."""
    size: int = 0
    """Bytes of all layers, unpacked; 0 when unknown."""
    build: str = ""
    """Hash of what distui built it from; empty for every other image."""
    platform: str = ""
    """Such as linux/amd64; empty when the engine does not tell."""
    pythonpath: str = ""
    """What it sets as PYTHONPATH."""
    task_labels: tuple[str, ...] = ()
    """Names of labels of a task that it has: somebody made it of a rank's container."""
    content: str = ""
    """Hash of its layers, its settings and the time it was made, which no store changes; empty when the engine does not
    tell its layers."""

    @property
    def identity(self) -> str:
        """What is compared between hosts: for an image built on each of them what it was built from, else its id.

        Two builds of one context never have the same id, since the time is in it.
        """
        return f"build:{self.build}" if self.build else self.id

    def is_same(self, other: ImageFacts) -> bool:
        """Whether it is the same image, in whatever store."""
        return self.id == other.id or bool(self.content and self.content == other.content)

    def is_for_another(self, machine: str | None) -> bool:
        """Whether it is made for another processor than that of a machine, as `uname -m` names it.

        False for a processor whose name in images is not known here.
        """
        own = _PROCESSORS.get(machine or "", ())
        return bool(own and self.platform) and self.platform.rpartition("/")[2] not in own


def read_images(text: str) -> tuple[ImageFacts, ...]:
    """The images in the answer of `image inspect`: a list, or one object with `--format`.

    Raises ValueError for what is no such answer.
    """
    try:
        value = loads(text)
    except ValueError as exc:
        raise ValueError(_UNREADABLE) from exc
    found = value if isinstance(value, list) else [value]
    try:
        return tuple(_image(v) for v in found)
    except (KeyError, TypeError, AttributeError) as exc:
        raise ValueError(_UNREADABLE) from exc


def read_image(text: str) -> ImageFacts:
    """The one image in the answer of `image inspect`. Raises ValueError for what is no such answer."""
    found = read_images(text)
    if not found:
        raise ValueError("`image inspect` names no image")
    return found[0]


def _image(value: dict[str, object]) -> ImageFacts:
    config = value.get("Config")
    labels = config.get("Labels") if isinstance(config, dict) else None
    rootfs = value.get("RootFS")
    layers = rootfs.get("Layers") if isinstance(rootfs, dict) else None
    return ImageFacts(
        id=_full(str(value["Id"])),
        layers=tuple(map(str, layers or ())),
        size=count(value.get("Size")) or 0,
        build=str(labels.get(BUILD_LABEL) or "") if isinstance(labels, dict) else "",
        pythonpath=_variable(config, "PYTHONPATH"),
        task_labels=_task_labels(labels),
        platform="/".join(str(value[k]) for k in ("Os", "Architecture") if value.get(k)),
        content=_content(value, config if isinstance(config, dict) else {}, layers or ()),
    )


_SETTINGS = ("Env", "Cmd", "Entrypoint", "WorkingDir", "User", "Labels", "Volumes", "StopSignal", "Healthcheck")


def _content(value: dict[str, object], config: dict[str, object], layers: Sequence[object]) -> str:
    if not layers:
        return ""
    made = str(value.get("Created") or "")
    settings = [config.get(key) or None for key in _SETTINGS]
    text = json.dumps([*layers, "" if made.startswith("0001-") else made, *settings], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def identities(found: Mapping[str, object]) -> dict[str, str]:
    """Host -> the image's identity there, that of the first host where it is the same image under another id; without
    hosts that have none, or do not say.
    """
    known: dict[str, str] = {}
    named = {}
    for host, image in found.items():
        if not isinstance(image, ImageFacts):
            continue
        keys = [key for key in (image.identity, image.content) if key]
        named[host] = next((known[key] for key in keys if key in known), image.identity)
        known |= {key: named[host] for key in keys if key not in known}
    return named


def _variable(config: object, name: str) -> str:
    """A variable that the image sets; empty when it does not."""
    env = config.get("Env") if isinstance(config, dict) else None
    lines = [str(line) for line in env] if isinstance(env, list) else []
    return next((line.partition("=")[2] for line in lines if line.startswith(f"{name}=")), "")


def _task_labels(labels: object) -> tuple[str, ...]:
    names = sorted(map(str, labels)) if isinstance(labels, dict) else []
    return tuple(name for name in names if _TASK_LABEL.fullmatch(name) and name != BUILD_LABEL)


def _full(identity: str) -> str:
    """podman leaves `sha256:` out."""
    return identity if ":" in identity else f"sha256:{identity}"


def shared_layers(layers: Sequence[str], others: Iterable[ImageFacts]) -> tuple[int, int]:
    """How many of the lowest `layers` an engine with the images `others` has, and at least how many bytes those are.

    A layer is the same only above the same ones, so that what counts is the longest common beginning.
    """
    most, size = 0, 0
    for other in others:
        same = next(
            (i for i, pair in enumerate(zip(layers, other.layers, strict=False)) if pair[0] != pair[1]),
            min(len(layers), len(other.layers)),
        )
        whole = other.size if same == len(other.layers) else 0
        most, size = max((most, size), (same, whole))
    return most, size


_EMPTY_CONFIG = {
    "Hostname": "", "Domainname": "", "User": "", "AttachStdin": False, "AttachStdout": False, "AttachStderr": False,
    "Tty": False, "OpenStdin": False, "StdinOnce": False, "Env": None, "Cmd": None, "Image": "", "Volumes": None,
    "WorkingDir": "", "Entrypoint": None, "OnBuild": None, "Labels": None,
}  # fmt: skip


def legacy_folders(layers: Sequence[str]) -> tuple[str, ...]:
    """The folders in which `docker save` before 25 puts the layers of an image, the uppermost layer left out.

    They are ids of Docker 1.9, made up of a layer and those below it (moby, image/v1 CreateID). The uppermost one's
    also holds the image's configuration.
    """
    folders = []
    chain = parent = ""
    for layer in layers[:-1]:
        chain = f"sha256:{hashlib.sha256(f'{chain} {layer}'.encode()).hexdigest()}" if chain else layer
        value = {"container_config": _EMPTY_CONFIG, "created": "1970-01-01T00:00:00Z", "layer_id": chain}
        text = json.dumps(value | ({"parent": parent} if parent else {}), separators=(",", ":"))
        parent = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
        folders.append(parent.removeprefix("sha256:"))
    return tuple(folders)
