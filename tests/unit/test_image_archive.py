"""Archives of `docker save`, read as they come: which bytes are which layer, and what is left out for whom."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.facts.image import ImageFacts, legacy_folders, read_image, shared_layers
from distui.run.image_archive import BadArchive, LayerReader, wanted

BASE = "sha256:1d8d072e044ab2e8e8d7afd8e13c44b8608dcd6a68e0ac736fd124b0983f2849"
MIDDLE = "sha256:2f5c500a15d041479459e5a338d67998032a6486cd25f01ff6f434badbeb1262"
TOP = "sha256:f90bee2bd1544fe92b5ef0a00f4fa55b23660c830473621cf63321c8fce34e67"
LAYERS = (BASE, MIDDLE, TOP)
BASE_FOLDER = "6affb76ea1a4f6707362dc3eafa70277ea7d148d2140a6c0b27af7e0945a4996"
MIDDLE_FOLDER = "540031c1518e10b1d0334f06b656fa95ea47256674fad3da63064584251bb811"
TOP_FOLDER = "824912c1ed72a16d6065bb361452ba8b829c0b7cb6d3f68439047cfc494fad06"


def tar(entries: dict[str, bytes], form: int = tarfile.GNU_FORMAT) -> bytes:
    """An archive; a value that begins with `->` is a link."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, data in entries.items():
            info = tarfile.TarInfo(name)
            if form == tarfile.PAX_FORMAT:
                info.pax_headers = {"mtime": "1700000000.123456789"}
            if data.startswith(b"->"):
                info.type, info.linkname = tarfile.SYMTYPE, data[2:].decode()
                archive.addfile(info)
            else:
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def legacy() -> dict[str, bytes]:
    """What docker 20.10 wrote for an image of LAYERS: the folders' names are its own."""
    said = {
        BASE_FOLDER: {"id": BASE_FOLDER},
        MIDDLE_FOLDER: {"id": MIDDLE_FOLDER, "parent": BASE_FOLDER},
        TOP_FOLDER: {"id": TOP_FOLDER, "parent": MIDDLE_FOLDER},
    }
    entries = {}
    for folder in sorted(said):
        entries |= {f"{folder}/VERSION": b"1.0", f"{folder}/json": json.dumps(said[folder]).encode()}
        entries[f"{folder}/layer.tar"] = folder[:4].encode() * 500
    return entries | {"manifest.json": b"[]", "repositories": b"{}"}


def kept(archive: bytes, layers: tuple[str, ...], layers_wanted: frozenset[int], step: int = 700) -> dict[str, bytes]:
    """The archive that somebody gets who wants these layers, unpacked."""
    reader = LayerReader(layers)
    pieces = [p for at in range(0, len(archive), step) for p in reader.feed(archive[at : at + step])]
    assert b"".join(p.data for p in pieces) == archive
    assert reader.complete
    data = b"".join(p.data for p in pieces if p.layer is None or p.layer in layers_wanted)
    with tarfile.open(fileobj=io.BytesIO(data)) as found:
        return {m.name: f.read() if (f := found.extractfile(m)) and m.isfile() else b"" for m in found}


def test_folders_of_old_docker() -> None:
    """As docker 20.10.24 named them for an image with these layers."""
    assert legacy_folders(LAYERS) == (BASE_FOLDER, MIDDLE_FOLDER)
    assert legacy_folders((BASE,)) == ()


@pytest.mark.parametrize("step", [1, 511, 512, 513, 1 << 20])
def test_old_docker_layers_left_out(step: int) -> None:
    """Only the contents of the layers that are there are left out, in pieces of any size."""
    found = kept(tar(legacy()), LAYERS, frozenset({2}), step)

    assert set(legacy()) - set(found) == {f"{BASE_FOLDER}/layer.tar", f"{MIDDLE_FOLDER}/layer.tar"}
    assert found[f"{TOP_FOLDER}/layer.tar"] == TOP_FOLDER[:4].encode() * 500


def test_old_docker_uppermost_layer_is_known_by_its_parent() -> None:
    """An image that differs from one that is there in its configuration only needs no layer at all."""
    found = kept(tar(legacy()), LAYERS, frozenset())
    assert not [name for name in found if name.endswith("layer.tar")]
    assert "manifest.json" in found


def test_old_docker_of_a_form_not_known() -> None:
    """Folders with other names are no layers that anybody is known to have: all is sent."""
    entries = {name.replace(BASE_FOLDER, "0" * 64): data for name, data in legacy().items()}
    entries[f"{TOP_FOLDER}/json"] = json.dumps({"parent": "0" * 64}).encode()
    assert set(kept(tar(entries), LAYERS, frozenset({1, 2}))) == set(entries)


