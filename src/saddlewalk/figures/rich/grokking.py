r"""Fig 5d of Get Rich Quick: small embeddings and the time to grokking in modular arithmetic.

A decoder of one layer reads `a o b =` and answers a b modulo p. Token and position embeddings are divided
by :math:`\alpha`. They are normalized before anything else is done with them, so the function at
the start stays the same, and for :math:`\alpha > 1` (upstream) steps of the same length turn them further.
The logits are multiplied by :math:`\tau` and the learning rate is divided by :math:`\tau^2`.

Network, start and training follow the code that the paper names (teddykoker/grokking) and its defaults:
width 128, 4 heads, a normalized residual stream, Adam with rate 1e-3, beta = (0.9, 0.98), 10 steps of
warm-up, batches of 512, and no weight decay. Its task is called division and is multiplication, by b > 0.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from saddlewalk.errors import InputError
from saddlewalk.figures.claims import Claim, FigureResult, listed
from saddlewalk.figures.drawing import shades
from saddlewalk.figures.networks.decoder import accuracy, answer_loss, decoder, is_trained
from saddlewalk.figures.networks.ensembles import stacked, stacked_trees, train_ensemble
from saddlewalk.figures.networks.optimizers import optax
from saddlewalk.show import draw

ALPHAS = (0.1, 0.3, 1.0, 3.0, 10.0)
TAUS = (0.5, 0.75, 1.0, 1.25, 1.5)
SEEDS, STEPS, P, DIM = 5, 30_000, 97, 128
EVERY = 100
"""Steps between two looks at the accuracies."""
THRESHOLD = 0.99
SMALL: dict[str, Any] = {
    "taus": (1.0,),
    "steps": 9000,
    "p": 43,
    "dim": 32,
    "part": 0.7,
    "batch": 128,
    "weight_decay": 0.3,
}
"""A run of minutes, found by trying: with half of the pairs for training, or without weight decay, most
networks of about this size did not grok in time. The decay also shrinks large embeddings, slowly: alpha acts
partly through it here."""
_RATE, _BETAS, _WARMUP = 1e-3, (0.9, 0.98), 10


@dataclass(frozen=True)
class GrokRuns:
    """Accuracies `(checkpoints, seeds, alphas, taus)` on training and validation data."""

    alphas: tuple[float, ...]
    taus: tuple[float, ...]
    steps: np.ndarray
    train: np.ndarray
    validation: np.ndarray

    @property
    def trained(self) -> np.ndarray:
        """Steps `(seeds, alphas, taus)` to 99% on the training data; infinite if the budget ends before."""
        return _first(self.steps, self.train)

    @property
    def grokked(self) -> np.ndarray:
        """Steps `(seeds, alphas, taus)` to 99% on the validation data, or infinite."""
        return _first(self.steps, self.validation)

    def joined(self, other: "GrokRuns") -> "GrokRuns":
        """These seeds and then those of another run with the same cells and checkpoints."""
        return GrokRuns(
            self.alphas,
            self.taus,
            self.steps,
            np.concatenate([self.train, other.train], axis=1),
            np.concatenate([self.validation, other.validation], axis=1),
        )


def figure_5d(full: bool = False) -> FigureResult:
    """Steps until the training data are fitted and until grokking, by alpha and tau.

    In small: p = 43, width 32, tau = 1, 70% of the pairs for training, and weight decay. In full: without
    weight decay, as in the named code, and with a little, for without it two of three networks do not grok
    within the paper's 30,000 steps.

    Parameters
    ----------
    full : the full run.
    """
    if not full:
        return grok_figure(grok(**SMALL))
    return grok_figure(grok(weight_decay=0.1), plain=grok())


def grok_figure(runs: GrokRuns, plain: GrokRuns | None = None) -> FigureResult:
    """Picture and claims of runs that were made before; `plain` ones had no weight decay.

    Parameters
    ----------
    runs : what `grok` gave.
    plain : the same without weight decay, for one more claim.
    """
    return FigureResult(
        "rich-5d",
        "small embeddings shorten the time to grokking",
        _claims(runs) + (() if plain is None else (_claim_without_decay(plain),)),
        _draw(runs),
        {
            "alphas": list(runs.alphas),
            "taus": list(runs.taus),
            "budget": int(runs.steps[-1]),
            "trained": _plain(runs.trained),
            "grokked": _plain(runs.grokked),
            "validation at the end": np.round(runs.validation[-1], 4).tolist(),
        },
    )


def grok(
    alphas: Sequence[float] = ALPHAS,
    taus: Sequence[float] = TAUS,
    seeds: Iterable[int] = range(SEEDS),
    steps: int = STEPS,
    p: int = P,
    dim: int = DIM,
    *,
    part: float = 0.5,
    batch: int = 512,
    weight_decay: float = 0.0,
    every: int = EVERY,
) -> GrokRuns:
    """Train all cells and seeds at once and look at both accuracies every few steps.

    A seed draws the network, the part of the pairs to train on and the batches; its cells share them.

    Parameters
    ----------
    alphas : what embeddings are divided by.
    taus : what logits are multiplied by; learning rates are divided by their square.
    seeds : one a repetition.
    steps : of the training.
    p : the modulus.
    dim : width of the decoder; a multiple of the number of heads.
    part : part of the pairs to train on.
    batch : pairs of one step, or as many as there are.
    weight_decay : decoupled (AdamW).
    every : steps from one look to the next.
    """
    cells = [(alpha, tau) for alpha in alphas for tau in taus]
    own = list(seeds)
    networks = stacked([[decoder(p, dim, s, *cell) for cell in cells] for s in own])
    train, validation = (stacked_trees([pairs(p, part, s)[side] for s in own]) for side in (0, 1))
    optimizer = optax.adamw(
        lambda step: _RATE * jnp.minimum(step / _WARMUP, 1.0),
        *_BETAS,
        weight_decay=weight_decay,
        mask=is_trained,
    )
    found = []
    for _, trained in train_ensemble(
        answer_loss,
        networks,
        train,
        optimizer,
        checkpoints=range(0, steps + 1, every),
        batch_size=min(batch, train[1].shape[1]),
        rates=np.array([tau**-2.0 for _, tau in cells], dtype=np.float32),
    ):  # only numbers are kept of the networks
        found.append([np.asarray(accuracy(trained, *data), float) for data in (train, validation)])
    shape = (-1, len(own), len(alphas), len(taus))
    on_train, on_validation = (np.stack(side).reshape(shape) for side in zip(*found, strict=True))
    looked = np.arange(len(found)) * every
    return GrokRuns(tuple(alphas), tuple(taus), looked, on_train, on_validation)


def pairs(p: int, part: float, seed: int) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Tokens `(n, 4)` of `a o b =` and answers a b modulo p, a part of all pairs and the rest.

    Parameters
    ----------
    p : the modulus.
    part : part of the pairs to train on.
    seed : seed of the split.
    """
    a, b = (axis.ravel() for axis in np.meshgrid(np.arange(p), np.arange(1, p), indexing="ij"))
    tokens = np.stack([a, np.full_like(a, p + 1), b, np.full_like(a, p)], axis=1)
    order = np.random.default_rng([seed, 2]).permutation(len(a))
    cut = int(part * len(a))
    if not 0 < cut < len(a):
        raise InputError(f"A part of the pairs between 0 and 1 is for training; got {part}.")
    data = tokens.astype(np.int32), (a * b % p).astype(np.int32)
    return tuple(x[order[:cut]] for x in data), tuple(x[order[cut:]] for x in data)


