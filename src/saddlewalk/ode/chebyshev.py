r"""A stabilized explicit step: Runge-Kutta-Chebyshev of order 2 (RKC).

With s evaluations a step may be as long as :math:`0.65\, s^2 / \rho`, where :math:`\rho` is the spectral
radius of the Jacobian: for stiff gradient flow with too many parameters for a dense Jacobian. It damps
nothing that grows: along an unstable direction it is a Runge-Kutta step like any other. Formulas
of Sommeijer, Shampine and Verwer (1998), with Chebyshev polynomials :math:`T_j` at
:math:`w_0 = 1 + \epsilon/s^2`:

.. math::

    Y_1 = y + \tilde\mu_1 h F_0, \quad
    Y_j = (1 - \mu_j - \nu_j)\, y + \mu_j Y_{j-1} + \nu_j Y_{j-2}
          + \tilde\mu_j h F_{j-1} + \tilde\gamma_j h F_0,

with :math:`b_j = T_j''/T_j'^2`, :math:`\mu_j = 2 b_j w_0/b_{j-1}`, :math:`\nu_j = -b_j/b_{j-2}`,
:math:`\tilde\mu_j = 2 b_j w_1/b_{j-1}`, :math:`\tilde\gamma_j = -(1 - b_{j-1} T_{j-1})\tilde\mu_j`.
The spectral radius comes from a power iteration that goes on from step to step.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.ode.method import AbstractMethod, Step
from saddlewalk.ode.system import AbstractFlow, State, StateLike

_DAMPING = 2 / 13
_SAFETY = 1.25
_FIRST_ITERATIONS = 20
_ITERATIONS = 2
_MOST_STAGES = 4000
_NO_LENGTH = 1e-290
"""A step that is there to find the velocity, and with it the stiffest direction."""


class Chebyshev(AbstractMethod):
    """RKC for a flow that is a gradient flow in some metric: its Jacobian has real eigenvalues.

    It remembers where its power iteration stands: a rough idea of the stiffest direction.
    """

    flow: AbstractFlow

    error_order: ClassVar[int] = 3
    tolerance: ClassVar[float] = 1e-6
    """Of order 2: at 1e-8 it would take ten times the steps."""

    def typical_evaluations(self, y: StateLike) -> int:
        """As many as a stiff flow asks for."""
        return 500

    def init(self, y: Any) -> np.ndarray:
        """A random direction."""
        return np.random.default_rng(0).normal(size=y.shape)

    def step(self, y: State, velocity: State, h: Float[Array, ""], memory: Array) -> Step:
        """One step with as many stages as its length needs."""
        times = jnp.where(h > _NO_LENGTH, _ITERATIONS, _FIRST_ITERATIONS)
        direction, radius = self._power(y, memory, times)
        wanted = 1 + jnp.floor(jnp.sqrt(1 + 1.54 * h * _SAFETY * radius))
        stages = jnp.clip(wanted, 2, _MOST_STAGES)
        end = self._march(self.flow.velocity, y, velocity, h, stages)
        after = self.flow.velocity(end)
        error = 0.8 * (y - end) + 0.4 * h * (velocity + after)
        error = jnp.where(wanted > _MOST_STAGES, jnp.inf, error)
        # a product with the Jacobian costs about two right-hand sides
        return Step(end, after, error[None], direction, stages + 2 * times)

    def _power(self, y: Array, direction: Array, times: Array) -> tuple[Array, Array]:
        """Power iteration in the metric in which the Jacobian is symmetric."""
        symmetrizer = self.flow.symmetrizer(y)

        def once(_: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            v, _size = carry
            image = symmetrizer * jax.jvp(self.flow.velocity, (y,), (v / symmetrizer,))[1]
            size = jnp.sqrt(jnp.sum(image**2))
            return jnp.where(size > 0, image / jnp.where(size > 0, size, 1.0), v), size

        unit = direction / jnp.sqrt(jnp.sum(direction**2))
        return jax.lax.fori_loop(0, times, once, (unit, jnp.zeros(())))

    @staticmethod
    def _march(vf: Any, y0: Array, f0: Array, h: Any, stages: Array) -> Array:
        w0 = 1 + _DAMPING / stages**2
        w1 = _end_ratio(stages)

        # T_0, T_1 and their derivatives; b_0 = b_2 by convention
        b2 = 4.0 / (4 * w0) ** 2
        first = (jnp.ones(()), jnp.zeros(()), jnp.zeros(()))
        second = (w0, jnp.ones(()), jnp.zeros(()))
        b1 = 1 / w0
        y1 = y0 + b1 * w1 * h * f0

        def body(j: Any, carry: Any) -> Any:
            older, old, poly_older, poly_old, b_older, b_old, a_old = carry
            poly = _next_polynomial(w0, poly_old, poly_older)
            b = poly[2] / poly[1] ** 2
            mu, nu, mu_tilde = 2 * b * w0 / b_old, -b / b_older, 2 * b * w1 / b_old
            new = (
                (1 - mu - nu) * y0
                + mu * old
                + nu * older
                + mu_tilde * h * vf(old)
                - a_old * mu_tilde * h * f0
            )
            return old, new, poly_old, poly, b_old, b, 1 - b * poly[0]

        start = (y0, y1, first, second, b2, b1, 1 - b1 * w0)
        return jax.lax.fori_loop(2, stages.astype(int) + 1, body, start)[1]


def _next_polynomial(w0: Array, old: Any, older: Any) -> tuple[Array, Array, Array]:
    """T_j, T_j', T_j'' by the three-term recursion."""
    (t1, d1, e1), (t0, d0, e0) = old, older
    return (2 * w0 * t1 - t0, 2 * w0 * d1 + 2 * t1 - d0, 2 * w0 * e1 + 4 * d1 - e0)


def _end_ratio(stages: Array) -> Array:
    r""":math:`w_1 = T_s'(w_0)/T_s''(w_0)`, from :math:`T_s(\cosh\theta) = \cosh s\theta`."""
    excess = _DAMPING / stages**2  # w_0 - 1, which w_0 itself would round away
    root = jnp.sqrt(excess * (2 + excess))
    angle = stages * jnp.log1p(excess + root)
    below = stages * root * jnp.cosh(angle) - (1 + excess) * jnp.sinh(angle)
    return jnp.sinh(angle) * root**2 / below
