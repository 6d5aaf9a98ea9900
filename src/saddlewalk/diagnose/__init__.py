"""What happened: pure functions of a trajectory or of a bare loss curve."""

from saddlewalk.curve import LossCurve as LossCurve
from saddlewalk.diagnose.stages import loss_curve as loss_curve
from saddlewalk.diagnose.stages import observed_stages as observed_stages
from saddlewalk.plateaus import Jump as Jump
from saddlewalk.plateaus import find_jumps as find_jumps
from saddlewalk.plateaus import turned_on as turned_on
