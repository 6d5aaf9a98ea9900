"""Figs 1, 4 and 5 of Saddle-to-Saddle Dynamics: one stage, one unit more, in every architecture."""

from typing import Any

import numpy as np

from saddlewalk.diagnose import PointKind
from saddlewalk.figures.claims import Claim, FigureResult, listed
from saddlewalk.figures.saddles.panels import (
    SAMPLES,
    Panel,
    Run,
    draw_panels,
    four_points,
    identity_map,
    patches,
    run,
    teacher,
    tokens,
    two_points,
)
from saddlewalk.units import (
    ACTIVATIONS,
    Convolution,
    Deep,
    Dense,
    LinearSelfAttention,
    SoftmaxSelfAttention,
)

_AXES = ((1, 0), (0, 1))
_STRETCHED = ((1, 0), (0, 2))


def panels_1(samples: int = SAMPLES) -> dict[str, Panel]:
    """Six architectures with two layers.

    Parameters
    ----------
    samples : of each task that is drawn.
    """
    square = ACTIVATIONS["quadratic"]
    return {
        "B": Panel("linear", identity_map(samples), Dense(50, "linear"), 1e-6, 40),
        "C": Panel("linear convolution", patches(samples), Convolution(50), 1e-6, 60),
        "D": Panel("ReLU", two_points(), Dense(50, "relu"), 1e-6, 60),
        "E": Panel("ReLU convolution", four_points(), Convolution(50, activation="relu"), 1e-6, 60),
        "F": Panel("linear self-attention", tokens(samples), LinearSelfAttention(10), 0.005, 12, 1),
        "G": Panel(
            "quadratic", teacher(square, _AXES, samples), Dense(10, "quadratic"), 0.005, 60, 2
        ),
    }


def figure_1(samples: int = SAMPLES) -> FigureResult:
    """Loss and first-layer weights of six architectures that learn one unit at a time.

    Parameters
    ----------
    samples : of each task that is drawn.
    """
    runs = {letter: run(panel) for letter, panel in panels_1(samples).items()}
    return FigureResult(
        "saddle-1",
        "saddle-to-saddle dynamics in six architectures",
        (
            *(_one_then_two(letter, one) for letter, one in runs.items()),
            *_relations(runs, "BC", "dependent", "rank-one and rank-two weights (Eq 7)"),
            *_relations(runs, "DE", "proportional", "one and two rays of weights (Eq 6)"),
            *_relations(runs, "FG", "zero", "one and two units, the rest near zero (Eq 5)"),
            _kinds(runs, "BCDE", PointKind.STRICT_SADDLE),
            _kinds(runs, "FG", PointKind.DEGENERATE_SADDLE),
            Claim(
                "linear network: the plateaus are at half of the eigenvalues not yet learned",
                listed(phase.loss for phase in runs["B"].phases),
                _levels_of_b(runs["B"]),
            ),
        ),
        draw_panels([*runs.values()], 3),
        {letter: one.to_json() for letter, one in runs.items()},
    )


def _levels_of_b(one: Run) -> bool:
    x = np.asarray(one.problem.task.x)  # type: ignore[attr-defined]
    eigenvalues = np.linalg.eigvalsh(x.T @ x)
    expected = np.array([eigenvalues.sum(), eigenvalues[0], 0.0]) / 2
    return bool(np.allclose([phase.loss for phase in one.phases], expected, atol=5e-3))


def panels_4(samples: int = SAMPLES, sequences: int = 1024) -> dict[str, Panel]:
    """Other activations, by the order of their first term: 0 (A, B), 1 (C, D), 2 (E, F), 3 (G, H).

    The paper does not say which functions E and H are.

    Parameters
    ----------
    samples : of each task of the dense networks.
    sequences : samples of the task of the attention.
    """

    def of_order(
        name: str, width: int, eps: float, end: float, axes: object, seed: int = 0, **more: Any
    ) -> Panel:
        task = teacher(ACTIVATIONS[name], axes, samples)
        return Panel(name, task, Dense(width, name), eps, end, seed, **more)

    softmax = SoftmaxSelfAttention(10, tokens=33)
    sequence = tokens(sequences, products=False)
    return {
        "A": Panel("softmax self-attention", sequence, softmax, 0.005, 600.0, 1, saddles=False),
        "B": of_order("sigmoid", 50, 1e-6, 60, _STRETCHED, saddles=False),
        "C": of_order("sin", 50, 1e-6, 400, _STRETCHED),
        "D": of_order("tanh", 50, 1e-6, 400, _STRETCHED),
        "E": of_order("1-cos", 10, 0.005, 400, _STRETCHED, 1),
        "F": of_order("z-tanh-z", 10, 0.005, 300, _STRETCHED, 1),
        "G": of_order("cubic", 10, 0.05, 400, _AXES, 1, solver="implicit"),
        "H": of_order("z2-tanh-z", 10, 0.05, 400, _AXES, 1, solver="implicit"),
    }


