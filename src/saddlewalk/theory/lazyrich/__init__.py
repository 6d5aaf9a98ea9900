"""From lazy to rich: what conserved quantities make of learning (Get Rich Quick).

`neuron` one linear neuron, solved; `function_space` the same flow as preconditioned descent of the map, for
wide and deep linear networks too; `bias` where it ends among all maps that fit; `regimes` lazy, rich or
delayed rich by dimensions and signs; `piecewise` directions and slopes of ReLU neurons.
"""

from saddlewalk.theory.lazyrich.bias import deep_bias as deep_bias
from saddlewalk.theory.lazyrich.bias import deep_limit as deep_limit
from saddlewalk.theory.lazyrich.bias import hyperbolic_entropy as hyperbolic_entropy
from saddlewalk.theory.lazyrich.bias import line_limit as line_limit
from saddlewalk.theory.lazyrich.bias import neuron_bias as neuron_bias
from saddlewalk.theory.lazyrich.bias import neuron_limit as neuron_limit
from saddlewalk.theory.lazyrich.bias import neuron_potential as neuron_potential
from saddlewalk.theory.lazyrich.bias import singular_value_rate as singular_value_rate
from saddlewalk.theory.lazyrich.function_space import deep_preconditioner as deep_preconditioner
from saddlewalk.theory.lazyrich.function_space import gram_matrices as gram_matrices
from saddlewalk.theory.lazyrich.function_space import (
    isotropic_preconditioner as isotropic_preconditioner,
)
from saddlewalk.theory.lazyrich.function_space import isotropic_rate as isotropic_rate
from saddlewalk.theory.lazyrich.function_space import neuron_preconditioner as neuron_preconditioner
from saddlewalk.theory.lazyrich.function_space import (
    neurons_preconditioner as neurons_preconditioner,
)
from saddlewalk.theory.lazyrich.function_space import preconditioner as preconditioner
from saddlewalk.theory.lazyrich.function_space import preconditioner_rate as preconditioner_rate
from saddlewalk.theory.lazyrich.neuron import Neuron as Neuron
from saddlewalk.theory.lazyrich.neuron import NeuronPath as NeuronPath
from saddlewalk.theory.lazyrich.neuron import layer_norms as layer_norms
from saddlewalk.theory.lazyrich.piecewise import Spherical as Spherical
from saddlewalk.theory.lazyrich.piecewise import activation_slopes as activation_slopes
from saddlewalk.theory.lazyrich.piecewise import drives as drives
from saddlewalk.theory.lazyrich.piecewise import piecewise_kernel as piecewise_kernel
from saddlewalk.theory.lazyrich.piecewise import signed_spherical as signed_spherical
from saddlewalk.theory.lazyrich.piecewise import spherical_rates as spherical_rates
from saddlewalk.theory.lazyrich.regimes import LinearRegime as LinearRegime
from saddlewalk.theory.lazyrich.regimes import linear_regime as linear_regime
