"""Lazy, rich or delayed rich: how far the tangent kernel of a run turned, and when.

A run is **lazy** if the kernel stands still, **rich** if it turns, and **delayed rich** if it begins to turn
long after learning began: when, at its first speed, the loss would have fallen several times over. Why is
said by the conserved quantities: upstream, balanced or downstream. All numbers behind the verdict are kept.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Float

from saddlewalk.balance import Conserved, conserved_quantities
from saddlewalk.diagnose.conserved import spread
from saddlewalk.diagnose.partition import activation_patterns, hamming_distance
from saddlewalk.diagnose.tangent_kernel import kernel_distance, tangent_kernel, target_alignment
from saddlewalk.errors import InputError
from saddlewalk.flow import Trajectory
from saddlewalk.precision import in_float64
from saddlewalk.problem import ParametersLike, Problem
from saddlewalk.show import text
from saddlewalk.tasks.base import AbstractPoints
from saddlewalk.tasks.samples import Samples, finite_numbers

if TYPE_CHECKING:
    from pathlib import Path

    import xarray as xr
    from matplotlib.axes import Axes

LAZY, RICH, DELAYED = "lazy", "rich", "delayed rich"
STILL = 0.05
"""Kernel distance below which the kernel counts as standing still."""
LATE = 3.0
"""Delay above which richness is a delayed one."""
_BEGUN = 0.1
"""Part of its whole way at which the kernel has begun to turn."""
GREW = 2.0
"""Factor by which the kernel's norm may change while it counts as standing still."""
_MOST_ROWS = 500


class Watch:
    """Distances of a network from its start: in kernel, activation patterns and parameters.

    An instance is a function of the parameters; `observables()` are the same one by one, for `train`.
    """

    def __init__(self, problem: Problem, start: ParametersLike, x: Any = None):
        self.problem = problem
        self.x, self.targets = _some(problem, x)
        self.start = np.asarray(start, dtype=float)
        self.kernel = self._kernel(start)
        self.patterns = self._patterns(start)

    def __call__(self, theta: ParametersLike) -> dict[str, float]:
        """All of them for one set of parameters."""
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
        return np.asarray(tangent_kernel(self.problem, theta, self.x))

    def _patterns(self, theta: ParametersLike) -> np.ndarray | None:
        """None where no neuron has a kink that could divide the inputs."""
        if self.problem.smooth:
            return None
        weights = self.problem.weights(np.asarray(theta))
        none = jax.eval_shape(self.problem.units.preactivations, weights, self.x[0]) is None
        return None if none else activation_patterns(self.problem, theta, self.x)


@dataclass(frozen=True)
class Regime:
    """A verdict on a run, and the numbers it rests on."""

    name: str
    data: "xr.Dataset"
    """By time: loss, kernel_distance, kernel_growth, parameter_distance, and where they have a meaning
    hamming_distance and target_alignment."""
    conserved: dict[str, Conserved]
    """At the start, by hidden layer; empty where nothing is conserved."""
    balance_at_end: dict[str, float]

    @property
    def kernel_distance(self) -> float:
        """S(0, t) at the end of the run."""
        return float(self.data["kernel_distance"][-1])

    @property
    def delay(self) -> float:
        """When the kernel began to turn, over the time that learning would take at its first pace."""
        return self.data.attrs["delay"]

    @property
    def sides(self) -> dict[str, str]:
        """upstream, balanced or downstream, by hidden layer."""
        return {name: one.side for name, one in self.conserved.items()}

    def to_xarray(self) -> "xr.Dataset":
        """The labeled data themselves."""
        return self.data

    def to_json(self) -> dict[str, Any]:
        """The machine-readable form."""
        last = {str(name): float(values[-1]) for name, values in self.data.data_vars.items()}
        return {
            "regime": self.name,
            "delay": self.delay,
            "at_end": last,
            "layers": {
                name: {
                    "side": self.sides[name],
                    "balance": one.balance,
                    "balance_at_end": self.balance_at_end[name],
                    "degree": one.degree,
                    "deltas": one.deltas.tolist(),
                }
                for name, one in self.conserved.items()
            },
            "time": self.data["time"].values.tolist(),
            **{str(name): values.values.tolist() for name, values in self.data.data_vars.items()},
        }

    def save(self, path: "str | Path") -> "Path":
        """Write the data to one netCDF file."""
        from saddlewalk import store

        return store.save_dataset(self.data, path)

    def plot(self, target: "str | Path | Axes | None" = None) -> "Axes":
        """The loss, and how far the kernel and the activation patterns went, along time."""
        from saddlewalk.show import draw

        with draw.canvas(target) as axes:
            later = self.data.isel(time=slice(1, None))  # time 0 has no place on a logarithmic axis
            first = float(self.data["loss"][0])
            axes.plot(later["time"], later["loss"] / first, color="0.5", label="loss / first loss")
            curves = {
                "kernel_distance": (draw.PREDICTED, "-", "kernel distance S(0, t)"),
                "hamming_distance": (draw.OBSERVED, "-", "activations switched"),
                "target_alignment": ("k", ":", "kernel-target alignment"),
            }
            for name, (color, line, words) in curves.items():
                if name in later:
                    axes.plot(later["time"], later[name], line, color=color, label=words)
            axes.set_ylabel("part of 1")
            axes.set_xlabel("time (learning rate 1)")
            axes.set_xscale("log")
            axes.set_ylim(0, 1.02)
            axes.set_title(", ".join([self.name, *self.sides.values()]))
            axes.legend(fontsize=8)
        return axes

    def __str__(self) -> str:
        first, last = (text.number(float(self.data["loss"][k])) for k in (0, -1))
        rows = [
            ["loss, first and last", f"{first}, {last}"],
            ["kernel distance S(0, end)", text.number(self.kernel_distance)],
            ["kernel norm, end over start", text.number(float(self.data["kernel_growth"][-1]))],
        ]
        if self.name != LAZY:
            rows.append(["delay of the turn (above 3: late)", text.number(self.delay)])
        named = {
            "hamming_distance": "activations switched",
            "parameter_distance": "parameter distance",
            "target_alignment": "kernel-target alignment at the end",
        }
        rows += [
            [words, text.number(float(self.data[name][-1]))]
            for name, words in named.items()
            if name in self.data
        ]
        for name, one in self.conserved.items():
            rows += [
                [f"{name}: side", self.sides[name]],
                [
                    f"{name}: balance (delta/kappa), start, end",
                    f"{one.balance:.3g}, {self.balance_at_end[name]:.3g}",
                ],
                [
                    f"{name}: delta, smallest, largest",
                    f"{one.deltas.min():.3g}, {one.deltas.max():.3g}",
                ],
            ]
        return str(text.Table(f"regime: {self.name}", ["", "value"], rows))


