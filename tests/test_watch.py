"""The watch: what it follows ahead against true trainings, what it leaves alone, when it is silent."""

import copy
import dataclasses
import itertools
import json
import math
import warnings

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

from saddlewalk.errors import InputError
from saddlewalk.watch.rules import Adaptive, Descent, steps_until
from saddlewalk.watch.stabilized import chebyshev_step, stages_for

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from saddlewalk.torch import ModuleLandscape, Watch  # noqa: E402
from saddlewalk.watch import State, WatchRecord  # noqa: E402
from saddlewalk.watch.ahead import Ahead, train_ahead  # noqa: E402
from saddlewalk.watch.budget import Budget  # noqa: E402
from saddlewalk.watch.losses import LossRecord  # noqa: E402
from saddlewalk.watch.outlook import Search, read  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Matrices of a few rows are not worth two."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def data(samples=64, seed=0, dtype=torch.float64):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(samples, 4))
    u, v = (np.linalg.qr(rng.normal(size=(k, k)))[0] for k in (2, 4))
    y = x @ (u @ np.diag([3.0, 1.2]) @ v[:2]).T
    return torch.tensor(x, dtype=dtype), torch.tensor(y, dtype=dtype)


def network(scale=1e-3, seed=0, dtype=torch.float64, sizes=(4, 5, 2)):
    torch.manual_seed(seed)
    layers = [nn.Linear(a, b, bias=False, dtype=dtype) for a, b in itertools.pairwise(sizes)]
    if scale is not None:
        with torch.no_grad():
            for layer in layers:
                layer.weight.copy_(scale * torch.randn(layer.weight.shape, dtype=dtype))
    return nn.Sequential(*layers)


def train(model, optimizer, x, y, steps, watch=None, batch=None, looks=(), loss=None):
    """The loss on all data after each step."""
    loss, draw, seen = loss or nn.MSELoss(), torch.Generator().manual_seed(0), []
    for step in range(steps):
        rows = slice(None) if batch is None else torch.randint(len(x), (batch,), generator=draw)
        optimizer.zero_grad()
        value = loss(model(x[rows]), y[rows])
        value.backward()
        optimizer.step()
        if watch is not None:
            watch.step(value.item())
            if step + 1 in looks:
                watch.look()
        with torch.no_grad():
            seen.append(loss(model(x), y).item())
    return np.array(seen)


# --- what one step does -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"momentum": 0.9},
        {"momentum": 0.9, "dampening": 0.3},
        {"momentum": 0.8, "nesterov": True},
    ],
)
def test_growth_a_step_is_that_of_pytorchs_own_optimizer(options):
    rate, s = 0.02, 3.0
    w = torch.ones(1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=rate, **options)
    sizes = []
    for _ in range(400):
        optimizer.zero_grad()
        (-0.5 * s * w**2).sum().backward()
        optimizer.step()
        sizes.append(w.item())
    seen = math.log(sizes[-1] / sizes[-2])
    assert Descent(rate, **options).growth(np.array(s)) == pytest.approx(seen, rel=1e-10)


def test_small_steps_keep_the_clock():
    for options in ({}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}):
        rule = Descent(1e-7, **options)
        assert rule.delay(np.array([2.0]))[0] == pytest.approx(1.0, abs=1e-4)
        assert Descent(0.05, **options).delay(np.array([2.0]))[0] > 1.02


def test_future_rates_are_added_up():
    rates = lambda k: 0.5 ** (k // 3)  # noqa: E731
    rule = Descent(0.1, future=rates)
    for wanted in (0.5, 2.0, 3.5, 5.0):
        steps, total = 0, 0.0
        while total + rates(steps) < wanted:
            total, steps = total + rates(steps), steps + 1
        assert steps_until(rule, wanted) == pytest.approx(steps + (wanted - total) / rates(steps))
    assert steps_until(rule, 7.0) == math.inf or steps_until(rule, 7.0) > 1e6  # the sum ends at 6


@pytest.mark.parametrize("rate", [-1.0, math.nan, np.array([0.1, -0.2])])
def test_rates_that_are_none_are_refused(rate):
    with pytest.raises(InputError, match="Learning rates"):
        Descent(rate)


# --- steps ------------------------------------------------------------------------------------------


def test_stabilized_steps_are_of_order_two_and_stable():
    matrix = np.diag([-1.0, -0.2, 0.5])
    start = np.array([1.0, 2.0, 0.3])
    errors = []
    for h in (0.2, 0.1):
        place = chebyshev_step(lambda y: matrix @ y, start, matrix @ start, h, 4)
        errors.append(np.abs(place - expm(h * matrix) @ start).max())
    assert errors[0] / errors[1] == pytest.approx(8.0, rel=0.25)  # third order in one step
    stiff, y = np.diag([-1e4, 0.5]), np.array([1.0, 1.0])
    for _ in range(20):
        y = chebyshev_step(lambda z: stiff @ z, y, stiff @ y, 0.05, stages_for(0.05 * 1e4))
    assert abs(y[0]) < 1e-2
    assert y[1] == pytest.approx(math.exp(0.5), rel=1e-3)


def test_flow_ahead_is_gradient_flow():
    x, y = data()
    landscape = ModuleLandscape(network(0.05), (x, y), nn.MSELoss())
    w, rule = landscape.weights, Descent(1e-4)
    ahead = train_ahead(landscape, w, rule, horizon=60_000, most=4000)
    true = solve_ivp(
        lambda t, v: -landscape.loss_and_gradient(v)[1],
        (0, 6.0),
        w,
        method="LSODA",
        rtol=1e-9,
        atol=1e-12,
        dense_output=True,
    )
    losses = [landscape.loss(true.sol(step * 1e-4)) for step in ahead.steps]
    assert np.abs(ahead.loss - losses).max() < 1e-2 * losses[0]
    assert ahead.evaluations < 1000


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (torch.optim.Adam, {}),
        (torch.optim.Adam, {"weight_decay": 0.1}),
        (torch.optim.AdamW, {"weight_decay": 0.1}),
        (torch.optim.RMSprop, {}),
        (torch.optim.NAdam, {}),
        (torch.optim.NAdam, {"weight_decay": 0.1, "momentum_decay": 0.1}),
        (torch.optim.NAdam, {"weight_decay": 0.1, "decoupled_weight_decay": True}),
        (torch.optim.RAdam, {}),
        (torch.optim.RAdam, {"betas": (0.9, 0.9), "weight_decay": 0.1}),
    ],
)
def test_adaptive_steps_ahead_are_those_of_pytorch(make, options):
    """One at a time they are the optimizer's own, in the middle of a training."""
    x, y = data()
    model = network(0.05)
    optimizer = make(model.parameters(), lr=1e-2, **options)
    train(model, optimizer, x, y, 5)
    watch = Watch(model, nn.MSELoss(), probe=(x, y), optimizer=optimizer, widths=False)
    rule = watch.rule()
    assert isinstance(rule, Adaptive)
    ahead = train_ahead(watch.landscape, watch.weights(), rule, horizon=1, most=1000, elapsed=1)
    before = watch.landscape.loss(watch.weights())
    train(model, optimizer, x, y, 1)
    assert ahead.loss[0] == pytest.approx(before, rel=1e-12)
    # all data are the batch, and hardly anything is taken for noise
    assert ahead.loss[1] == pytest.approx(watch.landscape.loss(watch.weights()), rel=1e-4)


