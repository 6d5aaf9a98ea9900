"""What happened, and where a network is: functions of a trajectory, a loss curve or parameters."""

from saddlewalk.balance import conserved_quantities as conserved_quantities
from saddlewalk.curves.curve import LossCurve as LossCurve
from saddlewalk.curves.jumps import Jump as Jump
from saddlewalk.curves.jumps import find_jumps as find_jumps
from saddlewalk.curves.jumps import turned_on as turned_on
from saddlewalk.diagnose.conserved import ConservedDrift as ConservedDrift
from saddlewalk.diagnose.conserved import Drift as Drift
from saddlewalk.diagnose.conserved import conserved_drift as conserved_drift
from saddlewalk.diagnose.distances import DistancesFromStart as DistancesFromStart
from saddlewalk.diagnose.kinds import PointKind as PointKind
from saddlewalk.diagnose.kinds import RegimeKind as RegimeKind
from saddlewalk.diagnose.landscapes.drift import drift_of as drift_of
from saddlewalk.diagnose.landscapes.regime import regime_of as regime_of
from saddlewalk.diagnose.manifolds import contributions as contributions
from saddlewalk.diagnose.manifolds import manifold_distance as manifold_distance
from saddlewalk.diagnose.manifolds import reduce as reduce
from saddlewalk.diagnose.partition import activation_patterns as activation_patterns
from saddlewalk.diagnose.partition import draw_partition as draw_partition
from saddlewalk.diagnose.partition import hamming_distance as hamming_distance
from saddlewalk.diagnose.partition import region_colors as region_colors
from saddlewalk.diagnose.phases import Phase as Phase
from saddlewalk.diagnose.phases import Phases as Phases
from saddlewalk.diagnose.phases import find_phases as find_phases
from saddlewalk.diagnose.regime import Regime as Regime
from saddlewalk.diagnose.regime import find_regime as find_regime
from saddlewalk.diagnose.saddles import SaddleReport as SaddleReport
from saddlewalk.diagnose.saddles import saddle_test as saddle_test
from saddlewalk.diagnose.stability import Stability as Stability
from saddlewalk.diagnose.stability import find_stability as find_stability
from saddlewalk.diagnose.tangent_kernel import kernel_distance as kernel_distance
from saddlewalk.diagnose.tangent_kernel import network_kernel as network_kernel
from saddlewalk.diagnose.tangent_kernel import tangent_kernel as tangent_kernel
from saddlewalk.diagnose.tangent_kernel import target_alignment as target_alignment
from saddlewalk.diagnose.width import EffectiveWidth as EffectiveWidth
from saddlewalk.diagnose.width import effective_width as effective_width
from saddlewalk.diagnose.width import effective_widths as effective_widths
from saddlewalk.diagnose.width import widths_along as widths_along
from saddlewalk.flow.observed import loss_curve as loss_curve
from saddlewalk.flow.observed import observed_stages as observed_stages
from saddlewalk.landscape.functions import landscape_of as landscape_of
from saddlewalk.renamed import answer_old_names

__getattr__ = answer_old_names(__name__, {"Watch": "saddlewalk.diagnose.DistancesFromStart"})
