"""What a run can be asked for: one field an option, with the words that explain it.

The command line makes its flags from these fields, sweep files their names, `Run` its parts. A name means the
same thing everywhere; no two parts share one.
"""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Option(NamedTuple):
    """What an option is: its type, and what it says to a person."""

    kind: type
    help: str
    same_program: bool = False
    """Whether runs that differ in nothing else share a compiled program: no shape depends on it."""


def _option(default: Any, kind: type, words: str, *, same_program: bool = False) -> Any:
    return field(default=default, metadata={"option": Option(kind, words, same_program)})


def options_of(part: type) -> dict[str, Option]:
    """The options of a part of a run, by name.

    Parameters
    ----------
    part : a dataclass whose fields hold an `Option` in their metadata, such as `TrainingOptions`.
    """
    return {one.name: one.metadata["option"] for one in dataclasses.fields(part)}


@dataclass(frozen=True)
class StartOptions:
    """Where a network starts."""

    scale: float | None = _option(
        None, float, "Initialization scale alpha (default: the setting's own).", same_program=True
    )
    seed: int = _option(0, int, "Seed of the initialization.", same_program=True)
    delta: float | None = _option(
        None,
        float,
        "Balance of each unit at the start: > 0 upstream (first layer learns faster), < 0 downstream.",
        same_program=True,
    )
    alpha: float | None = _option(
        None,
        float,
        "Or: first layer over alpha, last layer times alpha (to the degree).",
        same_program=True,
    )
    tau: float | None = _option(
        None,
        float,
        "Overall scale, instead of `scale`: a unit's two norms multiply to tau^2.",
        same_program=True,
    )
    start: str | None = _option(
        None,
        str,
        "Weights to start from (.npz), also from the middle of a training.",
        same_program=True,
    )
    aligned: bool = _option(
        False,
        bool,
        "Deep linear networks: balanced layers along the modes of the data, for which modes are exact.",
        same_program=True,
    )

    @property
    def balance(self) -> dict[str, float]:
        """What is asked of the balance of the layers; empty for a plain start."""
        asked = {"delta": self.delta, "alpha": self.alpha, "tau": self.tau}
        return {name: value for name, value in asked.items() if value is not None}


@dataclass(frozen=True)
class MotionOptions:
    """How units move, predicted or trained."""

    loss: str = _option(
        "squared", str, "What outputs cost: squared, cross-entropy, logistic, huber, huber:0.5."
    )
    adaptive: bool = _option(
        False,
        bool,
        "For each unit the learning rate norm^(2-kappa) of its own (degrees kappa above 2).",
    )
    max_time: float = _option(math.inf, float, "Stop at this time.")
    optimizer: str | None = _option(
        None,
        str,
        "Finite steps instead of gradient flow: descent, momentum, sign, normalized, adam, adamw, muon; with "
        "numbers of its own as adamw:weight_decay=0.1,beta2=0.95.",
    )
    learning_rate: float | None = _option(
        None, float, "Of the optimizer, or of descent, sgd (default 0.01)."
    )
    momentum: float | None = _option(None, float, "Of the optimizer, or of descent, sgd.")


@dataclass(frozen=True)
class PredictionOptions:
    """What to predict with."""

    method: str = _option(
        "auto",
        str,
        "How to predict: auto, or what `saddlewalk settings` lists.",
        same_program=True,
    )


@dataclass(frozen=True)
class TrainingOptions:
    """What to train with."""

    solver: str = _option(
        "auto", str, "auto | explicit | implicit | stabilized (gradient flow) | descent | sgd."
    )
    tolerance: float | None = _option(
        None, float, "Error of a step of the flow, relative to each unit's own norm."
    )
    convergence: float = _option(
        1e-4,
        float,
        "Stop when every unit's drive has fallen to this part of its largest, and none goes anywhere.",
    )
    max_steps: int = _option(1_000_000, int, "Stop after these steps.")
    batch_size: int | None = _option(None, int, "For an optimizer, or sgd (default 32).")


DATA: dict[str, Option] = {
    "data": Option(
        str,
        "Own data: .npz (X, y; Sigma_xx, Sigma_yx; x, an encoding) or .csv (target last).",
    ),
    "targets": Option(
        str, "Target columns of a .csv: their names, as price,rent, or how many of the last ones."
    ),
    "standardize": Option(
        bool,
        "Give every column of inputs and targets (but for classes) mean 0 and variance 1.",
        same_program=True,
    ),
    "images": Option(str, "Images as data: mnist or cifar10, `samples` of them."),
    "samples": Option(int, "Samples of made data; of a group, tuples to draw."),
    "dim": Option(int, "Inputs of made data."),
    "outputs": Option(int, "Outputs of made data."),
    "features": Option(int, "Directions hidden in made data, at most `dim`."),
    "classes": Option(
        int,
        "Made data with labels: so many clouds of inputs, each a class (for `loss` cross-entropy).",
    ),
    "separation": Option(
        float, "How far apart these clouds are, in their standard deviations.", same_program=True
    ),
    "decay": Option(float, "Input eigenvalues fall like k^-decay.", same_program=True),
    "commuting": Option(bool, "Input axes as those of the map."),
    "eigenvalues": Option(str, "Of the tokens' covariance: 4,2,1."),
    "context": Option(int, "Examples before the query."),
    "sequences": Option(int, "Sampled sequences instead of the population."),
    "p": Option(int, "Modulus."),
    "spectrum": Option(
        str,
        "Fourier spectrum of the encoding: 1:10,3:5,5:2.5; of a group 2d:4/2,sign:1.6 or one-hot.",
    ),
    "group": Option(str, "Group: C7, D5, S4, A5, Q8, O, Oh, or a product C5xC5."),
    "factors": Option(int, "Elements that are composed."),
    "sparsity": Option(int, "Nonzero coefficients of made data, at most `dim`."),
    "noise": Option(float, "Noise in the targets of made data.", same_program=True),
    "correlation": Option(
        float, "Correlation of neighboring inputs of made data.", same_program=True
    ),
    "data_seed": Option(int, "Seed of made data.", same_program=True),
}
"""Options of tasks; a setting takes some of them."""

UNITS: dict[str, Option] = {
    "width": Option(int, "Number of units."),
    "depth": Option(int, "Layers of weights of a deep network, with the readout."),
    "activation": Option(str, "Activation of the hidden layers."),
    "bias": Option(bool, "Give each neuron a bias."),
}
"""Options of units; a setting takes some of them."""
