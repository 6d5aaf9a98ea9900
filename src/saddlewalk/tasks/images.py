r"""Images as tasks: gray, centered pixels to one-hot labels, :math:`y = e_{class} - 1/classes`.

Whitening replaces :math:`X = U S V^\top` by :math:`U V^\top \sqrt{n/r}` with r the rank (the number of
pixels, where no pixel is a combination of others), so that :math:`E|x|^2 = 1` and no direction of the
inputs is louder than another: what is learned first is decided by the labels alone.
"""

import numpy as np
from jaxtyping import Float, Int, Integer, UInt8

from saddlewalk.errors import InputError, nearest
from saddlewalk.tasks.public import CLASSES, FOLDER_VARIABLE, SETS, Arrays, is_subset, load_public
from saddlewalk.tasks.samples import Samples, from_arrays

_POOL = 10_000
_FIRST_ROW = 2_000
"""Fig 7 keeps rows 2000 ... 6999 of the first 10000 training images."""


def images(
    name: str = "cifar10",
    samples: int = 2000,
    whiten: bool = True,
    size: int | None = None,
    components: int | None = None,
    seed: int = 0,
    split: str = "train",
) -> Samples:
    """Gray images of "mnist" or "cifar10", as balanced over the classes as these allow.

    Each split is centered and whitened by itself, on the images that are drawn.

    Parameters
    ----------
    name : the data set. Where only the subset of CIFAR-10 is at hand, the task's name says so.
    samples : how many images. More of them with the same seed begin with the same ones.
    whiten : make all directions of the inputs equally strong, with E|x|^2 = 1.
    size : pixels a side after averaging over square blocks; it must divide the side of the images.
    components : keep the coordinates along this many principal components, instead of pixels.
    seed : seed of the draw.
    split : "train" or "test".
    """
    _check_request(name, samples, size, components, seed, split)
    data = load_public(name)
    pixels, labels = data[f"X_{split}"], data[f"y_{split}"]
    _check_enough(name, data, samples, split)
    chosen = _balanced_draw(labels, samples, seed)
    small = _block_means(_gray(pixels[chosen]), size)
    x = _prepared(_centered(small), whiten, components)
    title = [_title(name, data), f"{samples} images for {split}", f"{small.shape[1]} pixels a side"]
    title += ["whitened"] if whiten else []
    title += [f"{components} principal components"] if components else []
    return from_arrays(x, _one_hot(labels[chosen]), name=", ".join(title))


def agf_figure_7(samples: int = 5000) -> Samples:
    """CIFAR-10 as in Fig 7: whitened gray images 2000 ... 6999 of the first 10000, centered on these.

    The subset `cifar10_5k.npz` has no such rows. With it, all of its 5000 images stand in (3000 of
    them are in the figure; the best linear predictor has mean squared error 0.0671 instead of
    0.0667), and the task's name says so. With fewer samples the rows still begin at 2000, or as
    near to it as the images at hand allow.

    The figure's loss is a mean over the 10 outputs; with the squared loss of this package, half the
    sum over outputs, it is 5 times as large.

    Parameters
    ----------
    samples : how many images.
    """
    data = load_public("cifar10")
    pool = _centered(_gray(data["X_train"][:_POOL]))
    if not 2 <= samples <= len(pool):
        raise InputError(f"samples must lie in 2 ... {len(pool)}; got {samples}.")
    first = min(_FIRST_ROW, len(pool) - samples)
    rows = slice(first, first + samples)
    title = f"AGF Fig 7 on {_title('cifar10', data)}" if is_subset("cifar10", data) else "AGF Fig 7"
    return from_arrays(
        _prepared(pool[rows], True, None), _one_hot(data["y_train"][rows]), name=title
    )


