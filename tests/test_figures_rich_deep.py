"""Figures 5c and 5d of Get Rich Quick: the Random Hierarchy Model, the transformer, runs in small."""

import itertools
import json
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from saddlewalk.errors import InputError
from saddlewalk.figures.networks import decoder as networks_decoder
from saddlewalk.figures.networks import perceptron
from saddlewalk.figures.rich import grokking as rich_grokking
from saddlewalk.figures.rich import hierarchy as rich_hierarchy
from saddlewalk.figures.rich.grokking import GrokRuns
from saddlewalk.figures.rich.hierarchy import HierarchyRuns, size_needed
from saddlewalk.tasks import hierarchy
from saddlewalk.tasks.hierarchy import random_hierarchy

SETTINGS = [
    {},
    {"classes": 2, "vocabulary": 3, "synonyms": 2, "branching": 2, "levels": 2},
    {"classes": 5, "vocabulary": 4, "synonyms": 3, "branching": 3, "levels": 2},
    {"classes": 4, "vocabulary": 2, "synonyms": 1, "branching": 2, "levels": 1},
]
TINY = SETTINGS[1]


def spellings(model, symbol, level=0):
    """Every datum that a symbol can become, by the rules alone."""
    if level == model.levels:
        return {(symbol,)}
    found = set()
    for rule in model.rules[level][symbol].tolist():
        parts = [spellings(model, part, level + 1) for part in rule]
        found |= {sum(one, ()) for one in itertools.product(*parts)}
    return found


def parsed(model, symbols):
    """The class of a datum, from its symbols up."""
    for rule in reversed(model.rules):
        meaning = {tuple(s): k for k, each in enumerate(rule.tolist()) for s in each}
        size = model.branching
        groups = [tuple(symbols[i : i + size]) for i in range(0, len(symbols), size)]
        symbols = [meaning[group] for group in groups]
    (label,) = symbols
    return label


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("seed", [0, 1])
def test_no_spelling_belongs_to_two_symbols(settings, seed):
    model = random_hierarchy(**settings, seed=seed)
    symbols = [model.classes] + [model.vocabulary] * (model.levels - 1)
    for rule, count in zip(model.rules, symbols, strict=True):
        assert rule.shape == (count, model.synonyms, model.branching)
        assert rule.min() >= 0
        assert rule.max() < model.vocabulary
        assert len({tuple(s) for s in rule.reshape(-1, model.branching).tolist()}) == (
            count * model.synonyms
        )


def test_the_paper_s_hierarchy_has_131072_data():
    model = random_hierarchy()
    assert (model.total, model.inputs, model.length) == (131_072, 64, 8)
    assert sum(rule.shape[0] * rule.shape[1] for rule in model.rules) == 96


SMALL = [settings for settings in SETTINGS if random_hierarchy(**settings).total <= 20_000]


@pytest.mark.parametrize("settings", SMALL)
def test_all_data_are_those_that_the_rules_make(settings):
    model = random_hierarchy(**settings)
    by_rule = [spellings(model, label) for label in range(model.classes)]
    assert sum(map(len, by_rule)) == len(set().union(*by_rule)) == model.total
    symbols, labels = model.spell(np.arange(model.total))
    pairs = list(zip(labels.tolist(), map(tuple, symbols.tolist()), strict=True))
    assert set(pairs) == {(label, one) for label, each in enumerate(by_rule) for one in each}
    assert len(set(pairs)) == len(pairs)


@pytest.mark.parametrize("settings", SETTINGS)
def test_labels_are_what_a_parser_reads(settings):
    model = random_hierarchy(**settings, seed=3)
    x, labels = model.draw(min(300, model.total), seed=4)
    assert x.dtype == np.float32
    assert x.shape == (len(labels), model.inputs)
    onehot = x.reshape(len(x), model.length, model.vocabulary)
    assert np.all(np.sort(onehot, axis=2)[..., -1] == 1)
    assert np.all(onehot.sum(axis=2) == 1)
    read = [parsed(model, symbols) for symbols in onehot.argmax(axis=2).tolist()]
    assert read == labels.tolist()


