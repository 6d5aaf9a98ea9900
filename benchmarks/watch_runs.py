"""The trainings that the watch is judged on: small networks of many kinds, their data, their optimizers.

Each starts small, so that it has plateaus; `ordinary` starts are PyTorch's own. The last kind, a one-layer
transformer on modular addition, has a plateau of its held-out loss.
"""

import itertools
import math
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from saddlewalk.tasks.public import load_public
from saddlewalk.torch import Watch

SAMPLES = 256
SQUARES, CLASSES = nn.MSELoss(), nn.CrossEntropyLoss()


class Square(nn.Module):
    def forward(self, x):
        return x**2


class Attention(nn.Module):
    """One head over a context, the answer to the last token: with a softmax, or linear, of order 3."""

    def __init__(self, size, softmax):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(size, size, bias=False) for _ in range(3))
        self.softmax = softmax

    def forward(self, x):
        scores = self.q(x[:, -1:]) @ self.k(x).transpose(1, 2)
        scores = torch.softmax(scores, -1) if self.softmax else scores / x.shape[1]
        return (scores @ self.v(x))[:, 0, -1:]


class Transformer(nn.Module):
    """One layer: embedding, attention with four heads, a ReLU network; no normalization."""

    def __init__(self, size, width=64, heads=4):
        super().__init__()
        self.token = nn.Embedding(size + 1, width)
        self.place = nn.Parameter(torch.randn(3, width) / math.sqrt(width))
        nn.init.normal_(self.token.weight, std=1 / math.sqrt(width))
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.out, self.heads = nn.Linear(width, size, bias=False), heads

    def forward(self, x):
        tokens = self.token(x) + self.place
        q, k, v = self._split(self.q(tokens[:, -1:])), self._split(self.k(tokens)), self.v(tokens)
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1)
        read = (weights @ self._split(v)).transpose(1, 2).reshape(len(x), -1)
        stream = tokens[:, -1] + self.o(read)
        return self.out(stream + self.down(torch.relu(self.up(stream))))

    def _split(self, z):
        return z.reshape(len(z), -1, self.heads, z.shape[-1] // self.heads).transpose(1, 2)


# --- networks -------------------------------------------------------------------------------------------


def shrink(module, scale, inputs=None):
    if scale is None:
        return
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(scale * torch.randn(p.shape) / math.sqrt(inputs or p[0].numel()))


def chain(sizes, activation, scale):
    """Linear layers with an activation between; `scale` is None for PyTorch's own start."""
    parts = []
    for k, (a, b) in enumerate(itertools.pairwise(sizes)):
        layer = nn.Linear(a, b, bias=False)
        shrink(layer, scale, a)
        parts += [layer] if k == len(sizes) - 2 else [layer, activation()]
    return nn.Sequential(*parts)


def convolution(scale):
    conv, out = nn.Conv1d(1, 8, 4, bias=False), nn.Linear(8, 1, bias=False)
    shrink(conv, scale)
    shrink(out, scale)
    return nn.Sequential(conv, nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), out)


def attention(softmax, scale):
    module = Attention(4, softmax)
    shrink(module, scale)
    return module


# --- data -----------------------------------------------------------------------------------------------


def orthogonal(rng, size, count):
    return np.linalg.qr(rng.normal(size=(size, size)))[0][:count]


def teacher(function, strengths, rng, size=8):
    x = rng.normal(size=(SAMPLES, size))
    directions = orthogonal(rng, size, len(strengths))
    return x, (function(x @ directions.T) @ np.array(strengths))[:, None]


def linear_map(rng, strengths=(3, 2, 1.2, 0.6), size=8):
    x = rng.normal(size=(SAMPLES, size))
    k = len(strengths)
    return x, x @ (orthogonal(rng, k, k).T @ np.diag(strengths) @ orthogonal(rng, size, k)).T


def in_context(rng, values=(1.6, 0.8, 0.4), context=16):
    """Linear regression in the context: tokens (x, y), the last without its y."""
    size = len(values)
    x = rng.normal(size=(SAMPLES, context + 1, size)) * np.sqrt(values)
    w = rng.normal(size=(SAMPLES, size, 1))
    tokens = np.concatenate([x, x @ w], axis=2)
    target = tokens[:, -1, -1:].copy()
    tokens[:, -1, -1] = 0.0
    return tokens, target