@in_float64
def find_regime(path: Trajectory, problem: Problem, x: Any = None, moments: int = 40) -> Regime:
    """Which regime a run was in. Kernels are taken at the task's samples (some of them, if many) or at x."""
    import xarray as xr

    parameters = path.of(problem).parameters
    saved = path.data["saved"].values
    if saved[0] > 0:
        raise InputError("The run did not keep its start: train with times that include 0.")
    watch = Watch(problem, parameters[0], x)
    rows = _moments(saved, max(moments, 4))
    seen = [watch(parameters[k]) for k in rows]
    times = saved[rows]
    loss = np.interp(times, path.time, path.loss)
    data = xr.Dataset(
        {
            "loss": ("time", loss),
            **{name: ("time", np.array([one[name] for one in seen])) for name in seen[0]},
        },
        coords={"time": times},
        attrs={"kind": "regime"},
    )
    pace = -float(path.data["loss_rate"][0])
    data.attrs["delay"] = delay_of(times, loss, data["kernel_distance"].values, pace)
    kept = {} if problem.adaptive else conserved_quantities(problem, parameters[0])
    last = {} if problem.adaptive else conserved_quantities(problem, parameters[-1])
    name = verdict(
        data["kernel_distance"].values, data["kernel_growth"].values, data.attrs["delay"]
    )
    return Regime(name, data, kept, {layer: one.balance for layer, one in last.items()})


def verdict(
    distance: Float[np.ndarray, " moments"], growth: Float[np.ndarray, " moments"], delay: float
) -> str:
    """The regime, from the kernel's turn and growth along a run and the delay of its turn."""
    if distance.max() < STILL:
        return LAZY if growth.min() > 1 / GREW and growth.max() < GREW else RICH
    return DELAYED if delay > LATE else RICH


def delay_of(
    time: Float[np.ndarray, " moments"],
    loss: Float[np.ndarray, " moments"],
    distance: Float[np.ndarray, " moments"],
    pace: float,
) -> float:
    """How often the loss would have fallen, at its first `pace`, when the kernel began to turn."""
    fall, level = float(loss[0] - loss.min()), _BEGUN * float(distance.max())
    after = int(np.argmax(distance >= level))
    if after == 0 or fall <= 0:
        return 0.0
    # linear between two moments, which may be coarse at the start of a long run
    part = (level - distance[after - 1]) / (distance[after] - distance[after - 1])
    begun = time[after - 1] + part * (time[after] - time[after - 1])
    return float(begun) * pace / fall


def _moments(times: np.ndarray, most: int) -> np.ndarray:
    """Half of them even among the saved ones, half even in the logarithm of time: the first turn is early."""
    even = spread(len(times), most // 2 + 1)
    later = times[times > 0]
    if not later.size:
        return even
    wanted = np.geomspace(later[0], later[-1], most // 2)
    return np.union1d(even, np.searchsorted(times, wanted).clip(max=len(times) - 1))


def _some(problem: Problem, x: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """The inputs at which kernels are taken, those given or the task's (evenly thinned if many), and the
    targets of the task's own samples."""
    if x is not None:
        return finite_numbers("x", x), None
    task = problem.task
    if not isinstance(task, AbstractPoints):
        raise InputError(f"'{task.name}' has no samples; give inputs x to look at.")
    rows = spread(len(task.x), max(2, _MOST_ROWS // task.outputs))
    # moments stand for samples in the kernel's distance, but not in the targets
    targets = np.asarray(task.y)[rows] if isinstance(task, Samples) else None
    return np.asarray(task.x)[rows], targets