def _check_request(
    name: str, samples: int, size: int | None, components: int | None, seed: int, split: str
) -> None:
    known = {key: public.image for key, public in SETS.items() if public.image}
    if name not in known:
        raise InputError(f"There are no images '{name}'.{nearest(name, known)}")
    if split not in ("train", "test"):
        raise InputError(f"split must be 'train' or 'test'; got '{split}'.")
    if samples < 2:
        raise InputError(f"samples must be at least 2; got {samples}.")
    if seed < 0:
        raise InputError(f"The seed of the data must not be negative; got {seed}.")
    if components is not None and components < 1:
        raise InputError(f"components must be at least 1; got {components}.")
    side = known[name][0]
    if size is not None and (size < 1 or side % size):
        divisors = ", ".join(str(k) for k in range(1, side + 1) if side % k == 0)
        raise InputError(f"size must divide the side of the images ({divisors}); got {size}.")


def _check_enough(name: str, data: Arrays, samples: int, split: str) -> None:
    here = len(data[f"y_{split}"])
    if samples > here:
        whole = f", or put {SETS[name].files[0]} into the folder of {FOLDER_VARIABLE}"
        raise InputError(
            f"{_title(name, data)} has {here} images for {split}; {samples} are too many. "
            f"Ask for fewer{whole if is_subset(name, data) else ''}."
        )


def _title(name: str, data: Arrays) -> str:
    return f"{name} (subset of {len(data['X_train'])})" if is_subset(name, data) else name


def _balanced_draw(
    labels: Integer[np.ndarray, " n"], samples: int, seed: int
) -> Int[np.ndarray, " k"]:
    """One image of every class, then another of every class, ... until a class runs out, and on."""
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    turn = np.empty(len(labels), dtype=np.int64)
    for label in range(CLASSES):
        members = np.flatnonzero(labels[shuffled] == label)
        turn[members] = np.arange(len(members))
    return shuffled[np.argsort(turn, kind="stable")[:samples]]


def _gray(pixels: UInt8[np.ndarray, "n side side *channels"]) -> Float[np.ndarray, "n side side"]:
    return (pixels if pixels.ndim == 3 else pixels.mean(axis=3)) / 255.0


def _block_means(
    pictures: Float[np.ndarray, "n side side"], size: int | None
) -> Float[np.ndarray, "n size size"]:
    n, side, _ = pictures.shape
    size = size or side
    block = side // size
    return pictures.reshape(n, size, block, size, block).mean(axis=(2, 4))


def _centered(pictures: Float[np.ndarray, "n side side"]) -> Float[np.ndarray, "n d"]:
    x = pictures.reshape(len(pictures), -1)
    return x - x.mean(axis=0)


def _one_hot(labels: Integer[np.ndarray, " n"]) -> Float[np.ndarray, "n classes"]:
    return np.eye(CLASSES)[labels] - 1.0 / CLASSES


def _prepared(
    x: Float[np.ndarray, "n d"], whiten: bool, components: int | None
) -> Float[np.ndarray, "n k"]:
    """Centered inputs, whitened or in principal components or both."""
    if not whiten and components is None:
        return x
    left, scales, right = _principal_components(x)
    n, rank = left.shape
    kept = rank if components is None else components
    if kept > rank:
        raise InputError(f"components={kept}, but these images have only {rank} directions.")
    if whiten and kept >= n - 1:
        raise InputError(
            f"{n} samples whitened in {kept} directions would all be orthogonal: nothing of the "
            "images is left. Take more samples, a smaller size, fewer components, or whiten=False."
        )
    left = left[:, :kept] * (np.sqrt(n / kept) if whiten else scales[:kept])
    return left if components is not None else left @ right


def _principal_components(
    x: Float[np.ndarray, "n d"],
) -> tuple[Float[np.ndarray, "n r"], Float[np.ndarray, " r"], Float[np.ndarray, "r d"]]:
    """Singular vectors and values up to the rank, each vector's largest entry positive.

    The triangle of a QR decomposition has the same values and right vectors as x, and is small.
    """
    _, scales, right = np.linalg.svd(np.linalg.qr(x, mode="r"), full_matrices=False)
    rank = int(np.sum(scales > scales[0] * max(x.shape) * np.finfo(x.dtype).eps))
    scales, right = scales[:rank], right[:rank]
    right[:, ~np.any(x, axis=0)] = 0.0  # pixels that never light up: no rounding noise in them
    largest = np.argmax(np.abs(right), axis=1)
    right *= np.sign(right[np.arange(rank), largest])[:, None]
    return x @ right.T / scales, scales, right
