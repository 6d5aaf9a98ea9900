"""Loss curves, predicted or simulated: where they rest and jump, and the stages that are read off them."""

from saddlewalk.curves.curve import LossCurve as LossCurve
from saddlewalk.curves.jumps import Jump as Jump
from saddlewalk.curves.jumps import find_jumps as find_jumps
from saddlewalk.curves.jumps import turned_on as turned_on
from saddlewalk.curves.plateaus import Plateau as Plateau
from saddlewalk.curves.plateaus import find_plateaus as find_plateaus
from saddlewalk.curves.plateaus import plateau_before as plateau_before
from saddlewalk.curves.stages import Stage as Stage
from saddlewalk.curves.stopped import Stopped as Stopped
