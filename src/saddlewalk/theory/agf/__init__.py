"""Alternating Gradient Flows, for any sum of units: the theory, its walk, and what decides in it.

==================  ========================================================================
`theory`            methods, hypotheses, and the stages read off a walk
`walk`              from plateau to plateau: who is active, what time it is, the curve behind
`alternation`       how units move, and how far each is from waking, sleeping and resting
`phase`             the same seen from NumPy, by programs that are compiled once for the whole walk
`plateau`           dormant units climb, until the first wakes
`transition`        active units descend together, until they rest
`leap`              plateaus of degree 2, in closed form
`alone`             plateaus with kinks, each unit by steps of its own
`climb`             plateaus above degree 2, on a clock that does not know the scale
`tail`              the end of a transition, in closed form
`settling`          tails that would take for ever, cut short
`alignment`         dormant units turned at once
`thresholds`        the numbers, each with its reason
`record`            the loss curve behind, and the network at some of its points
`naming`            what a stage learned, in the words of its setting
==================  ========================================================================
"""

from saddlewalk.theory.agf.theory import AlternatingGradientFlows as AlternatingGradientFlows
from saddlewalk.theory.agf.theory import read_walk as read_walk
from saddlewalk.theory.agf.thresholds import Thresholds as Thresholds
from saddlewalk.theory.agf.walk import Walk as Walk
