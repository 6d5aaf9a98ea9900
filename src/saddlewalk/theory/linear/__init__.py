r""":math:`\dot Z = K Z`: the fully connected linear network (section 4, appendix D).

Utility maximization. Stack the layers of :math:`\beta = A W` into :math:`Z = [W^\top; A]`, one column a
hidden unit. With the gradient :math:`G = -\nabla_\beta L = \Sigma_{yx} - \beta \Sigma_{xx}` frozen,

.. math:: Z(t) = e^{K t} Z(0), \qquad K = \begin{pmatrix} 0 & G^\top \\ G & 0 \end{pmatrix},

so a singular mode :math:`(u, \sigma, v)` of G grows like :math:`e^{\sigma t}` along one direction of the
hidden space, and takes this direction away from all later modes when it saturates.

Cost minimization. Active directions go to the best map of their rank (reduced rank regression),
:math:`P_{U_k} \Sigma_{yx} \Sigma_{xx}^{-1}` with loss :math:`\frac12 \sum_{i>k} \mu_i`.

In the limit of vanishing scale, modes whose inputs are correlated meet, and follow Conjecture 4.1
together; sets of modes that never meet go their own ways. Gidel's :math:`\tau = 1/\sigma` is the case of
no correlations at all (Sigma_xx commutes with Sigma_yx^T Sigma_yx): there the order of sigma
counts, not that of mu.

At finite scale, where no two modes meet, the whole curve is one formula, the matrix logistic
function. Where they do, plateaus are closed; jumps go by a few steps, in each of which one
layer follows its flow exactly while the other is frozen.
"""

from saddlewalk.theory.linear.any_loss import LinearLossTheory as LinearLossTheory
from saddlewalk.theory.linear.finite_scale import UncorrelatedModes as UncorrelatedModes
from saddlewalk.theory.linear.finite_scale import logistic_curve as logistic_curve
from saddlewalk.theory.linear.finite_scale import logistic_map as logistic_map
from saddlewalk.theory.linear.finite_scale import read_rests as read_rests
from saddlewalk.theory.linear.finite_scale import transition_curve as transition_curve
from saddlewalk.theory.linear.finite_scale import turns as turns
from saddlewalk.theory.linear.greedy import greedy_low_rank as greedy_low_rank
from saddlewalk.theory.linear.limit import Event as Event
from saddlewalk.theory.linear.limit import events_of as events_of
from saddlewalk.theory.linear.limit import families as families
from saddlewalk.theory.linear.limit import input_correlations as input_correlations
from saddlewalk.theory.linear.limit import largest_correlation as largest_correlation
from saddlewalk.theory.linear.limit import limit_events as limit_events
from saddlewalk.theory.linear.limit import loss_levels as loss_levels
from saddlewalk.theory.linear.maps import Covariances as Covariances
from saddlewalk.theory.linear.maps import Layers as Layers
from saddlewalk.theory.linear.maps import accumulated_times as accumulated_times
from saddlewalk.theory.linear.maps import conjecture_4_1 as conjecture_4_1
from saddlewalk.theory.linear.maps import descend as descend
from saddlewalk.theory.linear.maps import fastest_rate as fastest_rate
from saddlewalk.theory.linear.maps import gidel_times as gidel_times
from saddlewalk.theory.linear.maps import grow as grow
from saddlewalk.theory.linear.maps import loss_slope as loss_slope
from saddlewalk.theory.linear.maps import reduced_rank_regression as reduced_rank_regression
from saddlewalk.theory.linear.maps import relax_inner as relax_inner
from saddlewalk.theory.linear.maps import relax_outer as relax_outer
from saddlewalk.theory.linear.maps import top_output as top_output
from saddlewalk.theory.linear.theory import LinearTheory as LinearTheory
