"""Public data sets: formats, checksums, where they are looked for; and the tasks made of images."""

import gzip
import hashlib
import io
import os
import struct
import tarfile
import urllib.error
from dataclasses import replace
from http.client import IncompleteRead

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from saddlewalk.errors import InputError
from saddlewalk.tasks import public
from saddlewalk.tasks.images import agf_figure_7, images
from saddlewalk.tasks.public import load_public, parse_cifar, parse_idx


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Threads of linear algebra would wait for those of other tests."""
    with threadpool_limits(1):
        yield


USERS_FOLDER = os.environ.get("SADDLEWALK_DATA")
USERS_CACHE = os.environ.get("XDG_CACHE_HOME")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, no local folder and no network, whatever the machine has."""
    monkeypatch.delenv("SADDLEWALK_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(public, "urlopen", offline)
    return tmp_path / "cache" / "saddlewalk"


@pytest.fixture
def local(tmp_path, monkeypatch):
    """An empty local folder that SADDLEWALK_DATA names."""
    folder = tmp_path / "local"
    folder.mkdir()
    monkeypatch.setenv("SADDLEWALK_DATA", str(folder))
    return folder


def offline(url, timeout):
    raise urllib.error.URLError("no route to host")


def serve(monkeypatch, pages):
    """Answer downloads from a table; return the list of addresses asked for."""
    asked = []

    def answer(url, timeout):
        asked.append(url)
        return io.BytesIO(pages[url])

    monkeypatch.setattr(public, "urlopen", answer)
    return asked


def random_arrays(shape, train=60, test=20, seed=0):
    rng = np.random.default_rng(seed)
    arrays = {}
    for split, n in (("train", train), ("test", test)):
        arrays[f"X_{split}"] = rng.integers(0, 256, size=(n, *shape), dtype=np.uint8)
        arrays[f"y_{split}"] = rng.permutation(np.arange(n, dtype=np.uint8) % 10)
    return arrays


def idx(array):
    return (
        bytes([0, 0, 8, array.ndim])
        + struct.pack(f">{array.ndim}I", *array.shape)
        + array.tobytes()
    )


def cifar_records(x, y):
    return b"".join(
        bytes([k]) + im.transpose(2, 0, 1).tobytes() for im, k in zip(x, y, strict=True)
    )


def cifar_archive(arrays):
    sink = io.BytesIO()
    train = np.array_split(np.arange(len(arrays["y_train"])), 5)
    batches = {f"data_batch_{k + 1}": ("train", rows) for k, rows in enumerate(train)}
    batches["test_batch"] = ("test", np.arange(len(arrays["y_test"])))
    with tarfile.open(fileobj=sink, mode="w:gz") as tar:
        for name, (split, rows) in batches.items():
            content = cifar_records(arrays[f"X_{split}"][rows], arrays[f"y_{split}"][rows])
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return sink.getvalue()


def publish(monkeypatch, name, contents):
    """Make these bytes the published ones, with their checksums; the table to serve them from."""
    known = public.SETS[name]
    downloads = tuple(
        replace(part, length=len(content), md5=hashlib.md5(content).hexdigest())
        for part, content in zip(known.downloads, contents, strict=True)
    )
    monkeypatch.setitem(public.SETS, name, replace(known, downloads=downloads))
    return {part.url: content for part, content in zip(downloads, contents, strict=True)}


def published_mnist(monkeypatch):
    arrays = random_arrays((28, 28))
    contents = [gzip.compress(idx(arrays[name])) for name in public.IMAGE_ARRAYS]
    return arrays, publish(monkeypatch, "mnist", contents)


def published_cifar(monkeypatch):
    arrays = random_arrays((32, 32, 3))
    return arrays, publish(monkeypatch, "cifar10", [cifar_archive(arrays)])


def assert_equal(found, expected):
    assert set(found) == set(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


# ---------------------------------------------------------------- formats


@pytest.mark.parametrize("shape", [(3,), (2, 4, 5)])
def test_idx_files_are_read_back(shape):
    array = np.random.default_rng(1).integers(0, 256, size=shape, dtype=np.uint8)
    found = parse_idx(idx(array))
    np.testing.assert_array_equal(found, array)
    assert found.flags.writeable


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "begins with ''"),
        (bytes([0, 0, 13, 1, 0, 0, 0, 0]), "begins with '00000d01'"),  # floats
        (bytes([0, 0, 8, 3, 0, 0]), "inside its header"),
        (idx(np.zeros((2, 3), np.uint8))[:-1], r"shape \(2, 3\) and holds 5 bytes"),
        (idx(np.zeros((2, 3), np.uint8)) + b"x", r"shape \(2, 3\) and holds 7 bytes"),
    ],
)
def test_broken_idx_files_are_refused(content, complaint):
    with pytest.raises(InputError, match=complaint):
        parse_idx(content)