@pytest.mark.parametrize("shuffled", [2**22, 10])
def test_splits_are_disjoint_and_nested(shuffled, monkeypatch):
    """In both ways to draw: all numbers in random order, or number by number in blocks."""
    monkeypatch.setattr(hierarchy, "_SHUFFLED", shuffled)
    model = random_hierarchy(synonyms=3)
    (x, y), (tested, answers) = model.split(3000, 1000, seed=5)
    rows = [row.tobytes() for row in np.concatenate([x, tested])]
    assert len(set(rows)) == 4000
    (fewer, labels), (same, _) = model.split(200, 1000, seed=5)
    assert np.array_equal(fewer, x[:200])
    assert np.array_equal(labels, y[:200])
    assert np.array_equal(same, tested)
    assert len(answers) == 1000
    other = model.draw(200, seed=6)[0]
    assert not np.array_equal(other, model.draw(200, seed=5)[0])


def test_everything_can_be_drawn():
    model = random_hierarchy(**TINY)
    x, labels = model.draw(model.total)
    assert len(np.unique(x, axis=0)) == model.total
    assert np.bincount(labels).tolist() == [model.total // 2] * 2


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"synonyms": 9}, "8 symbols with 9 synonyms each need 72 different spellings, but"),
        ({"classes": 20}, "20 symbols with 4 synonyms each need 80 different spellings"),
        ({"branching": 1}, "A hierarchy needs branching of at least 2; got 1."),
        ({"levels": 0}, "A hierarchy needs levels of at least 1; got 0."),
        ({"levels": 400}, "has more data than can be numbered"),
        ({"branching": 40}, "has more data than can be numbered"),
    ],
)
def test_impossible_hierarchies_are_refused(settings, sentence):
    with pytest.raises(InputError, match=r"hierarchy|spellings") as error:
        random_hierarchy(**settings)
    assert sentence in str(error.value)
    assert str(error.value).count(".") == 1


def test_too_many_data_are_refused():
    model = random_hierarchy(**TINY)
    with pytest.raises(InputError, match="17 different data were asked for; this hierarchy has 16"):
        model.draw(17)
    with pytest.raises(InputError, match="A split needs data on both sides; got 0 and 4"):
        model.split(0, 4)


def test_alpha_leaves_the_start_and_scales_two_layers():
    alphas = (0.1, 1.0, 10.0)
    layers = perceptron.perceptrons(alphas, 12, 3, seed=0)
    first, *hidden, readout = (np.asarray(w, dtype=float) for w in layers)
    assert [w.shape for w in layers] == [(3, 12, 64), (3, 64, 64), (3, 64, 64), (3, 64, 3)]
    np.testing.assert_allclose(first[0], 100 * first[2], rtol=1e-5)
    np.testing.assert_allclose(readout[2], 100 * readout[0], rtol=1e-5)
    assert all(np.array_equal(w[0], w[2]) for w in hidden)
    x = np.random.default_rng(0).normal(size=(5, 12)).astype(np.float32)
    answers = np.stack(
        [perceptron.logits(tuple(w[k] for w in layers), jnp.asarray(x)) for k in range(3)]
    )
    h = x / math.sqrt(12) @ first[1]
    for w in hidden:
        h = np.maximum(h, 0) @ w[1] / 8
    expected = np.maximum(h, 0) @ readout[1] / 64
    np.testing.assert_allclose(answers, np.stack([expected] * 3), rtol=1e-3, atol=1e-5)


def test_size_needed_is_read_between_sizes():
    assert size_needed([100, 400], [0.4, 0.6]) == pytest.approx(200)
    assert size_needed([100, 200, 800], [0.1, 0.2, 0.5]) == pytest.approx(800)
    assert size_needed([100, 200], [0.7, 0.9]) == 100
    assert size_needed([100, 200], [0.1, 0.4]) == math.inf


