r"""The motion behind AGF: dormant units climb their utility alone, active ones descend together.

.. math::

    \dot\theta_i = \nabla_\theta U(\theta_i; r), \qquad
    r = -\nabla_f L\Big(\sum_{j \in A} f(\cdot\,; \theta_j)\Big)

For a dormant unit this is Eq 12, and norm and direction follow Eq 2 and 15 by themselves. For an
active one it is minus the gradient of the loss of the active units: one formula moves all, and the
phases of the algorithm only say who moves:

=============  =============  ==============  ====================================================
phase          dormant units  active units    ends when
=============  =============  ==============  ====================================================
plateau        climb          rest            a unit wakes
transition     climb          descend         the active ones are at rest; units may wake and sleep
the same in    rest           descend         the active ones are at rest; units may collapse
Algorithm 1
=============  =============  ==============  ====================================================

When does a unit wake? Alone, it would grow until the loss no longer falls along it:
:math:`U_i = B_i`, with :math:`B_i` the second derivative of the loss along :math:`f_i` (for squared loss
:math:`E|f_i|^2`). The ratio :math:`B_i / U_i` is its output as a part of that at rest, free of all scales.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from saddlewalk.ode import Watch
from saddlewalk.problem import Parameters, norms
from saddlewalk.problem.motion import AbstractMotion, Either, drives, growth_rates

_TINY = 1e-300


class Rules(NamedTuple):
    """Who moves in a phase, and what ends it. Numbers of an array, so that one program serves all phases.

    They are those of `Thresholds`, which says why.
    """

    dormant_move: Any
    active_move: Any
    wakes_by_norm: Any
    """Wake at a norm (Eq 3) instead of a part of the size at rest."""
    wake: Float[Either, ""]
    """The norm, or the ratio B/U, at which a dormant unit wakes."""
    sleep: Float[Either, ""]
    """The ratio below which an active unit is dormant again."""
    calm: Float[Either, ""]
    """Part of a stage's gain that active units at rest may still lose while a dormant one grows e-fold."""
    patient: Float[Either, ""]
    """Growth of an active unit, relative to that of the fastest dormant one, that is not waited for."""
    least_alignment: Float[Either, ""]
    """Cosine between a unit and the residual below which it counts as this."""
    idle: Float[Either, ""]
    """Part of its largest drive below which a unit has no utility left."""
    near: Float[Either, ""]
    """Part of it below which an active unit is so near to its rest that it may be at rest."""
    last: Float[Either, ""]
    """The same in the last stage, as a part of `idle`."""
    level: Float[Either, ""]
    """Loss on the plateau before."""
    nothing: Float[Either, ""]
    """Loss that is as good as none."""
    late: Float[Either, ""]
    """How far past its threshold a unit may be when it wakes, in the logarithm."""
    stops: Any
    """Whether the motion ends when a unit wakes or sleeps, instead of going on with it."""

    @classmethod
    def of(cls, numbers: Float[Array, " rules"]) -> "Rules":
        """From one array, in which what is true is 1."""
        rules = cls(*(numbers[k] for k in range(len(cls._fields))))
        truths = ("dormant_move", "active_move", "wakes_by_norm", "stops")
        return rules._replace(**{name: getattr(rules, name) > 0 for name in truths})


class Stand(NamedTuple):
    """What changes from piece to piece of a walk."""

    active: Bool[Either, " width"]
    residual: Float[Either, "..."]
    """Of the active units; used while they rest."""
    largest: Float[Either, " width"]
    """The largest drive that each unit ever had."""
    numbers: Float[Either, " rules"]
    """The rules of the phase."""


class View(NamedTuple):
    """What is saved at every step."""

    loss: Float[Array, ""]
    """Loss of the active units."""
    rate: Float[Array, ""]
    """How it changes."""
    drive: Float[Array, " width"]
    output: Float[Array, " width"]
    """Length of each unit in function space."""


class Margins(NamedTuple):
    """How far each event is: positive before, zero at it (logarithms of ratios)."""

    waking: Float[Array, " width"]
    sleeping: Float[Array, " width"]
    resting: Float[Array, ""]
    rising: Bool[Array, " width"]
    """Whether each is far from its rest, on its way up."""
    dozing: Bool[Array, " width"]
    """Whether an active one is so small, and on its way up, that it might as well be dormant."""
    active: Bool[Array, " width"]
    """Who was."""
    view: View
    """What they are judged by."""


