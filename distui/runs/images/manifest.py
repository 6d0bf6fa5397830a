"""What an archive of `docker save` says it holds, checked against the one image that was asked for, and written again.

An engine gives the images of an archive whatever names stand in it: a host that is asked for one image could replace
any other on the targets. So one image goes on, under the one name, with the configuration that the source's engine
reported before; the lists of the archive are written here.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from distui.facts.image import ImageFacts
from distui.facts.values import loads
from distui.regex import regex
from distui.runs.images.tar import BadArchive

LISTS = ("manifest.json", "index.json", "oci-layout", "repositories")
"""What says which images and names an archive holds."""
_NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
_ID = regex(r"(?:sha256:)?([0-9a-f]{12,64})")
_DIGEST = regex(r"sha256:[0-9a-f]{64}")
_DEEPEST = 4
"""Lists within lists: an index, its manifests, their configurations."""


def tagged(image: str, facts: ImageFacts) -> str:
    """The image as `save` should be asked for it: a name without a tag would mean all tags of it."""
    if "@" in image or ":" in image.rpartition("/")[2] or _is_id(image, facts):
        return image
    return f"{image}:latest"


def full_name(image: str) -> str:
    """A name with registry, folder and tag, as Docker completes it."""
    if not _has_registry(image):
        image = f"docker.io/{image}"
    registry, _, rest = image.partition("/")
    if registry == "docker.io" and "/" not in rest:
        image = f"docker.io/library/{rest}"
    return image if ":" in image.rpartition("/")[2] else f"{image}:latest"


def _has_registry(image: str) -> bool:
    head, slash, _ = image.partition("/")
    return bool(slash) and ("." in head or ":" in head or head == "localhost")


def rewritten(
    lists: Mapping[str, bytes],
    texts: Mapping[str, bytes],
    names: Collection[str],
    image: str,
    facts: ImageFacts,
    *,
    podman: bool = False,
) -> dict[str, bytes]:
    """The archive's lists, with nothing in them but `image`. Raises BadArchive for another image, or more of them.

    `texts` are the contents of its small entries, `names` all its entries. `podman` gave it out, which puts
    `localhost/` before short names.
    """
    wish = _Wish(image, facts, podman=podman)
    made: dict[str, bytes] = {}
    if "manifest.json" in lists:
        made["manifest.json"] = _dump([_manifest(_parsed(lists, "manifest.json"), texts, names, wish)])
    if "index.json" in lists and "oci-layout" in lists:
        made["index.json"] = _dump(_index(_parsed(lists, "index.json"), texts, wish))
        made["oci-layout"] = _dump({"imageLayoutVersion": "1.0.0"})
    if not made:
        raise BadArchive("does not say which image it holds")
    return made


class _Wish:
    """What was asked for."""

    def __init__(self, image: str, facts: ImageFacts, *, podman: bool) -> None:
        self.image, self.facts = image, facts
        self.by_id = _is_id(image, facts) or "@" in image
        self._full = {full_name(image)}
        if podman and not _has_registry(image):
            self._full.add(full_name(f"localhost/{image}"))

    def is_name(self, name: object) -> bool:
        """Whether a name in the archive is the one asked for."""
        return isinstance(name, str) and full_name(name) in self._full

    def is_config(self, content: bytes) -> bool:
        """Whether a configuration is that of the image: by its digest, or by the layers it names."""
        if f"sha256:{hashlib.sha256(content).hexdigest()}" == self.facts.id:
            return True
        value = _value(content)
        rootfs = value.get("rootfs") if isinstance(value, dict) else None
        return isinstance(rootfs, dict) and bool(self.facts.layers) and rootfs.get("diff_ids") == [*self.facts.layers]


def _is_id(image: str, facts: ImageFacts) -> bool:
    found = _ID.fullmatch(image)
    return bool(found) and facts.id.removeprefix("sha256:").startswith(found[1] if found else "-")


def _manifest(value: Any, texts: Mapping[str, bytes], names: Collection[str], wish: _Wish) -> dict[str, object]:
    """Docker's own list (image-spec v1.2)."""
    if not isinstance(value, list) or len(value) != 1 or not isinstance(value[0], dict):
        count = len(value) if isinstance(value, list) else 0
        raise BadArchive(f"holds {count} images where {wish.image} was asked for")
    config, layers = value[0].get("Config"), value[0].get("Layers")
    tags = _own_names(value[0].get("RepoTags") or [], wish)
    content = texts.get(config) if isinstance(config, str) else None
    digest = re.fullmatch(r"(?:blobs/sha256/)?([0-9a-f]{64})(?:\.json)?", str(config))
    if content is None or digest is None or hashlib.sha256(content).hexdigest() != digest[1]:
        raise BadArchive("lacks the image's configuration, or has it under another digest")
    if not wish.is_config(content):
        raise BadArchive(f"holds another image than {wish.image}, {wish.facts.id[:19]}")
    if not isinstance(layers, list) or len(layers) != len(wish.facts.layers) or not {*map(str, layers)} <= {*names}:
        raise BadArchive(f"has not the {len(wish.facts.layers)} layers of {wish.image}")
    return {"Config": config, "RepoTags": tags, "Layers": layers}