def test_cifar_records_are_a_label_and_three_planes():
    x, y = np.zeros((2, 32, 32, 3), np.uint8), np.array([7, 2], np.uint8)
    x[1, 4, 9] = 10, 20, 30
    record = cifar_records(x, y)[3073:]
    assert record[0] == 2
    assert [record[1 + 1024 * plane + 32 * 4 + 9] for plane in range(3)] == [10, 20, 30]
    found = parse_cifar(cifar_records(x, y))
    np.testing.assert_array_equal(found[0], x)
    np.testing.assert_array_equal(found[1], y)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "0 is no multiple"),
        (bytes(3072), "3072 is no multiple"),
        (b"\x0a" + bytes(3072), "10"),
    ],
)
def test_broken_cifar_records_are_refused(content, complaint):
    with pytest.raises(InputError, match=complaint):
        parse_cifar(content)


# ---------------------------------------------------------------- downloads


@pytest.mark.parametrize(
    ("name", "published"), [("mnist", published_mnist), ("cifar10", published_cifar)]
)
def test_a_download_is_parsed_kept_and_not_repeated(name, published, cache, monkeypatch):
    arrays, pages = published(monkeypatch)
    asked = serve(monkeypatch, pages)
    assert_equal(load_public(name), arrays)
    assert asked == list(pages)
    assert [file.name for file in cache.iterdir()] == [f"{name}.npz"]
    assert_equal(load_public(name), arrays)
    assert asked == list(pages)


def test_the_checksums_are_the_published_ones():
    """A slip in the table would refuse every true download."""
    sums = {
        part.url.rsplit("/", 1)[1]: part.md5 for s in public.SETS.values() for part in s.downloads
    }
    assert sums == {
        "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
        "cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530",
    }


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda content: content[:-1] + bytes([content[-1] ^ 1]), "MD5"),
        (lambda content: content + b"more", "MD5"),
        (lambda content: content[: len(content) // 2], "broke off after"),
    ],
    ids=["one bit", "too long", "truncated"],
)
@pytest.mark.parametrize("part", [0, 3])
def test_a_spoiled_download_is_refused_and_leaves_nothing(
    spoil, complaint, part, cache, monkeypatch
):
    _, pages = published_mnist(monkeypatch)
    url = list(pages)[part]
    pages[url] = spoil(pages[url])
    serve(monkeypatch, pages)
    with pytest.raises(InputError, match=complaint):
        load_public("mnist")
    assert list(cache.iterdir()) == []


class Interrupted(io.BytesIO):
    def read(self, size=-1):
        raise IncompleteRead(b"half")


def test_a_connection_that_breaks_is_refused_and_leaves_nothing(cache, monkeypatch):
    monkeypatch.setattr(public, "urlopen", lambda url, timeout: Interrupted())
    with pytest.raises(InputError, match="IncompleteRead"):
        load_public("cifar10")
    assert list(cache.iterdir()) == []


def test_offline_says_what_was_tried_and_what_to_do(cache):
    with pytest.raises(InputError) as caught:
        load_public("cifar10")
    sentence = str(caught.value)
    tried = ["SADDLEWALK_DATA not set", str(cache), "cifar-10-binary.tar.gz", "no route to host"]
    remedy = "put cifar10.npz or cifar10_5k.npz into a folder and set SADDLEWALK_DATA to it."
    for part in [*tried, remedy]:
        assert part in sentence
    assert "\n" not in sentence


