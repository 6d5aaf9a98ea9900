"""Everything for PyTorch modules under one name; it lives beside what it serves.

`import saddlewalk.torch` needs PyTorch (`pip install saddlewalk[torch]`).
"""

from saddlewalk.balance.torch import conserved_deltas as conserved_deltas
from saddlewalk.balance.torch import rescale_layers as rescale_layers
from saddlewalk.balance.torch import rescale_units as rescale_units
from saddlewalk.diagnose.torch import conserved_drift as conserved_drift
from saddlewalk.diagnose.torch import conserved_quantities as conserved_quantities
from saddlewalk.diagnose.torch import effective_widths as effective_widths
from saddlewalk.diagnose.torch import find_regime as find_regime
from saddlewalk.diagnose.torch import kernel_distance as kernel_distance
from saddlewalk.diagnose.torch import saddle_test as saddle_test
from saddlewalk.diagnose.torch import tangent_kernel as tangent_kernel
from saddlewalk.features.torch import lightning_callback as lightning_callback
from saddlewalk.features.torch import module_features as module_features
from saddlewalk.landscape.as_problem import as_problem as as_problem
from saddlewalk.landscape.recognized import RecognizedProblem as RecognizedProblem
from saddlewalk.landscape.torch import ModuleLandscape as ModuleLandscape
from saddlewalk.watch.callbacks import lightning_watch as lightning_watch
from saddlewalk.watch.callbacks import trainer_watch as trainer_watch
from saddlewalk.watch.torch import Watch as Watch