def made_up(order):
    """Accuracies that rise with size, and with alpha if order is 1."""
    alphas, sizes = (0.1, 0.3, 1.0, 3.0), (100, 200, 400, 800)
    shift = order * np.log2(alphas)[None, None, :] / 4
    place = np.arange(4.0)[:, None, None] - 1.5 + shift + np.array([-0.1, 0.1])[None, :, None]
    return HierarchyRuns(alphas, sizes, np.ones((4, 2, 4)), 1 / (1 + np.exp(-2 * place)))


def test_claims_of_5c_can_fail():
    assert rich_hierarchy.hierarchy_figure(made_up(1)).verdict == "reproduced"
    failed = rich_hierarchy.hierarchy_figure(made_up(-1)).claims
    assert [claim.holds for claim in failed] == [True, False, False, False]


def written(result, folder):
    result.write(folder)
    assert (folder / "figure.png").stat().st_size > 10_000
    return json.loads((folder / "result.json").read_text())


@pytest.mark.slow
def test_figure_5c_in_small(tmp_path):
    """Tiny hierarchies, few epochs: sizes that are run alone and joined are those that are run together."""
    small = {"alphas": (0.1, 1.0, 10.0), "seeds": 2, "epochs": 4, "tested": 40}
    model = {"classes": 3, "vocabulary": 4, "synonyms": 3, "levels": 2}
    together = rich_hierarchy.hierarchy_accuracy(parts=(1 / 4, 1 / 3), **small, **model)
    one, two = (
        rich_hierarchy.hierarchy_accuracy(parts=(part,), **small, **model)
        for part in (1 / 4, 1 / 3)
    )
    assert one.joined(two).sizes == together.sizes == (20, 27)
    np.testing.assert_array_equal(one.joined(two).test, together.test)
    assert together.test.shape == together.train.shape == (2, 2, 3)
    result = rich_hierarchy.hierarchy_figure(together)
    stored = written(result, tmp_path)
    assert stored["figure"] == "rich-5c"
    assert len(stored["claims"]) == 4
    assert np.shape(stored["numbers"]["test"]) == (2, 2, 3)


def test_figure_5c_asks_for_the_paper_s_settings(monkeypatch):
    asked = []

    def record(**settings):
        asked.append(settings)
        return made_up(1)

    monkeypatch.setattr(rich_hierarchy, "hierarchy_accuracy", record)
    assert rich_hierarchy.figure_5c().name == rich_hierarchy.figure_5c(full=True).name == "rich-5c"
    assert asked == [{"parts": (1 / 128, 1 / 64, 1 / 32, 1 / 16), "seeds": 3, "tested": 5000}, {}]


def numpy_decoder(network, tokens, heads):
    """A causal decoder that computes every token, head after head, in float64."""
    w = jax.tree.map(lambda leaf: np.asarray(leaf, dtype=float), network)

    def norm(x, one):
        x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-5)
        return x * one.gain + one.shift

    def linear(x, layer):
        return x @ layer.weight + (0 if layer.bias is None else layer.bias)

    gelu = np.vectorize(lambda t: 0.5 * t * (1 + math.erf(t / math.sqrt(2))))
    answers = []
    for sample in tokens:
        x = norm(w.tokens[sample] + w.positions, w.norms[0])
        query, key, value = linear(x, w.query), linear(x, w.key), linear(x, w.value)
        read = np.zeros_like(x)
        for columns in np.split(np.arange(x.shape[1]), heads):
            score = query[:, columns] @ key[:, columns].T / math.sqrt(len(columns))
            score[np.triu_indices(len(x), 1)] = -np.inf
            part = np.exp(score - score.max(axis=1, keepdims=True))
            read[:, columns] = part / part.sum(axis=1, keepdims=True) @ value[:, columns]
        x = x + linear(read, w.out)
        x = x + linear(gelu(linear(norm(x, w.norms[1]), w.up)), w.down)
        answers.append(w.scale * linear(norm(x, w.norms[2]), w.head))
    return np.array(answers)


