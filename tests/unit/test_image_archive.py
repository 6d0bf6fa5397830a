"""Archives of `docker save`, read as they come: which bytes are which layer, and what is left out for whom."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.facts.image import ImageFacts, identities, legacy_folders, read_image, shared_layers
from distui.runs.images.archive import ImageReader, wanted
from distui.runs.images.manifest import full_name, tagged
from distui.runs.images.tar import BadArchive

BASE = "sha256:1d8d072e044ab2e8e8d7afd8e13c44b8608dcd6a68e0ac736fd124b0983f2849"
MIDDLE = "sha256:2f5c500a15d041479459e5a338d67998032a6486cd25f01ff6f434badbeb1262"
TOP = "sha256:f90bee2bd1544fe92b5ef0a00f4fa55b23660c830473621cf63321c8fce34e67"
LAYERS = (BASE, MIDDLE, TOP)
BASE_FOLDER = "6affb76ea1a4f6707362dc3eafa70277ea7d148d2140a6c0b27af7e0945a4996"
MIDDLE_FOLDER = "540031c1518e10b1d0334f06b656fa95ea47256674fad3da63064584251bb811"
TOP_FOLDER = "824912c1ed72a16d6065bb361452ba8b829c0b7cb6d3f68439047cfc494fad06"
CONFIG = json.dumps({"rootfs": {"type": "layers", "diff_ids": list(LAYERS)}}).encode()
DIGEST = hashlib.sha256(CONFIG).hexdigest()
FACTS = ImageFacts(f"sha256:{DIGEST}", LAYERS, 5)
IMAGE = "my/image:1"


def lists(layers: list[str], config: str = f"{DIGEST}.json") -> dict[str, bytes]:
    """The configuration and the lists of an archive."""
    manifest = [{"Config": config, "RepoTags": [IMAGE], "Layers": layers}]
    return {config: CONFIG, "manifest.json": json.dumps(manifest).encode()}


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
    names = [f"{folder}/layer.tar" for folder in (BASE_FOLDER, MIDDLE_FOLDER, TOP_FOLDER)]
    return entries | lists(names) | {"repositories": b"{}"}


def kept(archive: bytes, layers_wanted: frozenset[int], step: int = 700) -> dict[str, bytes]:
    """The archive that somebody gets who wants these layers, unpacked."""
    reader = ImageReader(IMAGE, FACTS)
    pieces = [p for at in range(0, len(archive), step) for p in reader.feed(archive[at : at + step])]
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
    found = kept(tar(legacy()), frozenset({2}), step)

    lower = {f"{BASE_FOLDER}/layer.tar", f"{MIDDLE_FOLDER}/layer.tar"}
    assert set(legacy()) - set(found) == lower | {"repositories"}
    assert found[f"{TOP_FOLDER}/layer.tar"] == TOP_FOLDER[:4].encode() * 500


def test_old_docker_uppermost_layer_is_known_by_its_parent() -> None:
    """An image that differs from one that is there in its configuration only needs no layer at all."""
    found = kept(tar(legacy()), frozenset())
    assert not [name for name in found if name.endswith("layer.tar")]
    assert "manifest.json" in found


def test_old_docker_of_a_form_not_known() -> None:
    """Folders with other names are no layers that anybody is known to have: all is sent."""
    entries = {name.replace(BASE_FOLDER, "0" * 64): data for name, data in legacy().items()}
    entries[f"{TOP_FOLDER}/json"] = json.dumps({"parent": "0" * 64}).encode()
    entries["manifest.json"] = entries["manifest.json"].replace(BASE_FOLDER.encode(), b"0" * 64)
    assert set(kept(tar(entries), frozenset({1, 2}))) == set(entries) - {"repositories"}


@pytest.mark.parametrize("name", ["blobs/sha256/{}", "{}.tar"])
@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_layers_named_by_digest(name: str, form: int) -> None:
    """Docker 25 and podman; headers that belong to an entry go with it."""
    entries = {name.format(layer.removeprefix("sha256:")): layer.encode() for layer in LAYERS}
    entries |= {"blobs/sha256/" + "a" * 64: b"{}", **lists(list(entries), name.replace(".tar", ".json").format(DIGEST))}
    found = kept(tar(entries, form), frozenset({1, 2}))
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
        list(ImageReader(IMAGE, FACTS).feed(b"Error response from daemon: no such image".ljust(512)))
    reader = ImageReader(IMAGE, FACTS)
    list(reader.feed(tar(legacy())[:2048]))
    assert not reader.complete


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=30), st.sets(st.integers(0, 2)))
def test_pieces_of_any_size(sizes: list[int], layers: set[int]) -> None:
    """However the bytes come, the same is kept."""
    archive = tar(legacy())
    reader = ImageReader(IMAGE, FACTS)
    data, at = b"", 0
    for size in [*sizes, len(archive)]:
        pieces = reader.feed(archive[at : at + size])
        data += b"".join(p.data for p in pieces if p.layer is None or p.layer in layers)
        at += size
    whole = ImageReader(IMAGE, FACTS).feed(archive)
    expected = b"".join(p.data for p in whole if p.layer is None or p.layer in layers)
    assert hashlib.sha256(data).digest() == hashlib.sha256(expected).digest()


def test_inspect_of_docker_and_podman() -> None:
    """docker prints an object by --format, podman a list and ids without their kind."""
    value = {
        "Id": "sha256:ab", "Size": 5, "Os": "linux", "Architecture": "amd64",
        "Config": {"Labels": {"distui.build": "f00"}}, "RootFS": {"Type": "layers", "Layers": list(LAYERS)},
    }  # fmt: skip
    facts = ImageFacts("sha256:ab", LAYERS, 5, "f00", "linux/amd64")
    assert replace(read_image(json.dumps(value)), content="") == facts
    assert replace(read_image(json.dumps([value | {"Id": "ab"}])), content="") == facts
    assert read_image(json.dumps(value | {"Size": 10**400})).size == 0, "no size that could be counted with"
    assert facts.identity == "build:f00"
    assert read_image('{"Id": "sha256:cd", "Config": {"Labels": null}}').identity == "sha256:cd"
    for wrong in ("", "[{", "Welcome!", "{}", '{"Config": []}', '"text"', "[3]"):
        with pytest.raises(ValueError, match=r"^the engine's answer can't be read$"):
            read_image(wrong)
    with pytest.raises(ValueError, match="names no image"):
        read_image("[]")


def test_one_image_in_stores_of_different_kinds() -> None:
    """Docker 29's containerd store gives the manifest's digest as the id, and leaves out what is empty."""
    own = {
        "Id": "sha256:config", "Created": "2026-01-02T03:04:05.678Z", "Os": "linux", "Architecture": "amd64",
        "Config": {"Env": ["A=1"], "Cmd": ["sh"], "Entrypoint": None, "User": "", "Labels": None, "Tty": False},
        "RootFS": {"Layers": list(LAYERS)},
    }  # fmt: skip
    other = own | {"Id": "sha256:manifest", "Size": 20, "Config": {"Cmd": ["sh"], "Env": ["A=1"]}}
    settings = own | {"Id": "sha256:c", "Config": {"Cmd": ["sh"], "Env": ["A=2"]}}
    later = other | {"Id": "sha256:d", "Created": "2026-01-02T03:04:06Z"}
    signal = own | {"Id": "sha256:e", "Config": {"Cmd": ["sh"], "Env": ["A=1"], "StopSignal": "SIGINT"}}
    found = dict(zip("abcde", (read_image(json.dumps(v)) for v in (own, other, settings, later, signal)), strict=True))
    assert list(identities(found).values()) == [*["sha256:config"] * 2, "sha256:c", "sha256:d", "sha256:e"]
    assert [found["a"].is_same(f) for f in found.values()] == [True, True, False, False, False]
    untold = {name: ImageFacts(f"sha256:{name}") for name in "ab"}
    assert identities(untold) == {"a": "sha256:a", "b": "sha256:b"}
    assert not untold["a"].is_same(untold["b"])


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


# hostile archives

BLOBS = {f"blobs/sha256/{layer.removeprefix('sha256:')}": layer.encode() for layer in LAYERS}
EVIL = json.dumps({"rootfs": {"type": "layers", "diff_ids": [BASE]}}).encode()
EVIL_DIGEST = hashlib.sha256(EVIL).hexdigest()


def docker25(**changes: Any) -> dict[str, bytes]:
    """What docker 25 and later writes, with changes in its lists."""
    config = f"blobs/sha256/{DIGEST}"
    manifest = json.dumps({"config": {"digest": f"sha256:{DIGEST}"}, "layers": []}).encode()
    digest = hashlib.sha256(manifest).hexdigest()
    names = {"io.containerd.image.name": f"docker.io/{IMAGE}", "org.opencontainers.image.ref.name": "1"}
    one = {"mediaType": "m", "digest": f"sha256:{digest}", "size": len(manifest), "annotations": names}
    entry = {"Config": config, "RepoTags": [IMAGE], "Layers": list(BLOBS)}
    lists = {
        "manifest.json": changes.get("manifest", [entry | changes.get("entry", {})]),
        "index.json": changes.get("index", {"schemaVersion": 2, "manifests": [one | changes.get("one", {})]}),
        "oci-layout": {"imageLayoutVersion": "1.0.0"},
        "repositories": {"my/image": {"1": "x"}, "victim": {"prod": "x"}},
    }
    blobs = {config: CONFIG, f"blobs/sha256/{digest}": manifest, f"blobs/sha256/{EVIL_DIGEST}": EVIL}
    return BLOBS | blobs | {name: json.dumps(value).encode() for name, value in lists.items()}


def test_docker_25_s_lists_hold_the_image_alone() -> None:
    """`repositories`, which old engines load by, is left out; the other two are written again."""
    found = kept(tar(docker25()), frozenset({0, 1, 2}))
    assert "repositories" not in found
    assert json.loads(found["manifest.json"])[0]["RepoTags"] == [IMAGE]
    (one,) = json.loads(found["index.json"])["manifests"]
    assert one["annotations"]["io.containerd.image.name"] == f"docker.io/{IMAGE}"
    assert b"victim" not in b"".join(found.values())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"entry": {"RepoTags": ["victim:prod"]}}, "would name an image victim:prod"),
        ({"entry": {"RepoTags": [IMAGE, "victim:prod"]}}, "would name an image my/image:1, victim:prod"),
        ({"entry": {"RepoTags": ["my/image:2"]}}, "would name"),
        ({"entry": {"RepoTags": [f"localhost/{IMAGE}"]}}, "would name"),
        ({"entry": {"RepoTags": None}}, "does not name its image"),
        ({"entry": {"RepoTags": "victim:prod"}}, "would name"),
        ({"entry": {"Config": f"blobs/sha256/{EVIL_DIGEST}"}}, "holds another image than my/image:1"),
        ({"entry": {"Config": "../etc/passwd"}}, "lacks the image's configuration"),
        ({"entry": {"Layers": []}}, "has not the 3 layers"),
        ({"entry": {"Layers": ["../a", "../b", "../c"]}}, "has not the 3 layers"),
        ({"manifest": []}, "holds 0 images"),
        ({"manifest": [{"RepoTags": [IMAGE]}, {"RepoTags": ["victim:prod"]}]}, "holds 2 images"),
        ({"manifest": {"RepoTags": ["victim:prod"]}}, "holds 0 images"),
        ({"one": {"annotations": {"io.containerd.image.name": "docker.io/library/victim:prod"}}}, "would name"),
        ({"one": {"annotations": {"org.opencontainers.image.ref.name": "docker.io/library/v:1"}}}, "would name"),
        ({"one": {"digest": f"sha256:{EVIL_DIGEST}"}}, "holds another image"),
        ({"index": {"manifests": [{}, {}]}}, "a list of more or less than one image"),
        ({"index": []}, "a list of more or less than one image"),
    ],
)
def test_lists_that_hold_anything_else_are_refused(changes: dict[str, Any], words: str) -> None:
    """Other names, other images, another configuration: nothing that an engine loads by has gone through by then."""
    reader, got = ImageReader(IMAGE, FACTS), bytearray()
    with pytest.raises(BadArchive, match=words):
        for piece in reader.feed(tar(docker25(**changes))):
            got += piece.data
    assert not reader.complete
    assert b"manifest.json" not in got
    assert b"index.json" not in got


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("../../etc/cron.d/x", b"x"),
        ("/etc/passwd", b"x"),
        ("evil.sh", b"x"),
        ("blobs/sha256/../../x", b"x"),
        (f"{'e' * 64}/layer.tar", b"->/etc/shadow"),
        (f"{'e' * 64}/layer.tar", b"->../../../x"),
        ("manifest.json", b"->blobs/sha256/" + b"e" * 64),
    ],
)
def test_entries_that_no_image_has_are_refused(name: str, content: bytes) -> None:
    with pytest.raises(BadArchive, match="no part of an image"):
        list(ImageReader(IMAGE, FACTS).feed(tar({**docker25(), name: content})))


def test_what_programs_read_differently_is_refused() -> None:
    """One entry twice, a name in an extended header for all, holes, a device; a hidden name is the name."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for _ in range(2):
            archive.addfile(tarfile.TarInfo("manifest.json"), io.BytesIO())
    with pytest.raises(BadArchive, match="twice"):
        list(ImageReader(IMAGE, FACTS).feed(out.getvalue()))
    for kind, headers in ((tarfile.XGLTYPE, {"path": "x"}), (tarfile.XHDTYPE, {"GNU.sparse.major": "1"})):
        block = tarfile.TarInfo.create_pax_global_header(headers)
        wrong = bytearray(block)
        wrong[156:157] = kind
        wrong[148:156] = b"%06o\0 " % (sum(wrong[:148]) + 256 + sum(wrong[156:512]))
        with pytest.raises(BadArchive, match="differently"):
            list(ImageReader(IMAGE, FACTS).feed(bytes(wrong) + tar(docker25())))
    device = tarfile.TarInfo("oci-layout")
    device.type = tarfile.CHRTYPE
    with pytest.raises(BadArchive, match="neither file"):
        list(ImageReader(IMAGE, FACTS).feed(device.tobuf()))
    hidden = tarfile.TarInfo(f"blobs/sha256/{'e' * 64}")
    hidden.pax_headers = {"path": "../../x"}
    with pytest.raises(BadArchive, match=r"\.\./\.\./x"):
        list(ImageReader(IMAGE, FACTS).feed(hidden.tobuf(tarfile.PAX_FORMAT)))


