r"""Kernels of a learned metric :math:`M = W^\top W`: :math:`K(x, z) = \phi(r)` or :math:`k(x^\top M z)`.

What a feature update needs of a kernel besides its values is one matrix of derivatives,

.. math:: S_{ij} = -\phi'(r_{ij}) / r_{ij} \quad (r^2 = (x-z)^\top M (x-z)), \qquad
          S_{ij} = k'(x_i^\top M x_j),

so that :math:`\partial_x K(x, z) = -S M (x - z)` for radial kernels and :math:`S M z` for inner-product ones.
Functions take the array module `xp` (NumPy, or `torch` or `jax.numpy` for a GPU) and keep the precision of
their arrays.
"""

import abc
import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from saddlewalk.errors import InputError, nearest

Matrix = Any


@dataclass(frozen=True)
class AbstractKernel(abc.ABC):
    """A kernel with its length scale; `geometry` gives what it is a function of."""

    bandwidth: float
    radial: ClassVar[bool]

    @abc.abstractmethod
    def value(self, xp: ModuleType, geometry: Matrix) -> Matrix:
        """K of squared distances (radial) or of inner products."""

    @abc.abstractmethod
    def slope(self, xp: ModuleType, geometry: Matrix, value: Matrix) -> Matrix:
        """The matrix S, from the same and from K."""

    def geometry(self, xp: ModuleType, x: Matrix, z: Matrix, metric: Matrix) -> Matrix:
        """Squared distances or inner products of two sets of points under M (a matrix, or its diagonal)."""
        return self.product(xp, self.factors(xp, x, metric)[0], self.factors(xp, z, metric)[1])

    def factors(self, xp: ModuleType, x: Matrix, metric: Matrix) -> tuple[Matrix, Matrix]:
        """L and R such that L(x) R(z)^T is the geometry: squared distances, too, are one matrix product."""
        xm = x * metric if metric.ndim == 1 else x @ metric
        if not self.radial:
            return xm, x
        squares = xp.sum(xm * x, axis=1)[:, None]
        ones = xp.ones_like(squares)
        return (
            xp.concatenate([xm, squares, ones], axis=1),
            xp.concatenate([-2 * x, ones, squares], axis=1),
        )

    def product(self, xp: ModuleType, left: Matrix, right: Matrix) -> Matrix:
        """The geometry from its factors."""
        products = left @ right.T
        if not self.radial:
            return products
        return np.maximum(products, 0, out=products) if xp is np else products.clip(0)


class Gaussian(AbstractKernel):
    r""":math:`\exp(-r^2 / 2L^2)`.

    Parameters
    ----------
    bandwidth : length scale L.
    """

    radial = True

    def value(self, xp: ModuleType, geometry: Matrix) -> Matrix:
        """exp(-r^2 / 2L^2)."""
        return xp.exp(geometry * (-0.5 / self.bandwidth**2))

    def slope(self, xp: ModuleType, geometry: Matrix, value: Matrix) -> Matrix:
        """K / L^2."""
        return value * (1 / self.bandwidth**2)


@dataclass(frozen=True)
class GeneralizedLaplace(AbstractKernel):
    r""":math:`\exp(-(r/L)^q)`; q = 1 is the Laplace kernel, q = 2 a Gaussian.

    Parameters
    ----------
    bandwidth : length scale L.
    exponent : q, above 0 and at most 2.
    """

    exponent: float = 1.0
    radial: ClassVar[bool] = True

    def value(self, xp: ModuleType, geometry: Matrix) -> Matrix:
        """exp(-(r/L)^q)."""
        ratio = geometry * (1 / self.bandwidth**2)
        return xp.exp(-_power(xp, ratio, self.exponent / 2))

    def slope(self, xp: ModuleType, geometry: Matrix, value: Matrix) -> Matrix:
        """q (r/L)^(q-2) K / L^2; singular at r = 0, where x - z vanishes: set to 0."""
        ratio = geometry * (1 / self.bandwidth**2)
        apart = ratio > 1e-14 if ratio.dtype.itemsize == 8 else ratio > 1e-6
        safe = xp.where(apart, ratio, 1)
        factor = self.exponent / self.bandwidth**2
        return xp.where(apart, factor * _power(xp, safe, self.exponent / 2 - 1) * value, 0)


@dataclass(frozen=True)
class Polynomial(AbstractKernel):
    r""":math:`(x^\top M z / L^2 + c)^p`.

    Parameters
    ----------
    bandwidth : length scale L.
    degree : p.
    constant : c.
    """

    degree: int = 2
    constant: float = 0.0
    radial: ClassVar[bool] = False

    def value(self, xp: ModuleType, geometry: Matrix) -> Matrix:
        """(t / L^2 + c)^p."""
        return (geometry * (1 / self.bandwidth**2) + self.constant) ** self.degree

    def slope(self, xp: ModuleType, geometry: Matrix, value: Matrix) -> Matrix:
        """p (t / L^2 + c)^(p-1) / L^2."""
        base = geometry * (1 / self.bandwidth**2) + self.constant
        return (self.degree / self.bandwidth**2) * base ** (self.degree - 1)


class Exponential(AbstractKernel):
    r""":math:`\exp(x^\top M z / L^2)`.

    Parameters
    ----------
    bandwidth : length scale L.
    """

    radial = False

    def value(self, xp: ModuleType, geometry: Matrix) -> Matrix:
        """exp(t / L^2)."""
        return xp.exp(geometry * (1 / self.bandwidth**2))

    def slope(self, xp: ModuleType, geometry: Matrix, value: Matrix) -> Matrix:
        """K / L^2."""
        return value * (1 / self.bandwidth**2)


def _power(xp: ModuleType, values: Matrix, exponent: float) -> Matrix:
    """A power; roots, which the Laplace kernel has, take far less time than others."""
    if exponent == 0.5:
        return xp.sqrt(values)
    if exponent == -0.5:
        return 1 / xp.sqrt(values)
    return values**exponent


KERNELS = ("laplace", "gaussian", "generalized-laplace", "polynomial", "exponential")


def kernel_named(
    name: str, bandwidth: float, exponent: float = 1.0, degree: int = 2, constant: float = 0.0
) -> AbstractKernel:
    """A kernel by its name.

    Parameters
    ----------
    name : one of `KERNELS`.
    bandwidth : length scale L.
    exponent : of the generalized Laplace kernel.
    degree, constant : of the polynomial kernel.
    """
    if not 0 < bandwidth < math.inf:
        raise InputError(f"The bandwidth must be positive; got {bandwidth}.")
    if name == "laplace":
        return GeneralizedLaplace(bandwidth, 1.0)
    if name == "gaussian":
        return Gaussian(bandwidth)
    if name == "generalized-laplace":
        if not 0 < exponent <= 2:
            raise InputError(f"The exponent must lie in (0, 2]; got {exponent}.")
        return GeneralizedLaplace(bandwidth, exponent)
    if name == "polynomial":
        return Polynomial(bandwidth, degree, constant)
    if name == "exponential":
        return Exponential(bandwidth)
    raise InputError(f"Unknown kernel '{name}'.{nearest(name, KERNELS)}")