def _own_names(tags: Any, wish: _Wish) -> list[str] | None:
    if not isinstance(tags, list) or not all(map(wish.is_name, tags)):
        said = ", ".join(str(tag)[:200] for tag in tags) if isinstance(tags, list) else str(tags)[:200]
        raise BadArchive(f"would name an image {said}, where {wish.image} was asked for")
    if not tags and not wish.by_id:
        raise BadArchive(f"does not name its image {wish.image}")
    return [*map(str, tags)] or None


def _index(value: Any, texts: Mapping[str, bytes], wish: _Wish) -> dict[str, object]:
    """The list of an OCI layout (image-layout.md), as Docker 25 and later add it."""
    manifests = value.get("manifests") if isinstance(value, dict) else None
    if not isinstance(manifests, list) or len(manifests) != 1 or not isinstance(manifests[0], dict):
        raise BadArchive(f"has a list of more or less than one image where {wish.image} was asked for")
    one = manifests[0]
    said = one.get("annotations")
    annotations = {k: v for k in _NAMES if (v := (said if isinstance(said, dict) else {}).get(k)) is not None}
    tag = full_name(wish.image).rpartition(":")[2]
    wrong = [v for k, v in annotations.items() if not wish.is_name(v) and not (k == _NAMES[1] and v == tag)]
    if wrong:
        raise BadArchive(f"would name an image {str(wrong[0])[:200]}, where {wish.image} was asked for")
    if not any(map(wish.is_config, _configs(one, texts, _DEEPEST))) and one.get("digest") != wish.facts.id:
        raise BadArchive(f"holds another image than {wish.image}, {wish.facts.id[:19]}")
    kept = {k: one[k] for k in ("mediaType", "digest", "size", "platform") if k in one}
    return {"schemaVersion": 2, "manifests": [kept | ({"annotations": annotations} if annotations else {})]}


def _configs(node: object, texts: Mapping[str, bytes], depth: int) -> Iterator[bytes]:
    """The configurations that a descriptor leads to, each under its own digest. Raises BadArchive."""
    digest = node.get("digest") if isinstance(node, dict) else None
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest) or not depth:
        return
    content = texts.get(f"blobs/sha256/{digest.removeprefix('sha256:')}")
    if content is None:
        return
    if f"sha256:{hashlib.sha256(content).hexdigest()}" != digest:
        raise BadArchive("holds contents under another digest")
    value = _value(content)
    if not isinstance(value, dict):
        return
    if "rootfs" in value:
        yield content
    below = value.get("manifests")
    for child in [value.get("config"), *(below if isinstance(below, list) else [])]:
        yield from _configs(child, texts, depth - 1)


def _parsed(lists: Mapping[str, bytes], name: str) -> Any:
    value = _value(lists[name])
    if value is None:
        raise BadArchive(f"has a {name} that can't be read")
    return value


def _value(content: bytes) -> Any:
    try:
        return loads(content)
    except (ValueError, RecursionError):
        return None


def _dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