def panels_5(samples: int = SAMPLES) -> dict[str, Panel]:
    """Deep networks; the widths of second layers and how targets are split are not in the paper.

    Parameters
    ----------
    samples : of each task that is drawn.
    """
    square = teacher(ACTIVATIONS["quadratic"], _AXES, samples, split=True)
    linear, relu = Dense(50, "linear"), Dense(50, "relu")
    kernels = {name: Convolution(50, activation=name) for name in ("linear", "relu")}
    return {
        "A": Panel("3-layer linear", identity_map(samples), Deep((linear, linear)), 0.005, 400),
        "B": Panel(
            "convolution + linear",
            patches(samples, split=True),
            Deep((kernels["linear"], linear)),
            0.005,
            1000,
        ),
        "C": Panel("3-layer ReLU", two_points(), Deep((relu, relu)), 0.005, 1500),
        "D": Panel(
            "ReLU convolution + ReLU",
            four_points(split=True),
            Deep((kernels["relu"], relu)),
            0.005,
            3000,
        ),
        "E": Panel(
            "linear transformer",
            tokens(samples),
            Deep((LinearSelfAttention(10), Dense(10, "linear"))),
            0.005,
            400,
        ),
        "F": Panel(
            "quadratic + linear",
            square,
            Deep((Dense(10, "quadratic"), Dense(10, "linear"))),
            0.05,
            400,
        ),
    }


def figure_4(samples: int = 2048, letters: str = "ABCDEFGH") -> FigureResult:
    """Other activations: what their first term says about the first plateau, and after it.

    Parameters
    ----------
    samples : of each task of the dense networks.
    letters : panels that are run.
    """
    runs = {k: run(panel) for k, panel in panels_4(samples).items() if k in letters}
    first = [k for k in "CD" if k in runs]
    higher = [k for k in "EFGH" if k in runs]
    claims = [
        _no_first_plateau(k, runs[k]) for k in "B" if k in runs
    ]  # of A the paper says nothing
    for k in first:
        values = np.linalg.svd(runs[k].weights(1), compute_uv=False)
        claims += [
            Claim(
                f"({k}) order 1: rank-one weights after the first drop (second singular value / first)",
                f"{values[1] / values[0]:.2g}",
                bool(values[1] < 0.1 * values[0]),
            ),
            Claim(
                f"({k}) which is no embedded fixed point: the network does not rest there",
                f"units in use: {runs[k].phases.widths[1]}; {runs[k].phases.kinds[1]}",
                runs[k].phases.kinds[1] in (PointKind.NOT_FIXED, PointKind.NEAR_SADDLE),
            ),
        ]
    claims += [_one_then_two(k, runs[k]) for k in higher]
    return FigureResult(
        "saddle-4",
        "networks with other activations, by the order of their first term",
        tuple(claims),
        draw_panels([*runs.values()], 4),
        {letter: one.to_json() for letter, one in runs.items()},
    )


def figure_5(samples: int = 2048, letters: str = "ABCDEF") -> FigureResult:
    """Deep networks: the first hidden layer takes up one unit at a time, as with two layers.

    Parameters
    ----------
    samples : of each task that is drawn.
    letters : panels that are run.
    """
    runs = {k: run(panel) for k, panel in panels_5(samples).items() if k in letters}
    words = {"AB": ("dependent", "Eq 7"), "CD": ("proportional", "Eq 6"), "EF": ("zero", "Eq 5")}
    pairs = {"".join(k for k in pair if k in runs): said for pair, said in words.items()}
    return FigureResult(
        "saddle-5",
        "saddle-to-saddle dynamics in deep networks",
        (
            *(_one_then_two(letter, one) for letter, one in runs.items()),
            *(
                claim
                for present, (relation, equation) in pairs.items()
                for claim in _relations(runs, present, relation, f"fixed points of {equation}")
            ),
        ),
        draw_panels([*runs.values()], 3),
        {letter: one.to_json() for letter, one in runs.items()},
    )


# --- claims -----------------------------------------------------------------------------------------


def _one_then_two(letter: str, one: Run) -> Claim:
    return Claim(
        f"({letter}) {one.panel.title}: effective width 1 on the plateau, 2 at the end",
        f"{one.phases.widths} at losses {listed(phase.loss for phase in one.phases)}",
        one.phases.widths == [0, 1, 2],
    )


def _relations(runs: dict[str, Run], letters: str, relation: str, words: str) -> list[Claim]:
    return [_relation(letter, runs[letter], relation, words) for letter in letters]


def _relation(letter: str, one: Run, relation: str, words: str) -> Claim:
    """One and two units remain when those in this relation are merged, and more by a narrower relation.

    Zero units are proportional to any, and proportional ones dependent: the width alone does not tell which.
    """
    found = [phase.widths[0].by_relation for phase in one.phases][1:]
    names: list[str] = [n for n in ("zero", "proportional", "dependent") if n in found[0]]
    narrower = names[: names.index(relation)]
    return Claim(
        f"({letter}) {words}: 1, then 2 units are left when {relation} ones are merged"
        + (f", more when {' or '.join(narrower)} ones are" if narrower else ""),
        "; ".join(", ".join(f"{name} {each[name]}" for name in names) for each in found),
        [each[relation] for each in found] == [1, 2]
        and all(each[name] > each[relation] for each in found for name in narrower),
    )


def _no_first_plateau(letter: str, one: Run) -> Claim:
    """Of order 0: the network is not at rest at zero."""
    share = one.phases[0].duration / one.path.time[-1]
    return Claim(
        f"({letter}) order 0: no plateau at first (ours; its part of the time, below 0.001)",
        f"{share:.2g}",
        bool(share < 1e-3),
    )


def _kinds(runs: dict[str, Run], letters: str, kind: PointKind) -> Claim:
    found = {k: runs[k].phases.kinds for k in letters}
    return Claim(
        f"({', '.join(letters)}) every plateau is a {kind}, the end a minimum",
        "; ".join(", ".join(kinds) for kinds in found.values()),
        all(kinds == [kind, kind, PointKind.MINIMUM] for kinds in found.values()),
    )