# --- clipped gradients -------------------------------------------------------------------------------


def clipped_training(model, optimizer, x, y, steps, clip):
    """The loss on all data before each step, with `clip_grad_norm_`, and how many steps it changed."""
    losses, changed = [], 0
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.MSELoss()(model(x), y)
        loss.backward()
        changed += float(nn.utils.clip_grad_norm_(model.parameters(), clip)) > clip
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses), changed


@pytest.mark.parametrize(
    ("make", "options", "allowed"),
    [
        (torch.optim.SGD, {"lr": 1e-3}, 2e-3),
        (torch.optim.SGD, {"lr": 1e-3, "weight_decay": 0.5}, 2e-3),
        (torch.optim.SGD, {"lr": 1e-4, "momentum": 0.9}, 2e-2),
        (torch.optim.Adam, {"lr": 1e-2}, 1e-5),
        (torch.optim.Adam, {"lr": 1e-2, "weight_decay": 0.1}, 1e-5),
        (torch.optim.AdamW, {"lr": 1e-2, "weight_decay": 0.1}, 1e-5),
        (torch.optim.RMSprop, {"lr": 1e-2}, 1e-5),
    ],
)
def test_clipped_steps_are_those_of_pytorch(make, options, allowed):
    """Adaptive ones step by step (PyTorch adds 1e-6 to the length), the others on the clock of the flow."""
    x, y = data()
    model, clip, steps = network(0.3), 0.2, 300
    optimizer = make(model.parameters(), **options)
    watch = Watch(model, nn.MSELoss(), probe=(x, y), optimizer=optimizer, clip=clip, widths=False)
    ahead = train_ahead(
        watch.landscape, watch.weights(), watch.rule(), horizon=steps, most=3000, elapsed=1
    )
    losses, changed = clipped_training(model, optimizer, x, y, steps, clip)
    assert changed > 30  # it matters
    seen = ahead.steps < steps - 1
    true = np.interp(ahead.steps[seen], np.arange(steps), losses)
    np.testing.assert_allclose(ahead.loss[seen], true, atol=allowed * losses[0])


@pytest.mark.parametrize("make", [torch.optim.Adam, torch.optim.AdamW])
def test_slopes_ahead_are_those_of_the_loss_itself(make):
    """Whatever was done to the gradient: against differences of the losses on both sides."""
    x, y = data()
    model = network(0.3)
    optimizer = make(model.parameters(), lr=1e-3, weight_decay=2.0)
    watch = Watch(model, nn.MSELoss(), probe=(x, y), optimizer=optimizer, clip=0.2, widths=False)
    ahead = train_ahead(
        watch.landscape, watch.weights(), watch.rule(), horizon=40, most=3000, elapsed=1
    )
    middle = (ahead.loss[2:] - ahead.loss[:-2]) / (ahead.steps[2:] - ahead.steps[:-2])
    largest = np.abs(middle).max()
    # a slope is that of the step which starts here: the mean of the two beside it is that of both
    found = 0.5 * (ahead.slope[:-2] + ahead.slope[1:-1])
    np.testing.assert_allclose(found[5:], middle[5:], atol=0.02 * largest)
    assert ahead.slope[-1] == pytest.approx(middle[-1], abs=0.05 * largest)


def test_a_drop_under_clipped_gradients_is_forecast():
    x, y = data()
    clip, told = 0.1, []
    model = network(1e-3)
    optimizer = torch.optim.SGD(model.parameters(), 5e-2)
    for one in (clip, None):
        watch = Watch(model, nn.MSELoss(), probe=(x, y), optimizer=optimizer, clip=one)
        told.append(watch.look().forecast)
    losses, _ = clipped_training(model, optimizer, x, y, 5000, clip)
    truths = [float(np.argmax(losses < one.middle)) for one in told]
    assert told[0].left == pytest.approx(truths[0], rel=0.05)
    assert told[1].left < 0.5 * truths[1]  # who does not say it is told too early


@pytest.mark.parametrize(
    "wrong", [{"clip": 0.0}, {"clip": -1.0}, {"clip": math.nan}, {"samples": 3}]
)
def test_clip_and_samples_are_checked(wrong):
    x, y = data()
    with pytest.raises(InputError, match=next(iter(wrong))):
        Watch(network(), nn.MSELoss(), probe=(x, y), **wrong)


# --- the probe is a part of the data -----------------------------------------------------------------


