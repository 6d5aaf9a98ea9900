r"""Modular addition: :math:`(a \cdot x,\, b \cdot x) \mapsto (a + b) \cdot x` over all pairs (section 5).

:math:`a \cdot x` is the encoding x, shifted by a around the circle of p numbers. x is centered: the
network has no bias. Its discrete Fourier transform :math:`\hat x` decides what is learned when.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from saddlewalk.errors import InputError
from saddlewalk.groups import cyclic
from saddlewalk.tasks.base import Modes
from saddlewalk.tasks.composition import GroupComposition, all_tuples, composed
from saddlewalk.tasks.samples import finite_numbers

Coefficient = complex | float | int

_LEAST_P = 3
_FAINT = 1e-9
"""Frequencies whose magnitude is below this part of the largest are not there."""
_CONSTANT = 1e-12
"""An encoding whose Fourier coefficients are below this part of its entries is constant."""


class ModularAddition(GroupComposition):
    """Composition of two elements of a cyclic group; frequencies instead of representations.

    Parameters
    ----------
    name : what tables call it.
    x, y : all pairs of words, and their sums.
    weights : weights of the samples, with sum 1.
    encoding : the centered encoding of the number 0.
    table : of the sums modulo p.
    tuples : the pairs of numbers.
    group_name : what the group is called.
    names : what the inputs are called; empty if they have no names.
    labels : what the outputs are called; empty if they have no names.
    """

    @property
    def p(self) -> int:
        """The modulus."""
        return len(self.encoding)

    @property
    def spectrum(self) -> Float[np.ndarray, " half"]:
        r"""Magnitudes :math:`|\hat x[k]|` for k = 0 ... p/2."""
        return np.abs(np.fft.rfft(np.asarray(self.encoding)))

    @property
    def frequencies(self) -> tuple[int, ...]:
        """The frequencies in the encoding, largest magnitude first."""
        size = self.spectrum
        order = np.argsort(-size, kind="stable")
        return tuple(int(k) for k in order if k > 0 and size[k] > _FAINT * size.max())

    def modes(self) -> Modes:
        """One part of the target a frequency, largest first."""
        transform = np.fft.rfft(np.asarray(self.y), axis=1)
        parts, names = [], []
        for k in self.frequencies:
            alone = np.zeros_like(transform)
            alone[:, k] = transform[:, k]
            parts.append(np.fft.irfft(alone, n=self.p, axis=1))
            phase = round(float(np.angle(np.fft.rfft(np.asarray(self.encoding))[k])), 12)
            names.append({"kind": "fourier", "frequency": k, "phase": phase})
        return Modes(tuple(names), np.stack(parts))


def modular_addition(
    p: int | None = None,
    spectrum: Mapping[int, Coefficient] | None = None,
    encoding: Any = None,
    name: str = "modular addition",
) -> ModularAddition:
    r"""The task for an encoding x `(p,)`, or for :math:`\hat x` given at some frequencies.

    `spectrum={1: 10, 3: 5}` sets :math:`\hat x[\pm 1] = 10, \hat x[\pm 3] = 5` and the rest to zero;
    complex values carry a phase.

    Parameters
    ----------
    p : the modulus; an encoding says it by its length.
    spectrum : Fourier coefficients by frequency, from 1 to p/2.
    encoding : p numbers, instead of a spectrum.
    name : what tables call it.
    """
    if (encoding is None) == (spectrum is None):
        raise InputError("Give either an encoding x of p numbers, or p and a spectrum.")
    raw = _from_spectrum(p, spectrum) if spectrum is not None else _checked_encoding(encoding, p)
    x = raw - raw.mean()
    if np.abs(np.fft.rfft(x)).max() <= _CONSTANT * np.abs(raw).max():
        raise InputError(
            "The encoding has no frequency but zero: every word looks the same, and there is nothing "
            "to learn. Give an x that is not constant."
        )
    return composed(ModularAddition, name, cyclic(len(x)), x, all_tuples(len(x), 2))


def _from_spectrum(p: int | None, spectrum: Mapping[int, Coefficient]) -> np.ndarray:
    if p is None:
        raise InputError("A spectrum needs p, the modulus.")
    n = _checked_p(p)
    transform = np.zeros(n // 2 + 1, dtype=complex)
    for k, value in spectrum.items():
        if int(k) != k or not 1 <= k <= n // 2:
            raise InputError(f"Frequencies go from 1 to p/2 = {n // 2}; got {k}.")
        if not np.isfinite(value):
            raise InputError(f"The spectrum at frequency {k} must be a finite number; got {value}.")
        if 2 * k == n and abs(complex(value).imag) > 0:
            raise InputError(f"At frequency p/2 = {k} the spectrum of a real encoding is real.")
        transform[int(k)] = value
    return finite_numbers("The encoding with this spectrum", np.fft.irfft(transform, n=n))


def _checked_encoding(encoding: Any, p: int | None) -> np.ndarray:
    x = finite_numbers("x", encoding)
    if x.ndim != 1:
        raise InputError(f"The encoding x must be a vector of p numbers; its shape is {x.shape}.")
    n = _checked_p(len(x))
    if p is not None and p != n:
        raise InputError(f"The encoding has {n} numbers, but p is {p}.")
    return x


def _checked_p(p: Any) -> int:
    if not math.isfinite(p) or int(p) != p or p < _LEAST_P:
        raise InputError(f"The modulus p must be a whole number of at least {_LEAST_P}; got {p}.")
    return int(p)