def test_a_cache_that_cannot_be_made_is_said_before_anything_is_fetched(tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("a file")
    asked = serve(monkeypatch, {})
    with pytest.raises(InputError, match="XDG_CACHE_HOME"):
        load_public("mnist")
    assert asked == []


def test_a_full_disk_leaves_nothing_in_the_cache(cache, monkeypatch):
    def full(handle, **arrays):
        handle.write(b"half")
        raise OSError(28, "No space left on device")

    _, pages = published_mnist(monkeypatch)
    serve(monkeypatch, pages)
    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(InputError, match="No space left"):
        load_public("mnist")
    assert list(cache.iterdir()) == []


# ---------------------------------------------------------------- local files


def test_the_local_folder_comes_first(local, cache, monkeypatch):
    here, kept = random_arrays((28, 28), seed=1), random_arrays((28, 28), seed=2)
    cache.mkdir(parents=True)
    np.savez(cache / "mnist.npz", **kept)
    assert_equal(load_public("mnist"), kept)
    np.savez(local / "mnist.npz", **here)
    assert_equal(load_public("mnist"), here)


def test_the_whole_of_cifar_is_preferred_to_the_subset_in_the_same_folder(local):
    whole, part = random_arrays((32, 32, 3), 40), random_arrays((32, 32, 3), 30)
    np.savez(local / "cifar10_5k.npz", **part, names=np.array(["airplane", "automobile"]))
    assert len(load_public("cifar10")["y_train"]) == 30
    np.savez(local / "cifar10.npz", **whole)
    assert len(load_public("cifar10")["y_train"]) == 40


def test_subsets_are_told_from_whole_sets(monkeypatch):
    arrays = random_arrays((28, 28))
    assert public.is_subset("mnist", arrays)
    monkeypatch.setitem(public.SETS, "mnist", replace(public.SETS["mnist"], train=60))
    assert not public.is_subset("mnist", arrays)


def test_uci_comes_from_a_local_file_only(local):
    with pytest.raises(
        InputError, match=r"no one place to get it from.*put uci\.npz into a folder"
    ):
        load_public("uci")
    tables = {"X/iris": np.ones((3, 2)), "y/iris": np.arange(3), "names": np.array(["iris"])}
    np.savez(local / "uci.npz", **tables)
    assert_equal(load_public("uci"), tables)
    np.savez(local / "uci.npz", **{**tables, "names": np.array(["iris", "wine"])})
    with pytest.raises(InputError, match="no array X/wine"):
        load_public("uci")


def test_unknown_names_and_folders_are_said(monkeypatch):
    with pytest.raises(InputError, match="Did you mean 'cifar10'"):
        load_public("cifar100")
    monkeypatch.setenv("SADDLEWALK_DATA", "/no/such/folder")
    with pytest.raises(InputError, match="/no/such/folder, which is not a folder"):
        load_public("mnist")


def write_pickled(file):
    objects = np.array([{"a": 1}], dtype=object)
    np.savez(file, X_train=objects, y_train=objects, X_test=objects, y_test=objects)


def write_truncated(file):
    np.savez_compressed(file, **random_arrays((28, 28)))
    file.write_bytes(file.read_bytes()[:5000])


def write_flipped(file):
    np.savez_compressed(file, **random_arrays((28, 28)))
    content = bytearray(file.read_bytes())
    content[2000:2100] = bytes(100)
    file.write_bytes(content)


def write_single_array(file):
    with file.open("wb") as handle:
        np.save(handle, np.zeros(3))


@pytest.mark.parametrize(
    "write",
    [
        write_pickled,
        write_truncated,
        write_flipped,
        write_single_array,
        lambda file: file.write_bytes(b""),
        lambda file: file.write_text("hello"),
    ],
)
def test_unreadable_files_are_refused(write, local):
    write(local / "mnist.npz")
    with pytest.raises(InputError, match="cannot be read as"):
        load_public("mnist")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"X_test": None}, "no array X_test"),
        ({"X_train": np.zeros((60, 28, 28))}, "must hold uint8"),
        ({"X_train": np.zeros((60, 784), np.uint8)}, r"of shape \(784,\)"),
        ({"y_train": np.zeros(59, np.uint8)}, "must hold 60 whole numbers"),
        ({"y_train": np.zeros((60, 10), np.uint8)}, r"of shape \(60, 10\)"),
        ({"y_test": np.full(20, 10)}, "labels outside 0 ... 9"),
    ],
)
def test_files_with_other_contents_are_refused(changes, complaint, local):
    arrays = {**random_arrays((28, 28)), **changes}
    np.savez(local / "mnist.npz", **{k: v for k, v in arrays.items() if v is not None})
    with pytest.raises(InputError, match=complaint):
        load_public("mnist")


# ---------------------------------------------------------------- tasks, on synthetic images


@pytest.fixture
def mnist(local):
    """Sixty random digits in the local folder; the corner block of pixels is always dark."""
    arrays = random_arrays((28, 28))
    arrays["X_train"][:, :7, :7] = 0
    np.savez(local / "mnist.npz", **arrays)
    return arrays