def test_how_far_probes_are_off_is_what_many_of_them_show():
    """Forecasts of many probes against that of all data; the network has many more ways than samples say."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 12))
    y = 2 * x[:, :1] + np.abs(rng.normal(size=(2000, 1))) * rng.normal(size=(2000, 1))
    x, y = torch.tensor(x), torch.tensor(y)
    model = network(1e-3, sizes=(12, 6, 1))
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)

    def told(rows, samples):
        watch = Watch(
            model,
            nn.MSELoss(),
            probe=(x[rows], y[rows]),
            optimizer=optimizer,
            samples=samples,
            widths=False,
        )
        return watch.look().forecast

    truth = told(slice(None), 2000).left
    probes = [torch.tensor(rng.permutation(2000)[:60]) for _ in range(40)]
    raw = np.log([told(rows, None).left / truth for rows in probes])
    known = [told(rows, 2000) for rows in probes]
    mended = np.log([one.left / truth for one in known])
    stated = np.median([math.log(one.high / one.low) / 2 / 1.2816 for one in known])
    assert raw.mean() < -0.02  # a probe alone is early
    assert abs(mended.mean()) < abs(raw.mean())
    assert stated == pytest.approx(mended.std(), rel=0.4)
    held = np.mean([one.low <= truth <= one.high for one in known])
    assert 0.65 <= held <= 0.95


def test_a_probe_that_would_be_learned_by_heart_is_told():
    rng = np.random.default_rng(0)
    x, y = (torch.tensor(rng.normal(size=(32, k))) for k in (40, 1))
    model = network(1e-3, sizes=(40, 8, 1))
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    options = {"probe": (x, y), "optimizer": optimizer, "widths": False}
    assert Watch(model, nn.MSELoss(), **options).look().forecast is not None
    watch = Watch(model, nn.MSELoss(), samples=10_000, **options)
    assert watch.look().state is State.BY_HEART
    assert watch.forecast is None
    assert "larger one tells more" in str(watch)


# --- forecasts --------------------------------------------------------------------------------------


def crossing(losses, before, after):
    return int(np.argmax(losses < 0.5 * (before + after)))


@pytest.mark.parametrize(
    ("make", "batch", "steps", "allowed"),
    [
        (lambda p: torch.optim.SGD(p, 5e-3), None, 1600, 0.02),
        (lambda p: torch.optim.SGD(p, 5e-3), 16, 1600, 0.06),
        (lambda p: torch.optim.SGD(p, 1e-3, momentum=0.9), None, 1200, 0.03),
        (lambda p: torch.optim.Adam(p, 2e-4), None, 6000, 0.25),
    ],
    ids=["gd", "sgd", "momentum", "adam"],
)
def test_the_next_drop_is_forecast(make, batch, steps, allowed):
    """A linear network has two drops; the second is looked for from its plateau."""
    x, y = data()
    alone = network()
    losses = train(alone, make(alone.parameters()), x, y, steps, batch=batch)
    assert losses[-1] < 0.5 * losses[0]
    level = float(np.mean((y.numpy() - _rank_one(x, y)) ** 2))
    first, second = crossing(losses, losses[0], level), crossing(losses, level, 0.0)
    looks = (first // 2, first + (second - first) // 2)
    model = network()
    optimizer = make(model.parameters())
    watch = Watch(model, nn.MSELoss(), probe=(x, y), optimizer=optimizer, budget=1e-9, widths=False)
    train(model, optimizer, x, y, max(looks) + 1, watch, batch, looks)
    for look, truth in zip(watch.looks, (first, second), strict=True):
        assert look.state is State.PLATEAU, look
        assert look.forecast.left == pytest.approx(truth - look.step, rel=allowed)


def _rank_one(x, y):
    """The best map of rank one, for whitened inputs only nearly: the level of the plateau between."""
    weights = np.linalg.lstsq(x.numpy(), y.numpy(), rcond=None)[0]
    root = np.linalg.cholesky(x.numpy().T @ x.numpy())
    u, s, v = np.linalg.svd(root.T @ weights)
    return x.numpy() @ np.linalg.solve(root.T, s[0] * np.outer(u[:, 0], v[0]))


def test_a_schedule_delays_the_drop():
    x, y = data()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 5e-3)
    options = {"probe": (x, y), "optimizer": optimizer, "budget": 1e-9, "widths": False}
    halves = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 if step < 100 else 0.5)
    watches = [
        Watch(model, nn.MSELoss(), **options),
        Watch(model, nn.MSELoss(), schedule=lambda step: 5e-3 if step < 100 else 2.5e-3, **options),
        Watch(model, nn.MSELoss(), schedule=halves, **options),
    ]
    left = [watch.look().forecast.left for watch in watches]
    assert left[0] > 150
    assert left[1] == pytest.approx(100 + 2 * (left[0] - 100), rel=1e-6)
    assert left[2] == pytest.approx(left[1], rel=1e-2)
    assert halves.last_epoch == 0
    assert optimizer.param_groups[0]["lr"] == 5e-3


@pytest.mark.parametrize(
    ("make", "comes"),
    [
        (lambda o: torch.optim.lr_scheduler.LinearLR(o, 1.0, 0.0, 400), False),
        (lambda o: torch.optim.lr_scheduler.LinearLR(o, 1.0, 0.0, 1200), True),
        (lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 400), False),
        (lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.99), False),
        (lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 200), True),
        (lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 2e-3, 1200), True),  # momentum, too
        (  # nothing at all for a step in every sixty
            lambda o: torch.optim.lr_scheduler.CyclicLR(o, 0.0, 5e-3, 30, cycle_momentum=False),
            True,
        ),
    ],
    ids=["linear", "long", "cosine", "exponential", "restarts", "one cycle", "cyclic"],
)
def test_a_rate_that_ends_before_the_drop_is_told(make, comes):
    """Against the training itself, which goes on as its schedule says."""
    x, y = data()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 5e-3)
    schedule = make(optimizer)
    watch = Watch(
        *(model, nn.MSELoss()),
        **{"probe": (x, y), "optimizer": optimizer, "schedule": schedule},
        **{"budget": 1e-9, "widths": False},
    )
    losses = []
    for step in range(1200 if comes else 400):
        if step == 100:
            look, words = watch.look(), str(watch)
        losses.extend(train(model, optimizer, x, y, 1, watch))
        schedule.step()
    dropped = np.flatnonzero(np.array(losses) < 0.7 * losses[0])
    assert (len(dropped) > 0) == comes
    assert "inf" not in words
    if comes:
        truth = int(np.argmax(np.array(losses) < look.forecast.middle))
        assert look.forecast.left == pytest.approx(truth - 100, rel=0.05)
    else:
        assert look.state is State.RATE_ENDS, look
        assert look.chance == 0
        assert look.forecast is None
        assert f"comes to its end, at step {look.step + look.seen:,.0f}" in words
        assert optimizer.param_groups[0]["lr"] < 0.02 * 5e-3  # the schedule's own end
        assert look.step + look.seen >= 400 - 20


def test_a_rate_of_nothing_is_told():
    x, y = data()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    watch = Watch(model, nn.MSELoss(), probe=(x, y), optimizer=optimizer)
    assert watch.look().state is State.UNKNOWN
    assert "its learning rate is 0" in str(watch)


@pytest.mark.parametrize(
    "make",
    [
        lambda o: torch.optim.lr_scheduler.SequentialLR(
            o,
            [
                torch.optim.lr_scheduler.LinearLR(o, 0.1, 1, 10),
                torch.optim.lr_scheduler.CosineAnnealingLR(o, 50),
            ],
            [10],
        ),
        lambda o: torch.optim.lr_scheduler.ChainedScheduler(
            [
                torch.optim.lr_scheduler.LinearLR(o, 0.1, 1, 10),
                torch.optim.lr_scheduler.ExponentialLR(o, 0.97),
            ],
            optimizer=o,
        ),
        lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, 40),
        lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(o),
    ],
    ids=["sequential", "chained", "one cycle", "on plateau"],
)
@pytest.mark.filterwarnings("ignore:.*lr_scheduler:UserWarning", "ignore:.*epoch:UserWarning")
def test_a_look_does_not_step_a_schedule(make):
    x, y = data()
    rates = []
    for watched in (False, True):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), 1e-2)
        schedule = make(optimizer)
        watch = Watch(
            model, nn.MSELoss(), probe=(x, y), optimizer=optimizer, schedule=schedule, widths=False
        )
        seen = []
        for step in range(30):
            train(model, optimizer, x, y, 1)
            if watched and step in (5, 20):
                watch.look()
            if isinstance(schedule, torch.optim.lr_scheduler.ReduceLROnPlateau):
                schedule.step(1.0)
            else:
                schedule.step()
            seen.append(optimizer.param_groups[0]["lr"])
        rates.append(seen)
    assert rates[0] == rates[1]


def test_a_drop_that_does_not_come_widens_the_next_interval(watched):
    record = watched[0].record
    told = record.forecasts[0]
    flat = WatchRecord(np.arange(3000.0), np.full(3000, 9.0), record.looks[:1], record.units)
    assert flat.mistakes(told.made + 1) == []
    (late,) = flat.mistakes(told.made + 3 * told.left)
    assert late == pytest.approx(math.log(3.0))


class Pair(nn.Module):
    """A network that answers with more than one thing."""

    def __init__(self):
        super().__init__()
        self.net = network(None)

    def forward(self, x):
        answer = self.net(x)
        return answer, {"again": answer}


def test_a_loss_that_reads_the_whole_answer_is_refused():
    x, y = data()
    assert Watch(Pair(), nn.MSELoss(), probe=(x, y)).landscape.sample_count == len(x)
    with pytest.raises(InputError, match="reads the whole"):
        Watch(Pair(), lambda out, t: nn.MSELoss()(out[1]["again"], t), probe=(x, y))
    with pytest.raises(InputError, match="reads the whole"):
        Watch(Pair(), lambda out, t: nn.MSELoss()(out[0], t), probe=(x, y))


def test_arguments_are_checked_before_training(tmp_path):
    x, y = data()
    model = network()
    for wrong in (
        {"probe": (x[:0], y[:0])},
        {"optimizer": torch.optim.SGD},
        {"schedule": 3},
        {"schedule": lambda step: None},
        {"budget": math.inf},
        {"page": tmp_path / "missing" / "watch.html"},
    ):
        with pytest.raises(InputError):
            Watch(model, nn.MSELoss(), **{"probe": (x, y), **wrong})


def test_silent_on_an_ordinary_training_and_at_its_end():
    x, y = data(dtype=torch.float32)
    model = network(None, dtype=torch.float32, sizes=(4, 16, 2))
    optimizer = torch.optim.SGD(model.parameters(), 2e-2)
    watch = Watch(model, nn.MSELoss(), probe=(x, y), optimizer=optimizer, budget=1e-9, widths=False)
    train(model, optimizer, x, y, 3000, watch, 16, (30, 100, 300, 1000, 2999))
    assert watch.record.forecasts == ()
    assert {look.state for look in watch.looks} <= {State.FALLING, State.NO_DROP, State.MINIMUM}


# --- whether a drop comes, without a step ---------------------------------------------------------------


def outlook_of(loss, past=(), reference=0, steps=None):
    """What is read off a future that is given, of a training with a past."""
    steps = np.arange(len(loss), dtype=float) if steps is None else steps
    ahead = Ahead(
        steps=steps,
        loss=np.asarray(loss, dtype=float),
        slope=np.gradient(loss, steps),
        force=np.ones(len(loss)),
        sizes=np.ones((len(loss), 1)),
        hidden=np.ones(1, dtype=bool),
        evaluations=len(loss),
    )
    search = Search(len(past) or 100, horizon=steps[-1])
    search.reference = reference
    return read(ahead, Descent(1e-3), search, (np.arange(len(past)) + 0.5, np.asarray(past)))


def test_the_chance_of_a_drop_falls_with_the_pace_before_it():
    t = np.linspace(0, 1, 400)
    steps = 400 * t
    still = outlook_of(1 / (1 + np.exp(20 * (t - 0.5))), steps=steps)
    even = outlook_of(1 - 0.9 * t, steps=steps)
    slower = outlook_of(np.exp(-5 * t), steps=steps)
    flat = outlook_of(np.ones(400), steps=steps)
    chances = [one.chance() for one in (still, even, slower)]
    assert still.state is State.PLATEAU
    assert flat.state is State.NO_DROP
    assert chances[0] > 0.95
    assert chances[0] > chances[1] > chances[2]
    assert max(chances[2], flat.chance()) < 0.1
    # the data are slower than a probe that is learned by heart
    assert still.chance(0.5) < still.chance()


def test_what_was_not_seen_may_hold_a_drop():
    steps = np.linspace(0, 100, 200)
    ahead = outlook_of(np.ones(200), steps=steps)
    assert dataclasses.replace(ahead, reach=0.2).chance() > ahead.chance()


def test_noise_that_settles_is_no_drop():
    """The loss at a floor of noise will fall by less than it shakes: no drop is said to be ahead."""
    rng = np.random.default_rng(0)
    past = 1 + 0.3 * rng.normal(size=400)
    t = np.linspace(0, 1, 100)
    ahead = 1 - 0.2 * t**4  # it begins to fall, and the end is not in sight
    assert outlook_of(ahead, past, steps=400 * t).state is State.FALLING
    assert outlook_of(ahead, np.ones(400), steps=400 * t).state is State.PLATEAU


# --- a loss that is held out ---------------------------------------------------------------------------


def test_a_held_out_loss_drops_when_it_was_forecast():
    """The first mode hardly matters to the held-out data, the second much: their drop is the later one."""
    x, y = data()
    scale = torch.tensor([0.2, 4.0], dtype=torch.float64)
    weights = torch.linalg.lstsq(x, y).solution
    left, values, right = torch.linalg.svd(weights, full_matrices=False)
    held = (x, x @ (left * values * scale) @ right)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 5e-3)
    watch = Watch(
        model, nn.MSELoss(), probe=(x, y), optimizer=optimizer, budget=1e-9, held_out=held
    )
    told = []
    for step in range(1500):
        if step == 500:
            watch.look()
        train(model, optimizer, x, y, 1, watch)
        told.append(watch.held_out.loss(watch.weights()))
    look = watch.looks[0]
    assert look.held_out == pytest.approx(told[499], rel=1e-9)
    assert look.state is State.PLATEAU, look
    passed = int(np.argmax(np.array(told[look.step :]) < look.forecast.middle))
    assert look.forecast.left == pytest.approx(passed, rel=0.05)
    assert "held-out loss" in str(watch)
    assert watch.numbers()["watch/held_out_loss"] == look.held_out


def test_a_search_begins_anew_with_its_path():
    search = Search(100, rises=True)
    for k in range(1, 50):
        search(list(range(k)), [1.0 + j for j in range(k)])
    assert search.reference == 48
    search([0.0], [1.0])
    assert search.reference == 0


# --- nothing is changed -----------------------------------------------------------------------------


class Noisy(nn.Module):
    """Everything that a look could disturb: dropout, batch statistics, frozen weights."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(4, 6), nn.BatchNorm1d(6)
        self.drop, self.last = nn.Dropout(0.3), nn.Linear(6, 2)
        self.last.bias.requires_grad_(False)

    def forward(self, x):
        return self.last(self.drop(torch.relu(self.norm(self.first(x)))))


