"""How far a network has come from its start: in its tangent kernel, activation patterns and parameters."""

from typing import Any

import jax
import numpy as np

from saddlewalk.diagnose.inputs import inputs_of
from saddlewalk.diagnose.moments import spread
from saddlewalk.diagnose.partition import activation_patterns, hamming_distance
from saddlewalk.diagnose.tangent_kernel import kernel_distance, tangent_kernel, target_alignment
from saddlewalk.problem import ParametersLike, Problem, network_at
from saddlewalk.tasks.samples import Samples

_MOST_ROWS = 500


class DistancesFromStart:
    """Distances of a network from its start: in kernel, activation patterns and parameters.

    An instance is a function of the parameters; `observables()` are the same one by one, for `train`.

    Parameters
    ----------
    problem : units, data and loss.
    start : parameters `(width, size)` from which distances are measured.
    x : inputs `(n, d)` at which kernels are taken; by default the task's samples, some of them if many.
    """

    def __init__(self, problem: Problem, start: ParametersLike, *, x: Any = None):
        self.problem, self.start = network_at(problem, start)
        self.x, self.targets = _some(problem, x)
        self.kernel = self._kernel(start)
        self.patterns = self._patterns(start)

    def __call__(self, theta: ParametersLike) -> dict[str, float]:
        """All of them for one set of parameters.

        Parameters
        ----------
        theta : parameters `(width, size)`.
        """
        kernel = self._kernel(theta)
        seen = {
            "kernel_distance": kernel_distance(self.kernel, kernel),
            "kernel_growth": float(np.linalg.norm(kernel) / np.linalg.norm(self.kernel)),
            "parameter_distance": float(np.linalg.norm(np.asarray(theta) - self.start)),
        }
        if self.patterns is not None:
            seen["hamming_distance"] = hamming_distance(self.patterns, self._patterns(theta))
        if self.targets is not None:
            seen["target_alignment"] = target_alignment(kernel, self.targets)
        return seen

    def observables(self) -> dict[str, Any]:
        """One function of the parameters each, as `train(observables=...)` takes them."""
        return {name: lambda theta, name=name: self(theta)[name] for name in self(self.start)}

    def _kernel(self, theta: ParametersLike) -> np.ndarray:
        # of all outputs: summed over them a kernel can stand still while it turns between them
        return np.asarray(tangent_kernel(self.problem, theta, x=self.x))

    def _patterns(self, theta: ParametersLike) -> np.ndarray | None:
        """None where no neuron has a kink that could divide the inputs."""
        if self.problem.smooth:
            return None
        weights = self.problem.weights(np.asarray(theta))
        none = jax.eval_shape(self.problem.units.preactivations, weights, self.x[0]) is None
        return None if none else activation_patterns(self.problem, theta, x=self.x)


def _some(problem: Problem, x: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """The inputs at which kernels are taken, those given or the task's (evenly thinned if many), and the
    targets of the task's own samples."""
    inputs = inputs_of(problem, x, virtual=True)
    if x is not None:
        return inputs, None
    task = problem.task
    rows = spread(len(inputs), max(2, _MOST_ROWS // task.outputs))
    # moments stand for samples in the kernel's distance, but not in the targets
    targets = np.asarray(task.y)[rows] if isinstance(task, Samples) else None
    return inputs[rows], targets
