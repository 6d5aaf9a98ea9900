"""Alternating Gradient Flows, for any sum of units: the theory, its walk, and what decides in it.

==================  ========================================================================
`theory`            methods, hypotheses, and the stages read off a walk
`walk`              from plateau to plateau: who is active, what time it is, the curve behind
`alternation`       how units move, and how far each is from waking, sleeping and resting
`thresholds`        the numbers, each with its reason
`settling`          tails that would take for ever, cut short
`naming`            what a stage learned, in the words of its setting
==================  ========================================================================
"""

from saddlewalk.theory.agf.theory import AlternatingGradientFlows as AlternatingGradientFlows
from saddlewalk.theory.agf.theory import read_walk as read_walk
from saddlewalk.theory.agf.thresholds import Thresholds as Thresholds
from saddlewalk.theory.agf.walk import Walk as Walk