@pytest.fixture(scope="module")
def trained_start():
    """A start with every weight moved, so that no bias is zero."""
    network = networks_decoder.decoder(p=7, dim=16, seed=0, tau=1.5)
    rng = np.random.default_rng(1)
    return jax.tree.map(lambda w: w + 0.1 * rng.normal(size=w.shape).astype(np.float32), network)


def test_the_decoder_is_the_causal_one_at_its_last_token(trained_start):
    (tokens, _), _ = rich_grokking.pairs(7, 0.5, 0)
    full = numpy_decoder(trained_start, tokens, networks_decoder.HEADS)
    answer = trained_start(jnp.asarray(tokens))
    assert answer.shape == (len(tokens), 9)
    assert answer.dtype == jnp.float32
    np.testing.assert_allclose(answer, full[:, -1], rtol=1e-4, atol=1e-4)


def test_the_oracle_is_causal(trained_start):
    """What later tokens say does not change earlier answers, and changes the last."""
    tokens = np.array([[1, 8, 2, 7], [1, 8, 3, 7]])
    one, other = numpy_decoder(trained_start, tokens, networks_decoder.HEADS)
    np.testing.assert_array_equal(one[:2], other[:2])
    assert np.abs(one[-1] - other[-1]).max() > 1e-3


def test_small_embeddings_are_the_same_function():
    """Division by alpha is undone by the first normalization; nothing else is touched."""
    (tokens, _), _ = rich_grokking.pairs(11, 0.5, 0)
    base, small = (networks_decoder.decoder(11, 32, 3, alpha) for alpha in (1.0, 10.0))
    np.testing.assert_allclose(small.tokens, base.tokens / 10, rtol=1e-6)
    np.testing.assert_allclose(small.positions, base.positions / 10, rtol=1e-6)
    rest = [eqx.tree_at(lambda n: (n.tokens, n.positions), n, (0, 0)) for n in (base, small)]
    assert eqx.tree_equal(*rest)
    np.testing.assert_allclose(small(jnp.asarray(tokens)), base(jnp.asarray(tokens)), atol=2e-3)


def test_embeddings_are_less_than_six_percent():
    """The paper's count of a network with p = 97."""
    network = networks_decoder.decoder(97, 128, 0)
    total = sum(leaf.size for leaf in jax.tree.leaves(network)) - network.scale.size
    assert 0.05 < (network.tokens.size + network.positions.size) / total < 0.06


def test_tau_scales_the_logits_and_is_not_trained():
    (tokens, answers), _ = rich_grokking.pairs(7, 0.5, 0)
    data = jnp.asarray(tokens), jnp.asarray(answers)
    base, scaled = (networks_decoder.decoder(7, 16, 0, tau=tau) for tau in (1.0, 1.5))
    np.testing.assert_allclose(scaled(data[0]), 1.5 * base(data[0]), rtol=1e-5)
    gradient = jax.jit(jax.grad(networks_decoder.answer_loss))(scaled, data)
    assert float(gradient.scale) == 0
    kept = networks_decoder.is_trained(scaled)
    assert kept.scale is False
    assert all(jax.tree.leaves(eqx.tree_at(lambda n: n.scale, kept, True)))


@pytest.mark.parametrize("part", [0.5, 0.8])
def test_pairs_are_split_into_two_parts(part):
    train, validation = rich_grokking.pairs(7, part, seed=2)
    assert len(train[0]) == int(part * 42)
    rows = np.concatenate([train[0], validation[0]]).tolist()
    assert sorted(rows) == [[a, 8, b, 7] for a in range(7) for b in range(1, 7)]
    for tokens, answers in (train, validation):
        right = [(a * b) % 7 for a, _, b, _ in tokens.tolist()]
        assert answers.tolist() == right


