r"""An explicit step: the Runge-Kutta pair of Tsitouras, order 5 with an error estimate of order 4.

.. math:: Y_i = y + h \sum_{j<i} a_{ij} k_j, \qquad k_i = v(Y_i), \qquad y_1 = Y_7

The stages run in a loop over the tableau, so that the right-hand side is compiled once and not six times. The
last stage is at the end of the step, where the next one begins. Coefficients of Tsitouras, *Runge-Kutta pairs
of order 5(4) satisfying only the first column simplifying assumption* (2011), Table 1.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from saddlewalk.ode.method import AbstractMethod, Step, square
from saddlewalk.ode.system import AbstractFlow, State

_STAGES = 7
_A = (
    (),
    (0.161,),
    (-0.008480655492356989, 0.335480655492357),
    (2.8971530571054935, -6.359448489975075, 4.3622954328695815),
    (5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525),
    (
        5.86145544294642,
        -12.92096931784711,
        8.159367898576159,
        -0.071584973281401,
        -0.028269050394068383,
    ),
    (
        0.09646076681806523,
        0.01,
        0.4798896504144996,
        1.379008574103742,
        -3.290069515436081,
        2.324710524099774,
    ),
)
_ERROR = (
    0.0017800110522257773,
    0.0008164344596567463,
    -0.007880878010261994,
    0.1447110071732629,
    -0.5823571654525552,
    0.45808210592918686,
    -1 / 66,
)


class RungeKutta(AbstractMethod):
    """Tsitouras 5(4)."""

    flow: AbstractFlow

    error_order: ClassVar[int] = 5

    def step(self, y: State, velocity: State, h: Float[Array, ""], memory: None) -> Step:
        """Six right-hand sides."""
        tableau = jnp.asarray(square(_A))
        slopes = jnp.zeros((_STAGES, *y.shape), dtype=y.dtype).at[0].set(velocity)

        def place(row: Array, slopes: Array) -> Array:
            return y + h * jnp.tensordot(row, slopes, axes=1)

        def stage(i: Array, slopes: Array) -> Array:
            return slopes.at[i].set(self.flow.velocity(place(tableau[i], slopes)))

        slopes = jax.lax.fori_loop(1, _STAGES, stage, slopes)
        error = h * jnp.tensordot(jnp.asarray(_ERROR), slopes, axes=1)
        return Step(place(tableau[-1], slopes), slopes[-1], error[None], None, _STAGES - 1)
