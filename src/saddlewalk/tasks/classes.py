"""Classes: clouds of inputs, each with a label."""

import numpy as np

from saddlewalk.errors import InputError, checked_seed, checked_whole
from saddlewalk.tasks.samples import Samples, from_arrays

_FEWEST = 2


def gaussian_classes(
    samples: int = 200,
    dim: int = 8,
    classes: int = 3,
    separation: float = 2.0,
    seed: int = 0,
) -> Samples:
    """A Gaussian cloud of inputs a class, the later ones nearer to the origin; a target column a class.

    The centers lie along orthogonal directions, at `separation`, `separation / 2`, `separation / 3`, ...:
    what tells the first class from the others is learned first. Clouds overlap, unless they are far apart or
    there are hardly more samples than inputs: then the data are separable, and a cross-entropy has no
    minimum.

    Parameters
    ----------
    samples : number of samples, as many of each class as can be.
    dim : number of inputs.
    classes : number of classes, at most `dim`.
    separation : distance of the first center from the origin, in standard deviations of a cloud.
    seed : seed of the draw.
    """
    checked_whole("dim", dim, least=1)
    checked_whole("classes", classes, least=_FEWEST)
    checked_whole("samples", samples, least=classes)
    if classes > dim:
        raise InputError(
            f"`classes` {classes} is larger than `dim` {dim}: each has a direction of its own."
        )
    if not 0 < separation < np.inf:
        raise InputError(f"`separation` must be positive; got {separation}.")
    rng = np.random.default_rng(checked_seed(seed))
    axes = np.linalg.qr(rng.normal(size=(dim, dim)))[0][:classes]
    centers = axes * (separation / np.arange(1, classes + 1))[:, None]
    labels = np.arange(samples) % classes
    x = centers[labels] + rng.normal(size=(samples, dim))
    return from_arrays(x, np.eye(classes)[labels], name="classes")