def test_plain_images_are_gray_centered_and_in_unit_range(local):
    arrays = random_arrays((32, 32, 3))
    np.savez(local / "cifar10.npz", **arrays)
    task = images("cifar10", samples=60, whiten=False)
    gray = arrays["X_train"].sum(axis=3).reshape(60, -1) / (3 * 255)
    np.testing.assert_allclose(task.x.mean(axis=0), 0, atol=1e-15)
    assert by_label(task.x, task.y, 4) == pytest.approx(
        by_label(gray - gray.mean(axis=0), np.eye(10)[arrays["y_train"]], 4), abs=1e-13
    )


def by_label(x, y, label):
    """The inputs of one class in an order that does not depend on the draw."""
    members = x[np.argmax(y, axis=1) == label]
    return members[np.argsort(members[:, 0])]


def test_targets_are_one_hot_minus_the_mean_over_classes(mnist):
    task = images("mnist", samples=40, size=4)
    assert task.outputs == 10
    np.testing.assert_allclose(np.sort(task.y, axis=1), [[-0.1] * 9 + [0.9]] * 40, rtol=1e-15)
    np.testing.assert_allclose(task.y.sum(axis=0), 0, atol=1e-14)


def test_the_draw_is_balanced_as_far_as_the_classes_allow(local):
    arrays = random_arrays((28, 28), train=40)
    arrays["y_train"] = np.repeat([0, 1, 2], [2, 8, 30]).astype(np.uint8)
    np.savez(local / "mnist.npz", **arrays)

    def counts(samples):
        task = images("mnist", samples, whiten=False)
        return np.sum(task.y > 0, axis=0)[:3].tolist()

    assert counts(6) == [2, 2, 2]
    assert counts(14) == [2, 6, 6]
    assert counts(40) == [2, 8, 30]


def test_the_same_seed_gives_the_same_images_and_more_of_them_begin_alike(mnist):
    first, again = (images("mnist", 40, size=4) for _ in range(2))
    np.testing.assert_array_equal(first.x, again.x)
    np.testing.assert_array_equal(first.y, images("mnist", 60, size=4).y[:40])
    assert not np.array_equal(first.x, images("mnist", 40, size=4, seed=1).x)


def test_down_sampling_takes_the_mean_of_blocks(mnist):
    fine = images("mnist", 20, whiten=False).x.reshape(20, 28, 28)
    coarse = images("mnist", 20, whiten=False, size=14).x.reshape(20, 14, 14)
    np.testing.assert_allclose(coarse[:, 3, 5], fine[:, 6:8, 10:12].mean(axis=(1, 2)), atol=1e-15)


def test_whitening_makes_directions_equal_and_the_mean_square_one(mnist):
    plain, white = (images("mnist", 50, whiten=w, size=4).x for w in (False, True))
    dark = ~np.any(plain, axis=0)
    assert dark.sum() == 1
    assert not np.any(white[:, dark]), "a pixel that never lights up stays exactly zero"
    covariance = white[:, ~dark].T @ white[:, ~dark] / 50
    np.testing.assert_allclose(covariance, np.eye(15) / 15, atol=1e-14)
    assert np.mean(np.sum(white**2, axis=1)) == pytest.approx(1)
    # among all whitenings this one stays nearest to the pixels: its map is symmetric, positive
    back = np.linalg.lstsq(plain[:, ~dark], white[:, ~dark], rcond=None)[0]
    np.testing.assert_allclose(back, back.T, atol=1e-12)
    assert np.linalg.eigvalsh(back).min() > 0


def test_components_are_the_leading_principal_ones(mnist):
    plain = images("mnist", 50, whiten=False, size=4).x
    scores = images("mnist", 50, whiten=False, size=4, components=3).x
    white = images("mnist", 50, size=4, components=3).x
    leading = np.linalg.svd(plain, compute_uv=False)[:3]
    np.testing.assert_allclose(scores.T @ scores, np.diag(leading**2), atol=1e-12)
    np.testing.assert_allclose(white.T @ white / 50, np.eye(3) / 3, atol=1e-14)
    np.testing.assert_allclose(scores / leading, white / np.sqrt(50 / 3), atol=1e-13)