def _first(steps: np.ndarray, accuracy: np.ndarray) -> np.ndarray:
    reached = accuracy >= THRESHOLD
    return np.where(reached.any(axis=0), steps[np.argmax(reached, axis=0)], np.inf)


def _claims(runs: GrokRuns) -> tuple[Claim, ...]:
    alphas, budget = np.array(runs.alphas), runs.steps[-1]
    k, tau = _middle(runs)
    balanced = int(np.argmin(np.abs(np.log(alphas))))
    fitted = np.isfinite(runs.trained)
    # what is not reached is counted with the whole budget, which takes from every difference below
    trained, grokked = np.minimum(runs.trained, budget), np.minimum(runs.grokked, budget)
    delay = np.median(grokked - trained, axis=0)[:, k]
    ratio = np.median(grokked / grokked[:, [balanced]], axis=(0, 2))
    before = grokked[:, -1] < grokked[:, 0]
    median = np.median(runs.grokked, axis=0)
    best = np.unravel_index(int(np.argmin(median)), median.shape)
    return (
        Claim(
            f"every network fits {THRESHOLD:.0%} of its training data",
            f"{int(fitted.sum())} of {fitted.size}, median after {np.median(trained):g} steps",
            bool(fitted.all()),
        ),
        Claim(
            f"grokking: balanced networks answer {THRESHOLD:.0%} of the other pairs long after that "
            f"(median delay at tau = {tau:g})",
            f"{delay[balanced]:g} steps",
            bool(delay[balanced] > np.median(trained[:, balanced, k])),
        ),
        Claim(
            "upstream groks earlier than balanced, downstream later (steps as a part of those of the "
            f"balanced network with the same seed and tau, median, for alpha = {listed(alphas)})",
            listed(ratio),
            bool(np.all(ratio[alphas > 1] < 1) and np.all(ratio[alphas < 1] > 1)),
        ),
        Claim(
            f"alpha = {alphas[-1]:g} groks before alpha = {alphas[0]:g} in at least 9 of 10 pairs of "
            "networks with the same seed and tau",
            f"{int(before.sum())} of {before.size}",
            bool(before.mean() >= 0.9),
        ),
        Claim(
            f"the delay shrinks from alpha = {alphas[0]:g} over {alphas[balanced]:g} to {alphas[-1]:g} "
            f"(median at tau = {tau:g})",
            listed(delay[[0, balanced, -1]]),
            bool(delay[0] > delay[balanced] > delay[-1]),
        ),
        Claim(
            "the fastest grokking of all cells is upstream (median steps)",
            f"{median[best]:g} at alpha = {alphas[best[0]]:g}, tau = {runs.taus[best[1]]:g}",
            bool(np.isfinite(median[best]) and alphas[best[0]] > 1),
        ),
    )


