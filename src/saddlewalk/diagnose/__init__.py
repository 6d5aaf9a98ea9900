"""What happened, and where a network is: functions of a trajectory, a loss curve or parameters."""

from saddlewalk.curve import LossCurve as LossCurve
from saddlewalk.diagnose.manifolds import manifold_distance as manifold_distance
from saddlewalk.diagnose.manifolds import reduce as reduce
from saddlewalk.diagnose.phases import Phase as Phase
from saddlewalk.diagnose.phases import Phases as Phases
from saddlewalk.diagnose.phases import find_phases as find_phases
from saddlewalk.diagnose.saddles import SaddleReport as SaddleReport
from saddlewalk.diagnose.saddles import saddle_test as saddle_test
from saddlewalk.diagnose.stages import loss_curve as loss_curve
from saddlewalk.diagnose.stages import observed_stages as observed_stages
from saddlewalk.diagnose.tangent_kernel import kernel_distance as kernel_distance
from saddlewalk.diagnose.tangent_kernel import network_kernel as network_kernel
from saddlewalk.diagnose.tangent_kernel import tangent_kernel as tangent_kernel
from saddlewalk.diagnose.tangent_kernel import target_alignment as target_alignment
from saddlewalk.diagnose.width import EffectiveWidth as EffectiveWidth
from saddlewalk.diagnose.width import effective_width as effective_width
from saddlewalk.diagnose.width import widths_along as widths_along
from saddlewalk.plateaus import Jump as Jump
from saddlewalk.plateaus import find_jumps as find_jumps
from saddlewalk.plateaus import turned_on as turned_on
