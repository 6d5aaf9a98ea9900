r"""A linearly implicit step for gradient flow: Rodas4 (order 4, error estimate of order 3, L-stable).

Each stage solves :math:`(1/(h\gamma) - J)\, k_i = v(\cdot) + \frac1h \sum_j c_{ij} k_j`. The
coefficients are those of RODAS in Hairer and Wanner, *Solving Ordinary Differential Equations II*,
section IV.10. Two things are special to gradient flow near saddles:

* J is minus a Hessian, so the matrix is symmetric and is factored by Cholesky. The factorization
  exists exactly if no direction grows at a rate above :math:`1/(h\gamma)`. An implicit method that
  solved such a step anyway would *damp* the growing direction and sit at the saddle for ever;
  here the step fails and a smaller one is tried.
* On a plateau of length :math:`h = 10^{50}` the rounding error of the active units' velocity,
  :math:`10^{-16}`, times h would push them far along directions in which the loss is flat. A unit
  whose velocity is rounding error, over a step in which that matters, counts as being at rest;
  its own share of the matrix is regularized at the level of rounding, so that the test for growing
  directions still holds for it.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from saddlewalk.ode.method import AbstractMethod, Step, square
from saddlewalk.ode.system import AbstractFlow, State, StateLike

_GAMMA = 0.25
_A = (
    (),
    (1.544,),
    (0.9466785280815826, 0.2557011698983284),
    (3.314825187068521, 2.896124015972201, 0.9986419139977817),
    (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950),
    (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950, 1.0),
)
_C = (
    (),
    (-5.6688,),
    (-2.430093356833875, -0.2063599157091915),
    (-0.1073529058151375, -9.594562251023355, -20.47028614809616),
    (7.496443313967647, -10.24680431464352, -33.99990352819905, 11.70890893206160),
    (
        8.083246795921522,
        -7.981132988064893,
        -31.52159432874371,
        16.31930543123136,
        -6.058818238834054,
    ),
)
_STAGES = 6
_NOTICEABLE = 1e-10
"""Rounding errors matter in a step when they move a unit by this fraction of its error_scale."""

_BLUR = 100.0
"""Rounding in a Jacobian of this many times the rounding in a velocity."""


class Rosenbrock(AbstractMethod):
    """Rodas4 with a Cholesky factorization, for a flow that is a gradient flow in some metric."""

    flow: AbstractFlow

    error_order: ClassVar[int] = 4

    def typical_evaluations(self, y: StateLike) -> int:
        """A Jacobian, column by column, and the stages."""
        return super().typical_evaluations(y) + y.size

    def step(self, y: State, velocity: State, h: Float[Array, ""], memory: None) -> Step:
        """One step; not-a-number where the matrix is not positive definite."""
        a, c = jnp.asarray(square(_A)), jnp.asarray(square(_C))
        moving, blur = self._moving(y, velocity, h)
        start = y.ravel()

        def flat_velocity(flat: Array) -> Array:
            return self.flow.velocity(flat.reshape(y.shape)).ravel()

        solve = self._factor(flat_velocity, y, 1 / (h * _GAMMA) + jnp.where(moving, 0.0, blur))
        first = solve(jnp.where(moving, velocity.ravel(), 0.0))
        slopes = jnp.zeros((_STAGES, start.size), dtype=y.dtype).at[0].set(first)

        def stage(i: Array, slopes: Array) -> Array:
            v = jnp.where(moving, flat_velocity(start + a[i] @ slopes), 0.0)
            return slopes.at[i].set(solve(v + c[i] @ slopes / h))

        slopes = jax.lax.fori_loop(1, _STAGES, stage, slopes)
        end = (start + a[-1] @ slopes + slopes[-1]).reshape(y.shape)
        spent = _STAGES + start.size  # a column of the Jacobian counts as one
        return Step(end, self.flow.velocity(end), slopes[-1].reshape(y.shape)[None], None, spent)

    def _factor(self, velocity: Any, y0: Array, shift: Array) -> Any:
        symmetrizer = self.flow.symmetrizer(y0).ravel()
        jacobian = jax.jacfwd(velocity)(y0.ravel()) * (symmetrizer[:, None] / symmetrizer[None, :])
        # symmetric up to rounding; where one of two entries underflowed, the other is right
        larger = jnp.abs(jacobian) >= jnp.abs(jacobian.T)
        matrix = jnp.diag(shift) - jnp.where(larger, jacobian, jacobian.T)
        factor = jnp.linalg.cholesky(matrix, symmetrize_input=False)
        return lambda b: jax.scipy.linalg.cho_solve((factor, True), b * symmetrizer) / symmetrizer

    def _moving(self, y: Array, v: Array, h: Any) -> tuple[Array, Array]:
        """Which components move, and the rate below which rounding hides what they do."""
        noise, length = self.flow.noise(y), self.flow.error_scale(y)
        matters = h * noise > _NOTICEABLE * length
        size = jnp.max(jnp.abs(v), axis=-1, keepdims=True)
        moving = jnp.broadcast_to(~matters | (size > noise), y.shape)
        return moving.ravel(), (_BLUR * noise / length).ravel()
