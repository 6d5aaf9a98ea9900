"""The numbers of the walk, each with its reason.

None of them is in units of time, of loss or of a weight: they are parts of what the data themselves set. What
happens at half and at twice nearly each of them was measured (`benchmarks/thresholds.py`); the table is in
`benchmarks/thresholds.md`.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Thresholds:
    """When units wake, sleep and rest; when a tail is cut short; how exact and how long steps are."""

    # --- waking and sleeping
    wake: float = 1e-4
    """A dormant unit wakes, in real time, at this part of its output at rest: well before it is felt."""
    wake_above_2: float = 3e-4
    """The same for degrees above 2, in which a unit that is this large has hardly any time left."""
    sleep: float = 0.1
    """An active unit that shrinks (its utility is negative) is dormant again when its output has fallen to
    `sleep * wake * least_alignment` of the length of the residual: less than 1, so that a unit on the border
    does not flicker."""
    collapse: float = 1e-3
    """The same in Algorithm 1, in place of `sleep * wake`."""
    least_alignment: float = 0.01
    """Below this cosine between a unit and the residual, the size at rest is that at this cosine: a unit that
    points nowhere would rest at zero, and wake at once."""
    least_alignment_above_2: float = 0.1
    """The same for degrees above 2: a unit that points nowhere stays small for long, and nobody feels it."""
    at_event: float = 1e-6
    """Events this near, in logarithms of ratios, happen together: units that tie wake together."""

    late: float = 0.5
    """In real time a unit may wake this much later, in the logarithm of its output: it is not felt yet, and
    steps need not end at the moment."""
    prompt: float = 1e-8
    """The same in Algorithm 1, in which that moment is the time of a stage."""

    # --- rest of the active units
    calm: float = 1e-10
    """In real time active units rest when the loss they would lose while a dormant one grows by a factor of e
    is below this part of what the stage has gained."""
    patient: float = 1e-3
    """An active unit on its way up or down is waited for, unless dormant ones grow this much faster."""
    exhausted: float = 1e-9
    """They rest in any case when their drive has fallen to this part of its largest: the residual must be
    right to the last digit while dormant units wait. In Algorithm 1 dormant units stand still, nobody is
    calm beside them, and every stage ends as the last one: at `last` of this part."""
    near_rest: float = 0.005
    """At this part of their largest drive it is tried whether what is left is a tail in closed form; if not,
    again at a tenth of it, and so on down to `exhausted`."""
    tail_step: float = 0.05
    """A tail leads to where this part of the velocity, at most, is left; and so does each further step."""
    tail_near: float = 1e-4
    """Part of it that must not be left in the end."""
    tail_rest: float = 1e-9
    """Part at which nothing is left."""
    tail_error: float = 1e-4
    """Error, in the logarithm of a dormant unit, of taking a tail at once."""
    slow: float = 10.0
    """What changes more slowly than this times the growth of dormant units is no tail."""
    slow_by_exponentials: float = 0.1
    """The same for degree 2, in which what dormant units get is all that counts, and not when."""
    leaving: float = 1e-4
    """Active units have left a saddle when they are this part of themselves away."""
    dense_tail: int = 400
    """Parameters up to which a tail is looked for: it takes a dense Jacobian."""
    convergence: float = 1e-4
    """A dormant unit has no utility left when its drive has fallen to this part of its largest; `train` has
    the same."""
    last: float = 0.3
    """The last stage ends when the drive of its units is this part of what counts as none: the loss, of
    second order, is then right to 1e-7."""

    nothing: float = 1e-6
    """Part of the first loss that is as good as none: steps below it are not listed as stages."""

    nothing_of_stage: float = 1e-3
    """Part of the loss before a stage at which the stage is over for certain."""
    # --- tails that would take for ever
    sliding: float = 1e-4
    """A tail has settled when, in as much time as has passed, the loss would fall by less than this part of
    the stage's gain."""
    fading: float = 1e-6
    """The same in the last stage, after which nothing depends on it, and in all of Algorithm 1, where the
    rest is polished away."""
    growing: float = 0.3
    """Nor must the logarithm of a small unit's output grow by more than this meanwhile: it may take over."""
    small_output: float = 0.1
    """A unit is small below this part of the largest output."""
    still: float = 1e-2
    """With kinks no unit at all must change by more than this part: one that slides along a kink has a
    velocity for ever and goes nowhere."""
    long: int = 20_000
    """Right-hand sides after which the tail of a smooth transition may be cut short; at twice as many, twice
    as much may be left."""
    tail: float = 0.1
    """Part of a stage's gain that its tail may hold; more is no tail, but the way past a saddle."""
    near: float = 0.5
    """Change of the logarithm of a norm within which the bottom of a tail is taken instead of a point on it;
    a bottom farther off is infinitely far away."""
    polish: int = 500
    """Quasi-Newton steps to the bottom of a tail."""

    # --- steps
    plateau_tolerance: float = 1e-8
    """Error of a step on a plateau: dormant units grow by many powers of ten, and their errors with them."""
    transition_tolerance: float = 1e-6
    """The same in a transition, in which units grow by a few powers of ten at most."""
    kinked_plateau_tolerance: float = 1e-5
    """With kinks: steps across them err in proportion to the tolerance, and their number grows as much."""
    kinked_transition_tolerance: float = 5e-5
    """The same in a transition."""
    aligned: float = 1e-7
    """Part of a gradient that may still turn a unit that counts as aligned."""
    stabilized_tolerance: float = 1e-5
    """The same for stabilized steps, of order 2: they take half as many as at 1e-6."""
    stiff_after: int = 512
    """Explicit steps after which a smooth transition counts as stiff."""
    stiff_after_above_2: int = 64
    """The same for degrees above 2, in which active units are stiff beside those that crawl; twice as many
    where stiff steps are stabilized ones."""
    far_stiffer: float = 1e5
    """A transition is stiff from its beginning if those at rest relax this much faster than any active one
    grows: explicit steps would be a millionth of what is to be passed, and shake those by their errors."""
    dense: int = 150
    """Parameters up to which stiff steps take a dense Jacobian."""
    most_dense: int = 1000
    """The same where a stabilized step takes more right-hand sides than a Jacobian has columns."""
    first_steps: int = 32
    """Steps on a plateau before a leap in closed form is tried again; then twice as many."""
    leap_error: float = 1e-7
    """Error of each unit's velocity where a leap lands, relative to what it might be."""
    leap_checks: int = 4
    """Places along a leap at which it is checked."""
    most_leaps: int = 50
    """Parts of a leap, each up to where the next unit might wake."""
    worth: float = 1.0
    """Growth, in the exponent, that makes a leap worth it."""
    most_steps: int = 100_000
    """Steps of one plateau or one transition."""
    most_rounds: int = 100
    """Plateaus and transitions, besides ten for each unit."""
    least_norm_of_mixed: float = 1e-50
    """Basis vectors that start below it lose what is to grow in the last digit of what carries it."""
    remembered: int = 3000
    """Parameters up to which the network is remembered at every step, not only where the loss has changed."""