def stripes(rng, size=16):
    """Signals of which local patterns decide the target, for a convolution with pooling."""
    x = rng.normal(size=(SAMPLES, 1, size))
    kernels = orthogonal(rng, 4, 2)
    seen = np.stack([np.lib.stride_tricks.sliding_window_view(x[:, 0], 4, 1) @ k for k in kernels])
    return x, (1.5 * np.maximum(seen[0], 0).mean(1) - np.maximum(seen[1], 0).mean(1))[:, None]


def mnist_pair(rng, pairs=((4, 9), (3, 5), (7, 9), (2, 7), (5, 8))):
    """Two digits that are hard to tell, on their 16 first principal components, whitened."""
    data = load_public("mnist")
    pair = pairs[rng.integers(len(pairs))]
    rows = np.flatnonzero(np.isin(data["y_train"], pair))
    rows = rng.choice(rows, SAMPLES, replace=False)
    x = data["X_train"][rows].reshape(SAMPLES, -1) / 255.0
    left = np.linalg.svd(x - x.mean(0), full_matrices=False)[0]
    return math.sqrt(SAMPLES) * left[:, :16], np.where(data["y_train"][rows] == pair[0], 1.0, -1.0)[
        :, None
    ]


def modular(rng, size=23, part=0.7):
    """Sums of two residues; the second pair of arrays is held out."""
    a, b = np.divmod(rng.permutation(size * size), size)
    x, y = np.stack([a, b, np.full_like(a, size)], 1), (a + b) % size
    trained = int(part * len(x))
    return x[:trained], y[:trained], x[trained:], y[trained:]


@dataclass(frozen=True)
class Kind:
    """One row of the table: a network of a scale, data of a generator, how it is trained."""

    network: Any
    data: Any
    scale: float
    rate: float
    """Of descent; momentum takes a tenth, Adam a fortieth."""
    steps: int
    loss: Any = SQUARES
    two_layers: bool = False
    optimizers: tuple[str, ...] = ("gd", "sgd", "momentum", "adam")


def relu_teacher(z):
    return np.maximum(z, 0)


def tanh_teacher(z):
    return np.tanh(2 * z)


def layers(sizes, activation):
    return partial(chain, sizes, activation)


_STRENGTHS = (2, -1.4, 0.9)
_LINEAR = nn.Identity
KINDS = {
    "linear": Kind(layers([8, 12, 4], _LINEAR), linear_map, 1e-3, 4e-3, 12_000, two_layers=True),
    "relu": Kind(
        layers([8, 16, 1], nn.ReLU),
        partial(teacher, relu_teacher, _STRENGTHS),
        *(1e-3, 4e-3, 8_000),
        two_layers=True,
    ),
    "tanh": Kind(
        layers([8, 8, 1], nn.Tanh),
        partial(teacher, tanh_teacher, _STRENGTHS),
        *(1e-3, 4e-3, 8_000),
        two_layers=True,
    ),
    "quadratic": Kind(
        layers([8, 10, 1], Square),
        partial(teacher, np.square, (1.5, -1, 0.6)),
        *(3e-2, 2e-3, 10_000),
        two_layers=True,
    ),
    "MNIST pairs": Kind(
        layers([16, 32, 1], nn.ReLU), mnist_pair, 1e-3, 5e-3, 8_000, two_layers=True
    ),
    "deep linear 3": Kind(layers([8, 10, 10, 4], _LINEAR), linear_map, 0.2, 3e-3, 16_000),
    "deep linear 4": Kind(layers([8, 10, 10, 10, 4], _LINEAR), linear_map, 0.3, 3e-3, 16_000),
    "deep tanh": Kind(
        layers([8, 12, 12, 1], nn.Tanh),
        partial(teacher, tanh_teacher, _STRENGTHS),
        *(0.2, 4e-3, 8_000),
    ),
    "convolution": Kind(convolution, stripes, 1e-2, 1e-2, 12_000),
    "linear attention": Kind(partial(attention, False), in_context, 0.1, 2e-3, 20_000),
    "softmax attention": Kind(partial(attention, True), in_context, 0.1, 4e-3, 20_000),
    "transformer": Kind(
        lambda _: Transformer(23), modular, 1.0, 1e-3, 6_000, CLASSES, optimizers=("adamw",)
    ),
}
OPTIMIZERS = {
    "gd": lambda p, lr: torch.optim.SGD(p, lr),
    "sgd": lambda p, lr: torch.optim.SGD(p, lr),
    "momentum": lambda p, lr: torch.optim.SGD(p, lr / 10, momentum=0.9),
    "adam": lambda p, lr: torch.optim.Adam(p, lr / 40),
    "adamw": lambda p, lr: torch.optim.AdamW(p, lr, weight_decay=1.0, betas=(0.9, 0.98)),
}