@pytest.mark.filterwarnings("ignore:Training reports")
@pytest.mark.parametrize("compiled", [False, True])
def test_training_is_the_same_bit_for_bit(compiled):
    x, y = data(dtype=torch.float32)
    ends = []
    for watched in (False, True):
        torch.manual_seed(3)
        model = Noisy()
        shown = torch.compile(model, backend="eager") if compiled else model
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        watch = None
        if watched:
            watch = Watch(shown, nn.MSELoss(), probe=(x, y), optimizer=optimizer, budget=1e-9)
        losses = train(shown, optimizer, x, y, 60, watch, 16, (10, 40))
        kept = copy.deepcopy(model.state_dict())
        ends.append((losses, kept, torch.rand(3), model.training))
    for a, b in zip(ends[0][1].values(), ends[1][1].values(), strict=True):
        assert torch.equal(a, b)
    assert np.array_equal(ends[0][0], ends[1][0])
    assert torch.equal(ends[0][2], ends[1][2])
    assert ends[1][3]


def test_gradients_of_the_user_stay():
    x, y = data()
    model = network()
    nn.MSELoss()(model(x), y).backward()
    before = [p.grad.clone() for p in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    Watch(model, nn.MSELoss(), probe=(x, y), optimizer=optimizer).look()
    assert all(torch.equal(a, p.grad) for a, p in zip(before, model.parameters(), strict=True))


# --- a budget ---------------------------------------------------------------------------------------


def test_looks_keep_to_their_part_of_the_time(monkeypatch):
    """On a clock of our own: a step takes 1 s, a gradient 0.1 s."""
    now = [0.0]
    monkeypatch.setattr("saddlewalk.watch.budget.time.perf_counter", lambda: now[0])
    budget, looks = Budget(0.05), 0
    budget.gradient = 0.1
    for step in range(20_000):
        now[0] += 1.0
        if budget.allows(step):
            with budget.look(step):
                now[0] += 0.1 * budget.affordable()
            budget.learn(budget.wanted, looks % 2 == 0)
            looks += 1
    assert looks > 5
    assert budget.share <= 0.0501


@pytest.mark.parametrize("unlucky", [0, 1, 5])
def test_one_bad_moment_does_not_silence_a_watch(monkeypatch, unlucky):
    """On a clock of our own: a step takes 4 s, a gradient 1 s, but for some after the very first."""
    now, calls, gradient = [0.0], [0], ModuleLandscape.loss_and_gradient

    def slow(landscape, weights):
        calls[0] += 1
        now[0] += 200.0 if 1 < calls[0] <= 1 + unlucky else 1.0
        return gradient(landscape, weights)

    monkeypatch.setattr("saddlewalk.watch.budget.time.perf_counter", lambda: now[0])
    monkeypatch.setattr(ModuleLandscape, "loss_and_gradient", slow)
    x, y = data()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 5e-3)
    watch = Watch(model, nn.MSELoss(), probe=(x, y), optimizer=optimizer, widths=False)
    for _ in range(12_000):
        now[0] += 4.0
        watch.step(4.65)
        if watch.looks:
            break
    assert watch.looks
    assert watch.looks[0].state is State.PLATEAU
    assert watch.looks[0].forecast is not None
    assert watch.budget.share <= 0.05


