"""Loss curves, predicted or simulated: where they rest, where they jump, and the staircase they make."""

from saddlewalk.curves.curve import LossCurve as LossCurve
from saddlewalk.curves.jumps import Jump as Jump
from saddlewalk.curves.jumps import find_jumps as find_jumps
from saddlewalk.curves.jumps import turned_on as turned_on
from saddlewalk.curves.staircase import Assumption as Assumption
from saddlewalk.curves.staircase import Stage as Stage
from saddlewalk.curves.staircase import Staircase as Staircase