def test_an_archive_without_an_end_is_refused() -> None:
    """Whoever waited for its end would wait for ever: bytes behind it, headers of no entry, more than the image has."""
    ended = ImageReader(IMAGE, FACTS)
    list(ended.feed(tar(docker25()) + bytes(10_240)))
    assert ended.complete
    with pytest.raises(BadArchive, match="goes on after its end"):
        for _ in range(5):
            list(ended.feed(bytes(1 << 18)))

    comment = tarfile.TarInfo("x")
    comment.pax_headers = {"comment": "nothing"}
    header = comment.tobuf(tarfile.PAX_FORMAT)[:-512]
    with pytest.raises(BadArchive, match="headers for nothing"):
        list(ImageReader(IMAGE, FACTS).feed(header * 20))

    layer = tarfile.TarInfo(f"blobs/sha256/{TOP.removeprefix('sha256:')}")
    layer.size = 1 << 50
    with pytest.raises(BadArchive, match=r"has 1126 TB and more, where the image has 5 B"):
        list(ImageReader(IMAGE, FACTS).feed(layer.tobuf(tarfile.GNU_FORMAT)))
    unknown, some = ImageReader(IMAGE, FACTS), tarfile.TarInfo()
    some.size = 500 << 20
    with pytest.raises(BadArchive, match=r"has 1\.6 GB and more"):
        for i in range(4):
            some.name = f"blobs/sha256/{i:064x}"
            list(unknown.feed(some.tobuf(tarfile.GNU_FORMAT)))
            for _ in range(500):
                list(unknown.feed(bytes(1 << 20)))