def _claim_without_decay(runs: GrokRuns) -> Claim:
    in_time = np.isfinite(runs.grokked).sum(axis=(0, 2))
    return Claim(
        f"without weight decay more networks grok within {runs.steps[-1]:,} steps, the larger alpha "
        f"(of {runs.grokked[:, 0].size} for each of alpha = {listed(runs.alphas)})",
        listed(in_time.tolist()),
        bool(np.all(np.diff(in_time) >= 0) and in_time[-1] > in_time[0]),
    )


def _middle(runs: GrokRuns) -> tuple[int, float]:
    """The tau nearest to 1."""
    k = int(np.argmin(np.abs(np.log(runs.taus))))
    return k, runs.taus[k]


def _plain(steps: np.ndarray) -> Any:
    """Lists `[seed][alpha][tau]` for JSON, which has no infinity."""
    return np.where(np.isfinite(steps), steps, np.array(None)).tolist()


def _draw(runs: GrokRuns) -> Any:
    with draw.styled():
        figure, (left, right) = draw.new_figure(1, 2, width=10)
        _draw_curves(left, runs)
        _draw_steps(right, runs)
    return figure


def _draw_curves(axes: Any, runs: GrokRuns) -> None:
    k, tau = _middle(runs)
    for j, color in enumerate(shades(len(runs.alphas))):
        for reached, look in ((runs.train, ":"), (runs.validation, "-")):
            curve = np.median(reached[1:, :, j, k], axis=1)
            label = rf"$\alpha$ = {runs.alphas[j]:g}" if look == "-" else None
            axes.plot(runs.steps[1:], curve, look, color=color, lw=1.6, label=label)
    axes.set(xscale="log", ylim=(0, 1.03), xlabel="step", ylabel="accuracy")
    axes.set_title(
        rf"$\tau$ = {tau:g}: validation (dotted: training), median of seeds", fontsize=10
    )
    axes.legend(fontsize=8)


def _draw_steps(axes: Any, runs: GrokRuns) -> None:
    """Median and every seed; seeds that do not get there are marked above the budget."""
    budget = float(runs.steps[-1])
    for k, color in enumerate(shades(len(runs.taus))):
        beside = np.array(runs.alphas) * 1.06 ** (k - (len(runs.taus) - 1) / 2)
        for steps, look in ((runs.trained, ":"), (runs.grokked, "-")):
            each = steps[:, :, k]
            label = rf"$\tau$ = {runs.taus[k]:g}" if look == "-" else None
            axes.plot(beside, np.median(each, axis=0), look, color=color, lw=1.6, label=label)
            axes.plot(beside, each.T, "o", color=color, ms=3, mfc="w" if look == ":" else color)
            for at, late in zip(beside, np.isinf(each).sum(axis=0), strict=True):
                axes.plot(
                    [at] * min(late, 1), [1.15 * budget] * min(late, 1), "^", color=color, ms=5
                )
    axes.axhline(budget, color="0.6", linewidth=0.8)
    axes.set(xscale="log", yscale="log", ylabel=f"steps to {THRESHOLD:.0%}")
    axes.set_xlabel(r"$\alpha$ (embeddings divided by $\alpha$)")
    axes.set_title("median and seeds (dotted: training); triangles: not in time", fontsize=10)
    low, high = axes.get_ylim()
    ticks = [n * 10**k for k in range(6) for n in (1, 2, 5) if low < n * 10**k < high]
    axes.yaxis.set_ticks(ticks, labels=[f"{tick}" for tick in ticks])
    axes.yaxis.set_ticks([], minor=True)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