def test_the_name_tells_the_data_and_the_preparation(mnist, monkeypatch):
    task = images("mnist", 20, size=4, components=5, split="test")
    preparation = "20 images for test, 4 pixels a side, whitened, 5 principal components"
    assert task.name == f"mnist (subset of 60), {preparation}"
    monkeypatch.setitem(public.SETS, "mnist", replace(public.SETS["mnist"], train=60))
    assert images("mnist", 20, size=4, components=5, split="test").name == f"mnist, {preparation}"


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        ({"name": "mnits"}, "Did you mean 'mnist'"),
        ({"name": "uci"}, "Known: cifar10, mnist"),
        ({"split": "validation"}, "'train' or 'test'; got 'validation'"),
        (
            {"samples": 61},
            "has 60 images for train; 61 are too many. Ask for fewer, or put mnist.npz",
        ),
        ({"samples": 21, "split": "test"}, "has 20 images for test; 21 are too many"),
        ({"samples": 1}, "at least 2; got 1"),
        ({"seed": -1}, "must not be negative; got -1"),
        ({"size": 5}, r"\(1, 2, 4, 7, 14, 28\); got 5"),
        ({"size": 0}, "got 0"),
        ({"components": 0}, "at least 1; got 0"),
        ({"size": 4, "components": 16}, "components=16, but these images have only 15 directions"),
        ({"samples": 40}, "40 samples whitened in 39 directions would all be orthogonal"),
        ({"samples": 14, "components": 13}, "14 samples whitened in 13 directions"),
    ],
)
def test_impossible_requests_are_sentences(mnist, request_, complaint):
    with pytest.raises(InputError, match=complaint):
        images(**{"name": "mnist", "samples": 50, **request_})


def test_figure_7_whitens_rows_from_2000_on_centered_on_the_pool(local):
    arrays = random_arrays((32, 32, 3), train=3200)
    np.savez(local / "cifar10.npz", **arrays)
    task = agf_figure_7(samples=1100)
    gray = arrays["X_train"].sum(axis=3).reshape(3200, -1) / (3 * 255)
    rows = (gray - gray.mean(axis=0))[2000:3100]
    values, vectors = np.linalg.eigh(rows.T @ rows)
    expected = rows @ (vectors / np.sqrt(values)) @ vectors.T * np.sqrt(1100 / 1024)
    np.testing.assert_allclose(task.x, expected, atol=1e-10)
    np.testing.assert_array_equal(np.argmax(task.y, axis=1), arrays["y_train"][2000:3100])
    assert task.name == "AGF Fig 7 on cifar10 (subset of 3200)"
    with pytest.raises(InputError, match=r"2 \.\.\. 3200; got 3201"):
        agf_figure_7(samples=3201)


# ---------------------------------------------------------------- tasks, on the real images


@pytest.fixture
def real(monkeypatch):
    """Point at the user's own files; a data set that is not there skips the test, and says so."""

    def need(name):
        for variable, value in (("SADDLEWALK_DATA", USERS_FOLDER), ("XDG_CACHE_HOME", USERS_CACHE)):
            if value is None:
                monkeypatch.delenv(variable, raising=False)
            else:
                monkeypatch.setenv(variable, value)
        if public.find_local(name) is None:
            pytest.skip(f"{name} is not on this machine (SADDLEWALK_DATA, cache)")

    return need


def test_real_mnist(real):
    real("mnist")
    data = load_public("mnist")
    assert data["y_train"][:5].tolist() == [5, 0, 4, 1, 9]
    assert len(data["y_train"]) == 60_000
    assert np.bincount(data["y_test"]).tolist() == [
        *(980, 1135, 1032, 1010, 982),
        *(892, 958, 1028, 974, 1009),
    ]
    task = images("mnist", samples=500, size=7, components=20)
    assert np.mean(np.sum(task.x**2, axis=1)) == pytest.approx(1)
    assert np.sum(task.y > 0, axis=0).tolist() == [50] * 10


def test_real_cifar_as_in_figure_7(real):
    """The notebook prints 0.0667 for its linear predictor and E|x| = 0.97."""
    real("cifar10")
    data = load_public("cifar10")
    assert data["y_train"][:6].tolist() == [6, 9, 9, 4, 1, 1]
    part = public.is_subset("cifar10", data)
    task = agf_figure_7()
    assert task.x.shape == (5000, 1024)
    assert ("subset" in task.name) == part
    assert np.mean(np.linalg.norm(task.x, axis=1)) == pytest.approx(0.970, abs=1e-3)
    np.testing.assert_allclose(task.x.T @ task.x / 5000, np.eye(1024) / 1024, atol=1e-12)
    best_linear = task.x @ (task.x.T @ task.y) * 1024 / 5000  # least squares, as x is white
    error = np.mean((task.y - best_linear) ** 2)
    assert error == pytest.approx(0.06709 if part else 0.06670, abs=1e-5)


def test_real_uci(real):
    real("uci")
    tables = load_public("uci")
    assert tables["X/iris"].shape[0] == len(tables["y/iris"]) == 150