class Alternation(AbstractMotion):
    """Units split into dormant and active ones, in one of the phases of the algorithm."""

    active: Bool[Either, " width"]
    residual: Float[Either, "..."]
    """Residual of the active units; used while they rest."""
    largest: Float[Either, " width"]
    """The largest drive that each unit ever had."""
    numbers: Float[Either, " rules"]
    """The rules, as one array."""

    watches: ClassVar[bool] = True

    @property
    def rules(self) -> Rules:
        """Who moves, and what ends it."""
        return Rules.of(self.numbers)

    def push(self, theta: Parameters) -> Parameters:
        """Everybody climbs against the residual of the active units, if they may move."""
        return jax.lax.cond(
            self.rules.active_move,
            lambda th: self.push_against(self.present_residual(th), th),
            lambda th: self.push_against(self.residual, th),
            theta,
        )

    def push_against(self, residual: Float[Array, "..."], theta: Parameters) -> Parameters:
        """The same where the residual is known."""
        moves = jnp.where(self.active, self.rules.active_move, self.rules.dormant_move)
        return jnp.where(moves[:, None], self.problem.climb(theta, residual), 0.0)

    def present_residual(self, theta: Parameters) -> Float[Array, "..."]:
        """The residual that the active units leave with these parameters."""
        return self.problem.residual(self.only_active(theta))

    def only_active(self, theta: Parameters) -> Parameters:
        """The parameters with those of dormant units at zero."""
        return jnp.where(self.active[:, None], theta, 0.0)

    def active_loss(self, theta: Parameters) -> Float[Array, ""]:
        """Loss of the active units alone."""
        return self.problem.loss(self.only_active(theta))

    def loss_rate(self, theta: Parameters, push: Parameters) -> Float[Array, ""]:
        """How the loss of the active units changes, which follow its gradient: this is their push."""
        return -jnp.sum(self.only_active(push) ** 2 / self.problem.pace(theta))

    def margins(self, theta: Parameters, push: Parameters) -> Margins:
        """Distance to each event, for units that are pushed like this."""
        problem, rules = self.problem, self.rules
        residual = self.present_residual(theta)
        loss, squares = self.active_loss(theta), problem.squares(theta)
        utility = problem.utility_of_climb(theta, push, residual)
        bend = squares if problem.squared else self._bend(theta)
        least = rules.least_alignment * jnp.sqrt(2 * jnp.maximum(loss, 0.0) * bend)
        part = bend / jnp.maximum(jnp.maximum(utility, least), _TINY)  # of the output at rest
        size = jnp.where(rules.wakes_by_norm, norms(theta)[:, 0], part)
        waking, sleeping = self._waking(size, utility, least), self._sleeping(part, utility)
        # at rest U = B; a unit far from that still has most of its way, up or down, before it
        rising = utility > 2 * bend
        dozing = self.active & rising & (size < 0.5 * rules.wake)
        awake = self.active & ~dozing
        on_its_way = awake & (jnp.abs(utility) > 2 * bend)
        rate, drive = self.loss_rate(theta, push), drives(problem, theta, push)
        return Margins(
            waking=jnp.where(~self.active & rules.dormant_move, waking, jnp.inf),
            sleeping=jnp.where(self.active & rules.active_move, sleeping, jnp.inf),
            resting=self._resting(theta, push, loss, awake, on_its_way),
            rising=rising,
            dozing=dozing,
            active=self.active,
            view=View(loss, rate, drive, jnp.sqrt(squares)),
        )

    def _bend(self, theta: Parameters) -> Float[Array, " width"]:
        """Second derivative of the loss along each unit, where the loss is not squared."""
        problem = self.problem
        function = problem.function(self.only_active(theta))
        slope = jax.grad(problem.cost)

        def along(one: Array) -> Float[Array, ""]:
            return jnp.sum(one * jax.jvp(slope, (function,), (one,))[1])

        return jax.lax.map(along, problem.features(theta))

    def _waking(
        self,
        size: Float[Array, " width"],
        utility: Float[Array, " width"],
        least: Float[Array, " width"],
    ) -> Float[Array, " width"]:
        """A unit wakes when its size reaches the threshold, while it grows.

        What shrinks is pushed away from the threshold without a step, at which no event could be located.
        """
        shrinks = jnp.minimum(utility, 0.0) / jnp.maximum(least, _TINY)
        return jnp.log(self.rules.wake) - jnp.log(jnp.maximum(size, _TINY)) - shrinks

    def _sleeping(
        self, part: Float[Array, " width"], utility: Float[Array, " width"]
    ) -> Float[Array, " width"]:
        """A unit falls asleep when its size has fallen below the threshold, and only while it shrinks."""
        distance = jnp.log(jnp.maximum(part, _TINY)) - jnp.log(self.rules.sleep)
        return jnp.where(utility < 0, distance, jnp.inf)

    def _resting(
        self,
        theta: Parameters,
        push: Parameters,
        loss: Float[Array, ""],
        awake: Bool[Array, " width"],
        on_its_way: Bool[Array, " width"],
    ) -> Float[Array, ""]:
        """Active units rest when they are calm beside the dormant ones that wait, or exhausted."""
        growth = growth_rates(theta, push)
        drive = drives(self.problem, theta, push) / self.largest
        waiting = jnp.any(~awake & (drive > self.rules.idle))
        falls = self._loss_falls(self.loss_rate(theta, push), loss, growth)
        restless = jnp.maximum(falls, self._units_move(growth, on_its_way))
        calm = jnp.where(waiting, restless, jnp.inf)  # nobody to be calm beside
        left = jnp.where(awake, drive, 0.0)
        over = jnp.minimum(self._drive_is_left(left, waiting), self._loss_is_left(loss))
        distance = jnp.minimum(calm, over)
        return jnp.where(self.rules.active_move, jnp.log(jnp.maximum(distance, _TINY)), jnp.inf)

    def _loss_is_left(self, loss: Float[Array, ""]) -> Float[Array, ""]:
        """The loss, over what is as good as none."""
        return jnp.where(
            self.rules.nothing > 0, loss / jnp.maximum(self.rules.nothing, _TINY), jnp.inf
        )

    def _fastest_dormant(self, growth: Float[Array, " width"]) -> Float[Array, ""]:
        return jnp.max(jnp.where(self.active, 0.0, growth))

    def _loss_falls(
        self, rate: Float[Array, ""], loss: Float[Array, ""], growth: Float[Array, " width"]
    ) -> Float[Array, ""]:
        """Fall of the loss while a dormant unit grows e-fold, over what is allowed: below 1 it stands."""
        gained = jnp.maximum(self.rules.level - loss, 0.0)
        allowed = self.rules.calm * self._fastest_dormant(growth) * gained
        return jnp.maximum(-rate, _TINY) / jnp.maximum(allowed, _TINY)

    def _units_move(
        self, growth: Float[Array, " width"], on_its_way: Bool[Array, " width"]
    ) -> Float[Array, ""]:
        """Growth of active units that are far from their rest, over what is not waited for."""
        moving = jnp.max(jnp.where(on_its_way, jnp.abs(growth), 0.0))
        allowed = self.rules.patient * self._fastest_dormant(growth)
        return moving / jnp.maximum(allowed, _TINY)

    def _drive_is_left(
        self, drive: Float[Array, " width"], waiting: Bool[Array, ""]
    ) -> Float[Array, ""]:
        """Largest drive of a unit that is awake, over what counts as none: below 1 all are exhausted.

        While dormant units with utility wait, the residual must be right to the last digit.
        """
        last = jnp.maximum(self.rules.near, self.rules.last * self.rules.idle)
        enough = jnp.where(waiting, self.rules.near, last)
        return jnp.max(drive) / jnp.maximum(enough, _TINY)

    @property
    def slack(self) -> Any:
        """How late a unit may wake."""
        return self.rules.late

    @property
    def context(self) -> Stand:
        """Who is active, the residual, the largest drives, and the rules."""
        return Stand(self.active, self.residual, self.largest, self.numbers)

    def within(self, context: Stand) -> "Alternation":
        """The same units elsewhere in the walk."""
        return type(self)(self.problem, self.drive, self.sign, *context)

    def watch(self, y: Parameters, velocity: Parameters) -> Watch:
        """The nearest event: units wake and sleep, and the motion goes on; or it ends."""
        theta = self.parameters(y)
        margins = self.margins(theta, velocity if self.sign is None else velocity * theta)
        units = jnp.minimum(jnp.min(margins.waking), jnp.min(margins.sleeping))
        # how calm the active ones have become by the end of a step does not matter
        resting = jnp.maximum(margins.resting, -0.5 * self.rules.late)
        margin = jnp.minimum(jnp.minimum(units, resting), 1e3)
        now = jnp.maximum(margin, 0.0)
        active = (self.active & (margins.sleeping > now)) | (margins.waking <= now)
        ends = (units > now) | self.rules.stops
        return Watch(margin, self.context._replace(active=active), ends, margins)
