r"""Diagonal linear networks (section 3, appendix C): every coefficient is one unit.

`paper` has the formulas as printed, Eq 31 to 37 and Algorithm 2, in accelerated time; `finite_scale` the
steps of gradient flow from a finite scale, in time; both walk down the same least squares (`regression`), and
`accuracy` says how far off they are.
"""

from saddlewalk.theory.diagonal.any_loss import DiagonalLossTheory as DiagonalLossTheory
from saddlewalk.theory.diagonal.deep import DeepDiagonalTheory as DeepDiagonalTheory
from saddlewalk.theory.diagonal.finite_scale import Transition as Transition
from saddlewalk.theory.diagonal.finite_scale import finite_sequence as finite_sequence
from saddlewalk.theory.diagonal.paper import Dormancy as Dormancy
from saddlewalk.theory.diagonal.paper import Jump as Jump
from saddlewalk.theory.diagonal.paper import accumulate as accumulate
from saddlewalk.theory.diagonal.paper import accumulate_limit as accumulate_limit
from saddlewalk.theory.diagonal.paper import accumulated_utility as accumulated_utility
from saddlewalk.theory.diagonal.paper import agf_sequence as agf_sequence
from saddlewalk.theory.diagonal.paper import limit_sequence as limit_sequence
from saddlewalk.theory.diagonal.paper import sequence as sequence
from saddlewalk.theory.diagonal.paper import waiting_times as waiting_times
from saddlewalk.theory.diagonal.paper import waiting_times_limit as waiting_times_limit
from saddlewalk.theory.diagonal.potential import ManyLayers as ManyLayers
from saddlewalk.theory.diagonal.regression import Regression as Regression
from saddlewalk.theory.diagonal.theory import DiagonalTheory as DiagonalTheory