@pytest.mark.parametrize("name", ["blobs/sha256/{}", "{}.tar"])
@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_layers_named_by_digest(name: str, form: int) -> None:
    """Docker 25 and podman; headers that belong to an entry go with it."""
    entries = {name.format(layer.removeprefix("sha256:")): layer.encode() for layer in LAYERS}
    entries |= {"blobs/sha256/" + "a" * 64: b"{}", "manifest.json": b"[]"}
    found = kept(tar(entries, form), LAYERS, frozenset({1, 2}))
    assert set(entries) - set(found) == {name.format(BASE.removeprefix("sha256:"))}


def test_a_layer_that_is_repeated_above_is_sent() -> None:
    """An archive holds equal layers once; the lower one may be a name for what is needed above."""
    assert wanted((BASE, MIDDLE, BASE), 2) == {0, 2}
    assert wanted((BASE, MIDDLE, TOP), 2) == {2}
    assert wanted(LAYERS, 3) == frozenset()
    assert wanted(LAYERS, 0) == {0, 1, 2}


def test_what_is_no_archive() -> None:
    """An error message instead of an archive is not passed on as one."""
    with pytest.raises(BadArchive):
        list(LayerReader(LAYERS).feed(b"Error response from daemon: no such image".ljust(512)))
    reader = LayerReader(LAYERS)
    list(reader.feed(tar(legacy())[:2048]))
    assert not reader.complete


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=30), st.sets(st.integers(0, 2)))
def test_pieces_of_any_size(sizes: list[int], layers: set[int]) -> None:
    """However the bytes come, the same is kept."""
    archive = tar(legacy())
    reader = LayerReader(LAYERS)
    data, at = b"", 0
    for size in [*sizes, len(archive)]:
        pieces = reader.feed(archive[at : at + size])
        data += b"".join(p.data for p in pieces if p.layer is None or p.layer in layers)
        at += size
    whole = LayerReader(LAYERS).feed(archive)
    expected = b"".join(p.data for p in whole if p.layer is None or p.layer in layers)
    assert hashlib.sha256(data).digest() == hashlib.sha256(expected).digest()


def test_inspect_of_docker_and_podman() -> None:
    """docker prints an object by --format, podman a list and ids without their kind."""
    value = {
        "Id": "sha256:ab", "Size": 5, "Os": "linux", "Architecture": "amd64",
        "Config": {"Labels": {"distui.build": "f00"}}, "RootFS": {"Type": "layers", "Layers": list(LAYERS)},
    }  # fmt: skip
    facts = ImageFacts("sha256:ab", LAYERS, 5, "f00", "linux/amd64")
    assert read_image(json.dumps(value)) == facts
    assert read_image(json.dumps([value | {"Id": "ab"}])) == facts
    assert facts.identity == "build:f00"
    assert read_image('{"Id": "sha256:cd", "Config": {"Labels": null}}').identity == "sha256:cd"
    for wrong in ("", "[]", "{}", '{"Config": []}', '"text"', "[3]"):
        with pytest.raises(ValueError, match=r"."):
            read_image(wrong)


@pytest.mark.parametrize(
    ("platform", "machine", "another"),
    [
        ("linux/amd64", "x86_64", False),
        ("linux/386", "x86_64", False),
        ("linux/arm64", "x86_64", True),
        ("linux/arm64", "aarch64", False),
        ("linux/amd64", "aarch64", True),
        ("linux/amd64", "mips64", False),
        ("linux/amd64", None, False),
        ("", "x86_64", False),
    ],
)
def test_an_image_for_another_processor(platform: str, machine: str | None, another: bool) -> None:
    """By the names of `uname -m` and of images; what is not known is not told."""
    assert ImageFacts("sha256:ab", platform=platform).is_for_another(machine) is another


def test_shared_layers_are_a_common_beginning() -> None:
    """A layer above another one is another layer; the size is that of an image which ends there."""
    images = (
        ImageFacts("a", (BASE,), 100),
        ImageFacts("b", (BASE, MIDDLE, "sha256:other"), 170),
        ImageFacts("c", (MIDDLE, TOP), 900),
    )
    assert shared_layers(LAYERS, images) == (2, 0)
    assert shared_layers(LAYERS, images[:1]) == (1, 100)
    assert shared_layers(LAYERS, ()) == (0, 0)
    assert shared_layers(LAYERS, (ImageFacts("d", LAYERS, 300),)) == (3, 300)