def test_a_look_keeps_room_for_what_follows_the_search():
    """Asked for few gradients it takes no more, however stiff the network is."""
    x, y = data()
    watch = Watch(network(3.0), nn.MSELoss(), probe=(x, y), widths=False)
    weights, rule = watch.weights(), Descent(5e-3)
    for most in (20, 50, 100):
        ahead = train_ahead(watch.landscape, weights, rule, horizon=1e6, most=most)
        assert ahead.evaluations <= most + 6  # a step of the fewest, and what follows it


@pytest.mark.parametrize("asked", [False, True])
def test_widths_are_counted_where_there_is_time_or_one_asks(asked):
    x, y = data()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 5e-3)
    watch = Watch(model, nn.MSELoss(), probe=(x, y), optimizer=optimizer, budget=1e-9)
    train(model, optimizer, x, y, 600)  # one mode has been learned
    look = watch.look() if asked else watch.look(most=100, seconds=1e-3)
    assert look.widths == ({"0": 1} if asked else {})


def test_a_budget_is_positive():
    with pytest.raises(InputError, match="budget"):
        Budget(0.0)


def test_losses_are_kept_in_little_room():
    record = LossRecord()
    for step in range(100_000):
        record.add(1.0 if step < 60_000 else 0.25)
    steps, loss = record.curve()
    assert len(steps) <= 2048
    assert np.mean(loss) == pytest.approx(0.7, abs=1e-3)
    assert record.recent() == 0.25
    assert record.still_since(0.25, 0.05) == pytest.approx(60_000, abs=2 * record.width)


def test_losses_of_few_steps_stay_where_they_are():
    """Most steps have none: bins are joined three times, and none of them is lost."""
    record, known = LossRecord(), {100: 9.0, 300: 8.0, 500: 8.0, 2500: 4.0, 6000: 1.0, 14_001: 0.5}
    for step in range(1, 14_002):
        record.add(known.get(step, math.nan))
    steps, loss = record.curve()
    np.testing.assert_allclose(steps, np.array(list(known)) - 0.5)
    np.testing.assert_allclose(loss, list(known.values()))


# --- what goes wrong --------------------------------------------------------------------------------


def test_numbers_that_are_not_finite_are_told_with_step_and_place():
    x, y = data()
    model = network(1.0)
    optimizer = torch.optim.SGD(model.parameters(), 50.0)
    watch = Watch(model, nn.MSELoss(), probe=(x, y), optimizer=optimizer)
    train(model, optimizer, x, y, 60, watch)
    assert "Nothing is forecast from here" in str(watch)
    assert "not finite: '0.weight'" in str(watch) or "still finite" in str(watch)
    assert int(str(watch).split()[1].rstrip(":")) < 60


def test_an_optimizer_of_another_model_is_refused():
    x, y = data()
    other = torch.optim.SGD(network().parameters(), 0.1)
    with pytest.raises(InputError, match="None of the model's parameters"):
        Watch(network(), nn.MSELoss(), probe=(x, y), optimizer=other)


def test_parameters_that_are_not_trained_are_told_and_held():
    x, y = data()
    model = network()
    some = torch.optim.SGD(model[0].parameters(), 0.1)
    with pytest.warns(UserWarning, match=r"'1\.weight' is not in the optimizer"):
        watch = Watch(model, nn.MSELoss(), probe=(x, y), optimizer=some)
    rate = watch.rule().rate
    assert set(rate[:20]) == {0.1}
    assert set(rate[20:]) == {0.0}


def test_another_loss_is_told():
    x, y = data(dtype=torch.float32)
    model = network(None, dtype=torch.float32)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    watch = Watch(
        model, lambda f, t: ((f - t) ** 2).sum(), probe=(x, y), optimizer=optimizer, budget=1e-9
    )
    with pytest.warns(UserWarning, match="another loss"):
        train(model, optimizer, x, y, 30, watch, looks=(25,))


def test_a_probe_that_does_not_fit_is_refused():
    x, y = data()
    with pytest.raises(InputError):
        Watch(network(), nn.MSELoss(), probe=(x[:, :3], y))
    with pytest.raises(InputError):
        Watch(network(), nn.MSELoss(), probe=x)


def test_targets_that_would_be_compared_with_each_output_are_refused():
    x, y = data()
    model = network(sizes=(4, 5, 1))
    flat = y[:, 0]
    for loss in (nn.MSELoss(), nn.functional.l1_loss, lambda f, t: ((f - t) ** 2).mean()):
        with pytest.raises(InputError, match=r"reshape\(\(64, 1\)\)"):
            Watch(model, loss, probe=(x, flat))
        Watch(model, loss, probe=(x, y[:, :1]))
    Watch(model, lambda f, t: ((f[:, 0] - t) ** 2).mean(), probe=(x, flat))
    Watch(model, lambda f, t: ((f - t.reshape(f.shape)) ** 2).mean(), probe=(x, flat))
    Watch(nn.Sequential(model, nn.Flatten(0)), nn.MSELoss(), probe=(x, flat))
    Watch(network(sizes=(4, 5, 3)), nn.CrossEntropyLoss(), probe=(x, (flat > 0).long()))
    own = nn.functional.binary_cross_entropy_with_logits  # which refuses them itself
    with pytest.raises(InputError, match="must be the same as input size"):
        Watch(model, own, probe=(x, (flat > 0).to(x.dtype)))