def test_impossible_grokking_is_refused():
    with pytest.raises(InputError, match=r"between 0 and 1 is for training; got 1\.5"):
        rich_grokking.pairs(7, 1.5, 0)
    with pytest.raises(InputError, match="The width must be a multiple of the 4 heads; got 30"):
        networks_decoder.decoder(7, 30, 0)


TINY_GROK = {"alphas": (0.1, 1.0, 10.0), "taus": (0.5, 1.0), "p": 5, "dim": 8, "batch": 8}


@pytest.mark.slow
def test_figure_5d_in_small(tmp_path):
    runs = rich_grokking.grok(**TINY_GROK, seeds=[0, 1], steps=40, every=20, weight_decay=0.5)
    assert runs.steps.tolist() == [0, 20, 40]
    assert runs.train.shape == runs.validation.shape == (3, 2, 3, 2)
    alone = rich_grokking.grok(**TINY_GROK, seeds=[0], steps=40, every=20, weight_decay=0.5)
    np.testing.assert_allclose(alone.train, runs.train[:, :1], atol=1e-6)
    stored = written(rich_grokking.grok_figure(alone.joined(runs)), tmp_path)
    assert stored["figure"] == "rich-5d"
    assert len(stored["claims"]) == 6
    assert np.shape(stored["numbers"]["trained"]) == (3, 3, 2)
    assert stored["numbers"]["budget"] == 40


def test_rates_are_divided_by_tau_squared(monkeypatch):
    def record(*_, rates, **__):
        np.testing.assert_allclose(rates, [4, 1] * 3)
        raise InterruptedError

    monkeypatch.setattr(rich_grokking, "train_ensemble", record)
    with pytest.raises(InterruptedError):
        rich_grokking.grok(**TINY_GROK, seeds=[0], steps=2)


def made_up_steps(order):
    """Fit after 100 steps, grokking after 1000 alpha^(-order/4) or so: one seed downstream is too late."""
    alphas, taus, steps = (0.1, 1.0, 10.0), (1.0, 1.5), np.arange(0, 2001, 50)
    late = (
        1000
        * np.array(alphas)[None, :, None] ** (-order / 4)
        * np.array([0.9, 1.0, 1.2])[:, None, None]
    )
    late = np.broadcast_to(late, (3, 3, 2)) * np.array(taus)
    shape = (len(steps), 1, 1, 1)
    fitted = np.broadcast_to(steps.reshape(shape) >= 100, (len(steps), 3, 3, 2))
    return GrokRuns(alphas, taus, steps, fitted * 1.0, (steps.reshape(shape) >= late) * 1.0)


def test_what_is_not_reached_is_infinite():
    runs = made_up_steps(1)
    assert np.all(runs.trained == 100)
    assert runs.grokked[:, :, 0].tolist() == [
        [1650, 900, 550],
        [1800, 1000, 600],
        [math.inf, 1200, 700],
    ]


def test_claims_of_5d_can_fail():
    assert rich_grokking.grok_figure(made_up_steps(1)).verdict == "reproduced"
    failed = rich_grokking.grok_figure(made_up_steps(-1)).claims
    assert [claim.holds for claim in failed] == [True, True, False, False, False, False]
    assert rich_grokking.grok_figure(made_up_steps(1)).numbers["grokked"][2][0][0] is None


def test_figure_5d_asks_for_the_paper_s_settings(monkeypatch):
    asked = []

    def record(**settings):
        asked.append(settings)
        return made_up_steps(1)

    monkeypatch.setattr(rich_grokking, "grok", record)
    assert rich_grokking.figure_5d().name == rich_grokking.figure_5d(full=True).name == "rich-5d"
    assert asked == [rich_grokking.SMALL, {"weight_decay": 0.1}, {}]
