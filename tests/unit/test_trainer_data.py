"""What the trainers read: IDX files and the digits, without torch."""

from __future__ import annotations

import functools
import gzip
import hashlib
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.trainers import digits, idx

packed = functools.partial(gzip.compress, mtime=0)  # the same bytes, and so the same test, each time
THREE_BY_TWO = bytes((0, 0, 8, 2)) + struct.pack(">2I", 3, 2) + b"abcdef"


def idx_bytes(shape: tuple[int, ...], data: bytes) -> bytes:
    return bytes((0, 0, 8, len(shape))) + struct.pack(f">{len(shape)}I", *shape) + data


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4).map(tuple), st.data())
def test_an_idx_file_gives_back_its_shape_and_its_bytes(shape: tuple[int, ...], data: st.DataObject) -> None:
    """Any shape, also with no images, comes back as it was written."""
    size = 1
    for length in shape:
        size *= length
    pixels = data.draw(st.binary(min_size=size, max_size=size))
    assert idx.parse(idx_bytes(shape, pixels), len(shape)) == (shape, pixels)


@given(st.binary(max_size=64))
def test_any_bytes_are_an_idx_file_or_a_value_error(content: bytes) -> None:
    """No content, however broken, ends in anything but a shape that fits the data or a ValueError."""
    try:
        shape, data = idx.parse(content, 1)
    except ValueError:
        return
    assert shape == (len(data),)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "not an IDX file of unsigned bytes: it starts with nothing"),
        (b"\x1f\x8b\x08\x00 and so on", "not an IDX file of unsigned bytes: it starts with 1f 8b 08 00"),
        (b"<!DOCTYPE html>", "it starts with 3c 21 44 4f"),
        (bytes((0, 0, 13, 2)), "not an IDX file of unsigned bytes"),
        (bytes((0, 0, 8, 3)), "it has 3 dimensions where 2 are expected"),
        (THREE_BY_TWO[:9], "cut short inside its header, after 9 bytes"),
        (THREE_BY_TWO[:-1], "it holds 5 bytes of data where its header says 6"),
        (THREE_BY_TWO + b"!", "it holds 7 bytes of data where its header says 6"),
    ],
)
def test_a_broken_idx_file_is_told_apart(content: bytes, problem: str) -> None:
    """Each way to be broken has its own words."""
    with pytest.raises(ValueError, match=problem):
        idx.parse(content, 2)


@pytest.mark.parametrize(("ending", "pack"), [("", bytes), (".gz", gzip.compress)])
def test_an_idx_file_is_found_plain_or_gzipped(tmp_path: Path, ending: str, pack: type[bytes]) -> None:
    """The plain name finds both."""
    (tmp_path / f"train-images-idx3-ubyte{ending}").write_bytes(pack(THREE_BY_TWO))
    assert idx.read(idx.find(tmp_path, "train-images-idx3-ubyte"), 2) == ((3, 2), b"abcdef")


def test_a_missing_file_is_named_with_its_folder(tmp_path: Path) -> None:
    """The message has the folder, both names that would do, and the argument to change."""
    with pytest.raises(idx.DataError) as caught:
        idx.find(tmp_path, "t10k-labels-idx1-ubyte")
    assert str(caught.value) == (
        f"no data in {tmp_path} on this host: it holds no t10k-labels-idx1-ubyte or t10k-labels-idx1-ubyte.gz; "
        "--data names a folder with four IDX files"
    )


def test_a_missing_folder_is_told_from_an_empty_one(tmp_path: Path) -> None:
    """A wrong mount and a wrong folder need different hands."""
    with pytest.raises(idx.DataError, match="there is no such folder"):
        idx.find(tmp_path / "mnist", "t10k-labels-idx1-ubyte")


@pytest.mark.parametrize("content", [b"plain text", packed(THREE_BY_TWO)[:-9], packed(b"x" * 99)[:20]])
def test_a_broken_gzip_file_is_named(tmp_path: Path, content: bytes) -> None:
    """A page saved as .gz and a download cut short both name the file and say to fetch it again."""
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(content)
    with pytest.raises(idx.DataError) as caught:
        idx.read(path, 2)
    assert str(caught.value).startswith(f"{path}: not a whole gzip file")
    assert str(caught.value).endswith("fetch the file again")


def test_a_broken_plain_file_is_named(tmp_path: Path) -> None:
    """The file's name comes before what is wrong with it."""
    path = tmp_path / "train-labels-idx1-ubyte"
    path.write_bytes(THREE_BY_TWO)
    with pytest.raises(idx.DataError, match=f"{path}: it has 2 dimensions where 1 are expected; fetch"):
        idx.read(path, 1)


@pytest.mark.parametrize(
    ("labels", "images", "problem"),
    [
        (b"\x01\x02", 3, "2 labels for 3 images"),
        (b"", 0, "0 labels for 0 images"),
        (b"\x01\x0a", 2, "a label is 10 where 0 to 9 are expected"),
    ],
)
def test_labels_must_fit_their_images(labels: bytes, images: int, problem: str) -> None:
    """One label per image, each a class the network has."""
    with pytest.raises(idx.DataError, match=problem):
        idx.check_labels(Path("train-labels-idx1-ubyte"), labels, images, 10)


def test_good_labels_pass() -> None:
    """Labels 0 to 9, one per image, are fine."""
    idx.check_labels(Path("train-labels-idx1-ubyte"), bytes(range(10)), 10, 10)


def test_the_digits_are_the_set_that_scikit_learn_ships() -> None:
    """The file is the one DATA.md describes, byte for byte."""
    content = Path(digits.__file__).with_name("digits.csv.gz").read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    assert digest == "09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22"
    assert digest in Path(digits.__file__).with_name("DATA.md").read_text(encoding="utf-8")


def test_the_digits_are_1797_images_of_all_ten_classes() -> None:
    """64 pixels of 0 to 16 each, then the digit; the first image is a zero."""
    images = digits.read()
    assert len(images) == 1797
    assert {len(image) for image in images} == {65}
    assert {image[-1] for image in images} == set(range(10))
    assert max(max(image[:-1]) for image in images) == digits.PEAK
    assert images[0][:8] == bytes((0, 0, 5, 13, 9, 1, 0, 0))
    assert images[0][-1] == 0


def test_the_split_leaves_nothing_out_and_shares_nothing() -> None:
    """Train and test are all images, each once."""
    numbered = [bytes((number,)) for number in range(23)]
    train, test = digits.split(numbered)
    assert sorted(train + test) == numbered
    assert test == [bytes((number,)) for number in (4, 9, 14, 19)]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "No such file"),
        (b"not gzip", "gzip"),
        (packed(b"1,2,3\n"), "not 64 pixels"),
        (packed(b",".join([b"17"] * 64) + b",1\n"), "not 64 pixels of 0 to 16 and a digit"),
        (packed(b",".join([b"16"] * 64) + b",10\n"), "not 64 pixels of 0 to 16 and a digit"),
        (packed(b"zero\n"), "zero"),
    ],
)
def test_a_broken_digits_file_is_named(tmp_path: Path, content: bytes | None, problem: str) -> None:
    """Missing, not gzip, or not digits: one ValueError that names the file."""
    path = tmp_path / "digits.csv.gz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=problem) as caught:
        digits.read(path)
    assert str(path) in str(caught.value)