def test_a_loss_of_a_step_is_one_number():
    x, y = data()
    watch = Watch(network(), nn.MSELoss(), probe=(x, y))
    for wrong in (None, "x", torch.ones(3), [1.0]):
        with pytest.raises(InputError, match="one number"):
            watch.step(wrong)
    assert watch.steps == 0
    for right in (1.0, np.float32(1.0), torch.ones((), requires_grad=True), torch.ones(1)):
        watch.step(right)
    assert watch.steps == 4


@pytest.mark.parametrize(("before", "words"), [(False, "is trained by now"), (True, "is frozen")])
def test_a_layer_that_is_frozen_or_set_free_later_is_told(before, words):
    x, y = data()
    model = network()
    model[0].weight.requires_grad_(before)
    optimizer = torch.optim.SGD(model.parameters(), 5e-3)
    watch = Watch(model, nn.MSELoss(), probe=(x, y), optimizer=optimizer, widths=False)
    watch.look()
    model[0].weight.requires_grad_(not before)
    with pytest.warns(UserWarning, match=rf"'0\.weight' {words}"):
        watch.look()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        watch.look()  # said once


def test_a_probe_on_another_device_is_refused():
    x, y = data()
    with pytest.raises(InputError, match=r"inputs of the probe are on meta.*\.to\('cpu'\)"):
        Watch(network(), nn.MSELoss(), probe=(x.to("meta"), y))
    with pytest.raises(InputError, match="targets of the probe are on meta"):
        Watch(network(), nn.MSELoss(), probe=(x, y.to("meta")))


def test_mixed_precision_is_looked_at_in_full_and_left_alone():
    """A look within `autocast` computes in the weights' own precision, and changes no bit of the training."""
    x, y = data(dtype=torch.float32)
    ends, told = [], []
    for watched in (False, True):
        model = network(1e-2, dtype=torch.float32)
        optimizer = torch.optim.SGD(model.parameters(), 5e-3)
        watch = Watch(model, nn.MSELoss(), probe=(x, y), optimizer=optimizer, budget=1e-9)
        for step in range(500):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = nn.MSELoss()(model(x).float(), y)
                if watched:
                    watch.step(loss.item())
                    if step == 20:
                        told.append(watch.look())
            loss.backward()
            optimizer.step()
            ends.append(loss.item())
    assert ends[:500] == ends[500:]
    (look,) = told
    full = nn.MSELoss()(torch.zeros_like(y), y).item()
    assert look.loss == pytest.approx(full, rel=1e-2)
    truth = int(np.argmax(np.array(ends[:500]) < look.forecast.middle))
    assert look.forecast.left == pytest.approx(truth - 21, rel=0.1)


def test_a_compiled_module_is_forecast_as_the_module_is():
    x, y = data()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 5e-3)
    options = {"probe": (x, y), "optimizer": optimizer, "widths": False}
    compiled = torch.compile(model, backend="eager")
    plain, other = (Watch(one, nn.MSELoss(), **options).look() for one in (model, compiled))
    assert plain.forecast == other.forecast


def test_frozen_layers_stay_in_forecasts():
    """With the first layer frozen the network is linear in its weights, and falls at once."""
    x, y = data()
    model = network(0.5)
    model[0].weight.requires_grad_(False)
    optimizer = torch.optim.SGD(model[1].parameters(), 1e-3)
    watch = Watch(model, nn.MSELoss(), probe=(x, y), optimizer=optimizer, widths=False)
    assert watch.landscape.names == ("1.weight",)
    assert watch.look().state is State.FALLING


@pytest.mark.parametrize(
    "make",
    [
        torch.optim.Adagrad,
        lambda p: torch.optim.Adam(p, amsgrad=True),
        lambda p: torch.optim.SGD(
            [{"params": [w], "momentum": 0.3 * k} for k, w in enumerate(p)], 0.1
        ),
    ],
    ids=["adagrad", "amsgrad", "two momenta"],
)
def test_an_optimizer_whose_law_is_not_known_gives_no_forecast(make):
    x, y = data()
    model = network()
    optimizer = make(model.parameters())
    watch = Watch(model, nn.MSELoss(), probe=(x, y), optimizer=optimizer)
    look = watch.look()
    assert look.state is State.UNKNOWN
    assert look.forecast is None
    assert "not known" in str(watch)


# --- what is kept -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """A watched training with one drop behind it and its page."""
    page = tmp_path_factory.mktemp("watch") / "watch.html"
    x, y = data()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 5e-3)
    watch = Watch(
        model,
        nn.MSELoss(),
        probe=(x, y),
        optimizer=optimizer,
        budget=1e-9,
        page=page,
        title="two modes",
    )
    train(model, optimizer, x, y, 1500, watch, looks=(150, 300, 900, 1400))
    return watch, page


def test_past_forecasts_stand_beside_what_happened(watched):
    watch, _ = watched
    outcomes = [one for one in watch.record.outcomes if math.isfinite(one.happened)]
    assert outcomes
    assert all(abs(one.error) < 0.05 for one in outcomes)
    assert watch.record.mistakes()


def test_a_watch_can_be_kept_and_drawn(watched, tmp_path):
    watch, _ = watched
    watch.save(tmp_path / "watch.nc")
    again = WatchRecord.load(tmp_path / "watch.nc")
    assert json.dumps(again.to_json()) == json.dumps(watch.record.to_json())
    watch.plot(tmp_path / "watch.png")
    assert (tmp_path / "watch.png").stat().st_size > 20_000
    assert watch.history["looks"].sizes["look"] == 4


@pytest.mark.parametrize(
    ("scale", "sizes", "kind"),
    [(1e-3, (4, 5, 2), "strict saddle"), (5e-2, (4, 5, 5, 2), "degenerate saddle")],
)
def test_the_kind_of_saddle_is_told_where_one_asks(scale, sizes, kind):
    """At zero two layers have negative curvature, and three have none."""
    x, y = data()
    model = network(scale, sizes=sizes)
    optimizer = torch.optim.SGD(model.parameters(), 5e-3)
    watch = Watch(model, nn.MSELoss(), probe=(x, y), optimizer=optimizer)
    train(model, optimizer, x, y, 50, watch)
    assert watch.look().saddle == kind
    assert f"; {kind}; units in use: 0" in str(watch)
    assert not watch.look(most=200, seconds=1e-9).saddle


def test_growth_from_look_to_look_is_drawn():
    """On the first plateau all units come to grow by the largest singular value, a step at a time."""
    x, y = data()
    model = network(1e-5)
    optimizer = torch.optim.SGD(model.parameters(), 5e-3)
    watch = Watch(model, nn.MSELoss(), probe=(x, y), optimizer=optimizer, budget=1e-9, widths=False)
    train(model, optimizer, x, y, 401, watch, looks=(200, 300, 400))
    watch.look()  # twice at one step
    s = np.linalg.svd((y.T @ x).numpy() / len(x))[1][0]  # the mean is over two outputs, too
    axes = watch.plot()
    drawn = np.array([patch.get_data().values for patch in axes[3].patches])
    assert drawn.shape == (7, 3)
    np.testing.assert_allclose(drawn[:, :2], 100 * np.log1p(5e-3 * s), rtol=0.05)


