r"""Depth: :math:`\dot s = L s^{2-2/L}(\sigma - s)`, and the first escape of any deep network.

`modes` has one mode of a deep linear network in closed form, `layers` and `walk` all of them from any small
start; `sphere` the clock that does not know the scale; `escape` follows any network on it to its first
rest.
"""

from saddlewalk.theory.deep.escape import Escape as Escape
from saddlewalk.theory.deep.escape import first_escape as first_escape
from saddlewalk.theory.deep.first import FirstEscapeTheory as FirstEscapeTheory
from saddlewalk.theory.deep.first import predict_first_escape as predict_first_escape
from saddlewalk.theory.deep.layers import Chain as Chain
from saddlewalk.theory.deep.modes import strength_at as strength_at
from saddlewalk.theory.deep.modes import time_to as time_to
from saddlewalk.theory.deep.sphere import climb_sphere as climb_sphere
from saddlewalk.theory.deep.theory import DeepLinearTheory as DeepLinearTheory
from saddlewalk.theory.deep.theory import aligned_start as aligned_start
from saddlewalk.theory.deep.walk import walk as walk