@dataclass
class Course:
    """What a training did."""

    steps: Any = field(default_factory=list)
    losses: Any = field(default_factory=list)
    """Now and then, on all data; of held-out ones, where there are such."""
    norms: Any = field(default_factory=list)
    looks: dict = field(default_factory=dict)
    held_out: bool = False
    watch: Any = None
    seconds: float = 0.0


class Run:
    """One training, which can be repeated.

    Parameters
    ----------
    kind, optimizer, seed : what is trained.
    ordinary : from PyTorch's own start.
    """

    def __init__(self, kind, optimizer, seed, ordinary=False):
        self.kind, self.optimizer, self.seed, self.ordinary = KINDS[kind], optimizer, seed, ordinary
        self.steps = self.kind.steps
        held = None
        x, y, *held = self.kind.data(np.random.default_rng(seed))
        self.x, self.y = _tensor(x), _tensor(y)
        self.held = tuple(map(_tensor, held)) or None
        self.every = max(self.steps // 1500, 1)

    def train(self, look_at=(), budget=None):
        """Looks at some steps, or as a budget allows.

        Parameters
        ----------
        look_at : the steps.
        budget : part of the time; losses on all data are not taken then.
        """
        torch.manual_seed(self.seed)
        model = self.kind.network(None if self.ordinary else self.kind.scale)
        optimizer = OPTIMIZERS[self.optimizer](model.parameters(), self.kind.rate)
        batches, course = torch.Generator().manual_seed(self.seed), Course()
        course.held_out = self.held is not None
        if look_at or budget:
            course.watch = self._watch(model, optimizer, budget)
        began = time.perf_counter()
        for step in range(self.steps):
            if step % self.every == 0 and not budget:
                loss, norm = self._state(model)
                course.steps.append(step)
                course.losses.append(loss)
                course.norms.append(norm)
            if step in look_at:
                course.looks[step] = course.watch.look()
            x, y = self.x, self.y
            if self.optimizer == "sgd":
                rows = torch.randint(len(x), (32,), generator=batches)
                x, y = x[rows], y[rows]
            optimizer.zero_grad()
            loss = self.kind.loss(model(x), y)
            loss.backward()
            optimizer.step()
            if course.watch is not None:
                course.watch.step(loss.item())
        course.seconds = time.perf_counter() - began
        for name in ("steps", "losses", "norms"):
            setattr(course, name, np.array(getattr(course, name)))
        return course

    def _watch(self, model, optimizer, budget):
        return Watch(
            model,
            self.kind.loss,
            probe=(self.x, self.y),
            optimizer=optimizer,
            budget=budget or 1e-9,
            widths=False,
            samples=len(self.x),  # the probe is all there is
            held_out=self.held,
        )

    def _state(self, model):
        """Loss and length of its gradient on all data, or on those that are held out."""
        x, y = self.held or (self.x, self.y)
        loss = self.kind.loss(model(x), y)
        slopes = torch.autograd.grad(loss, list(model.parameters()))
        return loss.item(), math.sqrt(sum(float((g**2).sum()) for g in slopes))


def _tensor(values):
    values = np.asarray(values)
    return torch.tensor(values, dtype=torch.float32 if values.dtype.kind == "f" else torch.long)