def test_the_page_shows_the_present(watched):
    watch, page = watched
    words = page.read_text()
    assert str(watch).split(" (")[0] in words
    assert 'http-equiv="refresh"' in words
    assert "data:image/png;base64," in words
    assert "http://" not in words
    assert "https://" not in words


def test_numbers_for_a_logger_are_flat(watched):
    watch, _ = watched
    numbers = watch.numbers()
    assert numbers["watch/loss"] == watch.looks[-1].loss
    assert all(isinstance(value, float) for value in numbers.values())


# --- other loops ------------------------------------------------------------------------------------


def falls_to_zero(step, ahead, total):
    """How a rate that falls along a line to zero goes on, as a part of the present one."""
    return (1 - (step + ahead) / total) / (1 - step / total)


@pytest.mark.parametrize("batches", [1, 4])
def test_lightning_calls_the_watch(batches):
    """Once for each step of the optimizer, with the mean loss; schedule and clipping are the trainer's."""
    lightning = pytest.importorskip("lightning.pytorch")
    from torch.utils.data import DataLoader, TensorDataset

    from saddlewalk.torch import lightning_watch

    x, y = data(dtype=torch.float32)
    seen = []

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = network(1e-2, dtype=torch.float32)

        def training_step(self, batch):
            loss = nn.MSELoss()(self.net(batch[0]), batch[1])
            seen.append(loss.item())
            return loss

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), 5e-3)
            scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, 1000)
            return {
                "optimizer": optimizer,
                "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
            }

    callback = lightning_watch(nn.MSELoss(), probe=(x, y), part="net", budget=100.0, widths=False)
    trainer = lightning.Trainer(
        max_epochs=20,
        accumulate_grad_batches=batches,
        gradient_clip_val=0.5,
        callbacks=[callback],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        accelerator="cpu",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Lightning's own advice on workers
        trainer.fit(Module(), DataLoader(TensorDataset(x, y), batch_size=16))
    steps = 20 * 4 // batches
    assert callback.watch.steps == trainer.global_step == steps
    means = np.array(seen).reshape(-1, batches).mean(axis=1)
    np.testing.assert_allclose(callback.watch.record.losses, means, rtol=1e-5)
    assert callback.watch.samples == len(x)
    assert callback.watch.clip == 0.5
    assert callback.watch.rule().future(100) == pytest.approx(falls_to_zero(steps, 100, 1000))
    assert callback.watch.looks


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("own", [False, True])
def test_the_trainer_of_hugging_face_calls_the_watch(tmp_path, own):
    """With its schedule and its clipping, where the user does not say otherwise."""
    transformers = pytest.importorskip("transformers")
    from saddlewalk.torch import trainer_watch

    config = transformers.GPT2Config(
        vocab_size=11, n_positions=8, n_embd=8, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0
    )
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config)
    tokens = torch.randint(11, (32, 8))
    rows = [{"input_ids": row, "labels": row} for row in tokens]

    def loss(logits, labels):
        return nn.functional.cross_entropy(
            logits[:, :-1].reshape(-1, 11), labels[:, 1:].reshape(-1)
        )

    options = {"clip": 3.0, "schedule": None} if own else {}
    callback = trainer_watch(
        loss, probe=({"input_ids": tokens}, tokens), budget=100.0, widths=False, **options
    )
    futures = []

    class Asks(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **known):
            if state.global_step == 12:
                futures.append(callback.watch.rule().future)
                futures.append([] if futures[0] is None else [futures[0](k) for k in range(8)])

    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=20,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        save_strategy="no",
    )
    transformers.Trainer(
        model=model, args=arguments, train_dataset=rows, callbacks=[callback, Asks()]
    ).train()
    assert callback.watch.steps == 20
    assert callback.watch.looks
    assert any(look.state is not State.UNKNOWN for look in callback.watch.looks)
    assert callback.watch.clip == (3.0 if own else 1.0)
    assert futures[1] == pytest.approx([] if own else [falls_to_zero(12, k, 20) for k in range(8)])


def test_a_jax_loop_with_optax():
    """The same numbers as PyTorch, from the state of Optax."""
    import jax
    import jax.numpy as jnp
    import optax

    from saddlewalk import watch as watching

    x, y = (np.asarray(part, dtype=np.float32) for part in data())
    answer = lambda p, one: one @ p["u"] @ p["v"]  # noqa: E731
    keys = jax.random.split(jax.random.key(0))
    start = {
        "u": 1e-3 * jax.random.normal(keys[0], (4, 5)),
        "v": 1e-3 * jax.random.normal(keys[1], (5, 2)),
    }
    squared = lambda f, t: jnp.mean((f - t) ** 2)  # noqa: E731
    one = {"u": start["u"], "v": start["v"][:, :1]}
    with pytest.raises(InputError, match="each output with each target"):
        watching.Watch(answer, one, squared, probe=(x, y[:, 0]))
    chains = {
        "sgd": (optax.sgd(5e-3), watching.Sgd(5e-3), 0.03),
        "adam": (optax.adam(3e-4), watching.Adam(3e-4), 0.25),
    }
    for optimizer, plan, allowed in chains.values():
        params, state = start, optimizer.init(start)

        @jax.jit
        def step(params, state, optimizer=optimizer):
            loss, slope = jax.value_and_grad(
                lambda p: squared(jax.vmap(lambda one: answer(p, one))(x), y)
            )(params)
            change, state = optimizer.update(slope, state, params)
            return optax.apply_updates(params, change), state, loss

        watch = watching.Watch(
            answer, start, squared, probe=(x, y), optimizer=plan, budget=1e-9, widths=False
        )
        losses = []
        for k in range(3000):
            params, state, loss = step(params, state)
            losses.append(float(loss))
            watch.step(loss, params, state)
            if k == 150:
                told = watch.look().forecast
        assert told is not None
        truth = int(np.argmax(np.array(losses) < told.middle))
        assert told.left == pytest.approx(truth - 151, rel=allowed)


# --- after the fact ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints")
    x, y = data(dtype=torch.float32)
    np.savez(folder / "data.npz", X=x.numpy(), Y=y.numpy())
    model = network(dtype=torch.float32)
    optimizer = torch.optim.SGD(model.parameters(), 5e-3)
    for step in (0, 150, 300, 450, 600):
        both = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(both, folder / f"step_{step}.pt")
        train(model, optimizer, x, y, 150)
    return folder


def test_checkpoints_tell_the_same(checkpoints):
    from saddlewalk.watch.checkpoints import watch_checkpoints

    with np.load(checkpoints / "data.npz") as kept:
        x, y = kept["X"], kept["Y"]
    files = sorted(checkpoints.glob("step_*.pt"))
    record = watch_checkpoints(files, x, y, activation="linear")
    assert [look.step for look in record.looks] == [0, 150, 300, 450, 600]
    assert record.forecasts
    seen = [one for one in record.outcomes if math.isfinite(one.happened)]
    assert seen
    # timed between two checkpoints
    assert all(abs(one.happened - one.forecast.step) <= 150 for one in seen)