def test_a_layer_beyond_eight_gigabytes() -> None:
    """Its size is in an extended header, as Go writes it, or in base 256; the header made here says the same."""
    name, size = f"blobs/sha256/{BASE.removeprefix('sha256:')}", 9 << 30
    info = tarfile.TarInfo(name)
    info.size = size
    large = replace(FACTS, size=size)
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        (piece,) = ImageReader(IMAGE, large).feed(info.tobuf(form))
        assert piece.layer == 0
        assert tarfile.TarInfo.frombuf(piece.data[-512:], "utf-8", "strict").name == name
        (again,) = ImageReader(IMAGE, large).feed(piece.data)
        assert again == piece
        assert str(size).encode() in piece.data


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("app", "docker.io/library/app:latest"),
        ("app:1", "docker.io/library/app:1"),
        ("team/app:1", "docker.io/team/app:1"),
        ("reg:5000/app", "reg:5000/app:latest"),
        ("localhost/app:1", "localhost/app:1"),
        ("docker.io/library/app:1", "docker.io/library/app:1"),
        ("docker.io/app", "docker.io/library/app:latest"),
    ],
)
def test_full_names(image: str, name: str) -> None:
    assert full_name(image) == name


def test_an_image_is_asked_for_by_one_name() -> None:
    """`docker save app` would give all tags of it; an id has none."""
    assert tagged("reg:5000/app", FACTS) == "reg:5000/app:latest"
    assert tagged("app:1", FACTS) == "app:1"
    assert tagged(DIGEST[:12], FACTS) == DIGEST[:12]
    assert tagged("deadbeefdeadbeef", FACTS) == "deadbeefdeadbeef:latest"