def test_drops_between_distant_checkpoints_are_bracketed(tmp_path):
    """Thousands of steps, losses at seven of them: what is not known is not made up, and is no mistake."""
    from saddlewalk.watch.checkpoints import watch_checkpoints

    x, y = data(dtype=torch.float32)
    model = network(1e-2, dtype=torch.float32)
    optimizer = torch.optim.SGD(model.parameters(), 5e-4)
    kept, losses, files = (500, 1000, 1500, 4500, 6000, 8000, 14_000), [], []
    for before, step in itertools.pairwise((0, *kept)):
        losses.append(train(model, optimizer, x, y, step - before))
        files.append(tmp_path / f"step_{step}.pt")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, files[-1])
    losses = np.concatenate(losses)
    record = watch_checkpoints(files, x.numpy(), y.numpy(), activation="linear")
    np.testing.assert_allclose(record.losses, losses[np.array(kept) - 1], rtol=1e-3)
    seen = [one for one in record.outcomes if math.isfinite(one.happened)]
    assert any(one.vague for one in seen)
    for one in seen:
        truth = int(one.forecast.made) + np.argmax(
            losses[int(one.forecast.made) :] < one.forecast.middle
        )
        assert one.earliest - 1 <= truth <= one.latest + 1
        assert one.inside == (one.forecast.low <= truth <= one.forecast.high)
        near = [k for k in kept if one.earliest - 1 <= k <= one.latest + 1]
        assert not one.vague or one.came == f"between {near[0]:,} and {near[1]:,}"
    assert record.mistakes(14_000) == []


def stored(folder, make, unmarked=()):
    """A checkpoint in the middle of a plateau, and the training that goes on from it."""
    x, y = data(dtype=torch.float32)
    model = network(dtype=torch.float32)
    optimizer = make(model.parameters())
    train(model, optimizer, x, y, 40)
    state = optimizer.state_dict()
    for name in unmarked:  # as of an older PyTorch
        del state["param_groups"][0][name]
    torch.save({"model": model.state_dict(), "optimizer": state}, folder / "step_40.pt")
    return folder / "step_40.pt", model, optimizer


def told_live(model, optimizer):
    x, y = data(dtype=torch.float32)
    for p in model.parameters():
        p.grad = None  # a file does not hold the last batch
    watch = Watch(model, nn.MSELoss(), probe=(x, y), optimizer=optimizer, widths=False)
    watch.go_to(40, watch.landscape.loss(watch.weights()))
    return watch.look()


def said(look):
    return look.state, look.chance, look.forecast


def told_afterwards(file, **options):
    from saddlewalk.watch.checkpoints import watch_checkpoints

    x, y = (part.numpy() for part in data(dtype=torch.float32))
    return watch_checkpoints([file], x, y, activation="linear", **options).looks[0]


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, 1e-3, momentum=0.9),
        lambda p: torch.optim.Adam(p, 1e-3),
        lambda p: torch.optim.AdamW(p, 1e-3, weight_decay=1.0),
        lambda p: torch.optim.NAdam(p, 1e-3),
        lambda p: torch.optim.RAdam(p, 1e-3),
        lambda p: torch.optim.RMSprop(p, 5e-4),
    ],
    ids=["sgd", "adam", "adamw", "nadam", "radam", "rmsprop"],
)
def test_a_stored_state_says_which_optimizer_it_is_of(make, tmp_path):
    """What is told from the file is what is told of the training itself; so with another rate."""
    file, model, optimizer = stored(tmp_path, make)
    own = said(told_afterwards(file))
    assert own == said(told_live(model, optimizer))
    first = optimizer.param_groups[0]["lr"]
    optimizer.param_groups[0]["lr"] = 2 * first
    faster = said(told_afterwards(file, rate=2 * first))
    assert faster == said(told_live(model, optimizer))
    assert faster != own
    assert State.UNKNOWN not in faster


@pytest.mark.parametrize(
    "make",
    [
        *(torch.optim.Adamax, torch.optim.Adagrad, torch.optim.Adadelta),
        *([torch.optim.Muon] if hasattr(torch.optim, "Muon") else []),  # newer ones have it
    ],
)
def test_a_stored_state_of_an_unknown_law_gives_no_forecast(make, tmp_path):
    file, *_ = stored(tmp_path, make)
    assert told_afterwards(file, rate=1e-3).state is State.UNKNOWN
    with pytest.raises(InputError, match="not known here, not of adam"):
        told_afterwards(file, optimizer="adam")


def test_a_stored_state_without_a_mark_is_taken_for_adam(tmp_path):
    make = lambda p: torch.optim.AdamW(p, 1e-3, weight_decay=1.0)  # noqa: E731
    file, model, optimizer = stored(tmp_path, make, ["decoupled_weight_decay"])
    with pytest.warns(UserWarning, match="adam or adamw: taken for adam"):
        guessed = told_afterwards(file)
    said = told_afterwards(file, optimizer="adamw")
    assert said.forecast == told_live(model, optimizer).forecast
    assert guessed.forecast != said.forecast


def test_options_that_a_stored_state_contradicts_are_refused(tmp_path):
    file, *_ = stored(tmp_path, torch.optim.Adam)
    for wrong in ({"optimizer": "sgd", "rate": 0.1}, {"optimizer": "radam"}, {"momentum": 0.9}):
        with pytest.raises(InputError, match=f"leave `{next(iter(wrong))}` out"):
            told_afterwards(file, **wrong)


def test_an_optimizer_that_is_named_needs_its_rate(tmp_path):
    file = tmp_path / "step_40.pt"
    torch.save(network(dtype=torch.float32).state_dict(), file)
    with pytest.raises(InputError, match="give `rate`"):
        told_afterwards(file, optimizer="adam")
    with pytest.raises(InputError, match="`momentum` belongs to sgd"):
        told_afterwards(file, optimizer="adam", rate=0.1, momentum=0.9)
    assert told_afterwards(file, optimizer="radam", rate=0.1).state is not State.UNKNOWN


def test_the_command_warns_of_duplicates(checkpoints, tmp_path, run):
    files = [str(checkpoints / f"step_{k}.pt") for k in (150, 300)]
    copy_of = tmp_path / "step_200.pt"
    copy_of.write_bytes((checkpoints / "step_150.pt").read_bytes())
    result = run(
        "watch",
        *files,
        str(copy_of),
        "--data",
        str(checkpoints / "data.npz"),
        "--activation",
        "linear",
        "--out",
        str(tmp_path / "out"),
        "--json",
    )
    assert result.exit_code == 0, result.stderr
    assert "holds the weights of the one before" in result.stderr
    assert [look["step"] for look in json.loads(result.stdout)["looks"]] == [150, 300]
    assert (tmp_path / "out" / "figure.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ([], "say with which activation"),
        (["--activation", "linear", "--optimizer", "lion", "--rate", "1"], "Unknown optimizer"),
        (["--activation", "linear", "--optimizer", "adam"], "leave --optimizer out"),
        (["--activation", "linear", "--loss", "cross-entropy"], "Labels|labels|one-hot"),
    ],
)
def test_the_command_refuses_with_a_sentence(checkpoints, run, extra, words):
    result = run(
        "watch", str(checkpoints / "step_150.pt"), "--data", str(checkpoints / "data.npz"), *extra
    )
    assert result.exit_code == 2
    import re

    assert re.search(words, result.stderr), result.stderr
