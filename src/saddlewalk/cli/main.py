"""The command line: one thin command a verb. JAX is imported only when a command computes."""

import json
from collections.abc import Callable
from typing import Any

import click

from saddlewalk import store
from saddlewalk.cli.papers import reproduce
from saddlewalk.cli.results import note, show, write_folder
from saddlewalk.cli.stored import diagnose_stored, refuse_foreign
from saddlewalk.cli.sweeps import sweep
from saddlewalk.errors import InputError
from saddlewalk.settings import SETTINGS, find_setting, make_problem

_INTERRUPTED = 130
_RUN_OPTIONS = ("solver", "learning_rate", "batch_size", "momentum", "max_time", "max_steps")


class _Main(click.Group):
    """Turns every InputError into one sentence on stderr and exit code 2."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except InputError as error:
            raise click.UsageError(str(error)) from error
        except OSError as error:
            raise click.UsageError(f"{error.strerror or error}: {error.filename}") from error
        except MemoryError as error:
            raise click.UsageError(
                "There is not enough memory for a problem of this size."
            ) from error


@click.group(cls=_Main, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="saddlewalk")
def main() -> None:
    """Which features a network learns, in which order and when, and the training run beside it.

    Start with:  saddlewalk compare diagonal --out results/first
    """


def _options(*groups: list[Callable]) -> Callable:
    def decorate(function: Callable) -> Callable:
        for option in reversed([option for group in groups for option in group]):
            function = option(function)
        return function

    return decorate


_COMMON = [
    click.argument("setting"),
    click.option(
        "--scale", type=float, help="Initialization scale alpha (default: the setting's own)."
    ),
    click.option(
        "--seed", type=int, default=0, show_default=True, help="Seed of the initialization."
    ),
    click.option(
        "--data",
        type=click.Path(),
        help="Own data: .npz (X, y; Sigma_xx, Sigma_yx; x for modular addition) or .csv (target last).",
    ),
    click.option("--images", help="Images as data: mnist or cifar10, --samples of them."),
    click.option("--width", type=int, help="Number of units."),
    click.option("--samples", type=int, help="Samples of made data."),
    click.option("--dim", type=int, help="Inputs of made data."),
    click.option("--outputs", type=int, help="Outputs of made data."),
    click.option("--features", type=int, help="Directions hidden in made data."),
    click.option("--decay", type=float, help="Input eigenvalues fall like k^-decay."),
    click.option("--commuting", is_flag=True, default=None, help="Input axes as those of the map."),
    click.option("--eigenvalues", help="Of the tokens' covariance: 4,2,1."),
    click.option("--context", type=int, help="Examples before the query."),
    click.option("--sequences", type=int, help="Sampled sequences instead of the population."),
    click.option("--p", type=int, help="Modulus."),
    click.option("--spectrum", help="Fourier spectrum of the encoding: 1:10,3:5,5:2.5."),
    click.option("--activation", help="Activation of a two-layer network."),
    click.option("--sparsity", type=int, help="Nonzero coefficients of made data."),
    click.option("--noise", type=float, help="Noise in the targets of made data."),
    click.option(
        "--correlation", type=float, help="Correlation of neighboring inputs of made data."
    ),
    click.option("--data-seed", type=int, help="Seed of made data."),
    click.option(
        "--adaptive",
        is_flag=True,
        help="For each unit the learning rate norm^(2-kappa) of its own (degrees kappa above 2).",
    ),
    click.option("--out", type=click.Path(), help="Folder for result, figure and configuration."),
    click.option("--force", is_flag=True, help="Replace the folder if it exists."),
    click.option(
        "--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else."
    ),
]
_START_OPTIONS = ("delta", "alpha", "tau")
_START = [
    click.option(
        "--delta",
        type=float,
        help="Balance of each unit at the start: > 0 upstream (first layer learns faster), < 0 downstream.",
    ),
    click.option(
        "--alpha",
        type=float,
        help="Or: first layer over alpha, last layer times alpha (to the degree).",
    ),
    click.option(
        "--tau",
        type=float,
        help="Overall scale, instead of --scale: a unit's two norms multiply to tau^2.",
    ),
]
_METHOD = [
    click.option(
        "--method",
        default="auto",
        show_default=True,
        help="How to predict: auto, or what `saddlewalk settings` lists.",
    )
]
_RUN = [
    click.option(
        "--solver",
        default="auto",
        show_default=True,
        help="auto | explicit | implicit | stabilized (gradient flow) | descent | sgd.",
    ),
    click.option("--learning-rate", type=float, help="For descent, sgd (default 0.01)."),
    click.option("--batch-size", type=int, help="For sgd (default 32)."),
    click.option("--momentum", type=float, help="For descent, sgd (default 0)."),
    click.option("--max-time", type=float, default=float("inf"), help="Stop at this time."),
    click.option(
        "--max-steps",
        type=int,
        default=1_000_000,
        show_default=True,
        help="Stop after these steps.",
    ),
]


@main.command()
@_options(_COMMON, _START, _METHOD)
def predict(**options: Any) -> None:
    """Predict the staircase of SETTING without training."""
    task, units, common = _prepare(options)
    stairs = _foresee(task, units, common)
    _finish(stairs, {**stairs.to_json(), "setting": common["setting"]}, common)


@main.command()
@_options(_COMMON, _START, _RUN)
def train(**options: Any) -> None:
    """Simulate SETTING: gradient flow from a small start, or finite steps."""

    task, units, common = _prepare(options)
    path = _simulate(task, units, common)
    stages = path.stages
    record = path.to_json()
    _finish(path, {**record, "setting": common["setting"]}, common)
    if not common["as_json"]:
        for stage in stages:
            units = " ".join(map(str, stage.units)) or "none alone"
            click.echo(
                f"stage at time {stage.time:.5g}: loss falls to {stage.loss:.5g}, unit on: {units}"
            )
    _exit_if_interrupted(path)


@main.command()
@_options(_COMMON, _START, _METHOD, _RUN)
def compare(**options: Any) -> None:
    """Predict SETTING, simulate it, lay one over the other, and say how well they agree."""
    import saddlewalk as sw

    task, units, common = _prepare(options)
    stairs = _foresee(task, units, common)
    path = _simulate(task, units, common)
    agreement = sw.compare(stairs, path)
    record = agreement.to_json()
    for part in ("predicted", "observed"):
        record[part]["setting"] = common["setting"]
    _finish(agreement, record, common)
    _exit_if_interrupted(path)


@main.command()
@_options(_COMMON, _START, _RUN)
@click.option("--regime", is_flag=True, help="Lazy or rich, instead of plateaus, and why.")
@click.option(
    "--loss",
    default="mse",
    show_default=True,
    help="Of a .pt file: mse (mean over outputs), half-mse (half their sum), cross-entropy (labels).",
)
@click.option(
    "--weight-decay", type=float, help="With which the network of a .pt file was trained."
)
@click.option("--image", help="Shape of one input of a .pt file's data, as 28,28 or 3,32,32.")
def diagnose(
    regime: bool, loss: str, weight_decay: float | None, image: str | None, **options: Any
) -> None:
    """Simulate SETTING and name its plateaus: duration, loss, effective width, kind of point.

    With --regime: whether learning was lazy, rich or delayed rich, by the tangent kernel, and whether the
    start was upstream, balanced or downstream, by the conserved quantities.

    If SETTING is a file NET.pt with a trained PyTorch network (the state_dict of a fully connected one, or an
    nn.Sequential of PyTorch's own layers): whether its layers satisfy the Features At Convergence Theorem on
    --data, with --activation, --loss, --weight-decay. Inputs that are images (--image) show features as such.
    """
    stored = options["setting"].endswith((".pt", ".pth", ".ckpt", ".bin"))
    refuse_foreign(stored)
    if stored:
        diagnose_stored(options, loss, weight_decay, image)
        return
    import saddlewalk as sw

    task, units, common = _prepare(options)
    path = _simulate(task, units, common)
    problem = sw.Problem(task, units, adaptive=common["adaptive"])
    look = sw.diagnose.find_regime if regime else sw.diagnose.find_phases
    found: Any = look(path, problem)
    _finish(found, {**found.to_json(), "setting": common["setting"]}, common)
    _exit_if_interrupted(path)


@main.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else.")
def settings(as_json: bool) -> None:
    """List the settings, their options and methods."""
    if as_json:
        record = {
            name: {
                "summary": s.summary,
                "methods": list(s.methods),
                "scale": s.scale,
                "options": s.options,
            }
            for name, s in SETTINGS.items()
        }
        click.echo(json.dumps(record))
        return
    for name, setting in SETTINGS.items():
        click.echo(f"{name}: {setting.summary}")
        click.echo(f"  --method {' | '.join(setting.methods)}")
        click.echo(f"  --scale (default {setting.scale:g})")
        for option, default in setting.options.items():
            shown = "" if default is None else f" (default {default})"
            click.echo(f"  --{option.replace('_', '-')}{shown}")


main.add_command(reproduce)
main.add_command(sweep)


def _prepare(options: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """Task, units, and the options that are not about the data; cheap checks come first."""
    common = {
        name: options[name]
        for name in ("setting", "scale", "seed", "adaptive", "out", "force", "as_json")
    }
    setting = find_setting(common["setting"])
    if common["scale"] is None:
        common["scale"] = setting.scale
    if common["out"] is not None:
        store.check_folder_free(common["out"], common["force"])
    common["method"] = options.get("method")
    common["run"] = {name: options[name] for name in _RUN_OPTIONS if name in options}
    taken = {*common, *_RUN_OPTIONS, *_START_OPTIONS}
    about_data = {k: v for k, v in options.items() if k not in taken and v is not None}
    task, units, common["task"] = make_problem(common["setting"], about_data)
    given = {name: options[name] for name in _START_OPTIONS if options[name] is not None}
    common["start"] = _balanced_start(task, units, common, given) if given else None
    common["task"] |= given
    return task, units, common


def _balanced_start(task: Any, units: Any, common: dict[str, Any], given: dict[str, float]) -> Any:
    """The start of this scale and seed, with the scale and balance that were asked for."""
    import saddlewalk as sw
    from saddlewalk.balance import rescaled

    problem = sw.Problem(task, units, adaptive=common["adaptive"])
    with sw.float64():
        return rescaled(problem, problem.initialize(common["scale"], common["seed"]), **given)


def _foresee(task: Any, units: Any, common: dict[str, Any]) -> Any:
    import saddlewalk as sw

    limits = {name: common["run"][name] for name in ("max_time",) if name in common["run"]}
    start = common["scale"], common["seed"], common["method"]
    return sw.predict(
        task, units, *start, adaptive=common["adaptive"], start=common["start"], **limits
    )


def _simulate(task: Any, units: Any, common: dict[str, Any]) -> Any:
    import saddlewalk as sw

    how = {"adaptive": common["adaptive"], "start": common["start"], **common["run"]}
    return sw.train(task, units, common["scale"], common["seed"], **how)


def _finish(result: Any, record: dict[str, Any], common: dict[str, Any]) -> None:
    show(result, record, common["as_json"])
    if common["out"] is not None:
        run = {k: v for k, v in common["run"].items() if v != float("inf")}
        names = ("setting", "scale", "seed", "adaptive", "method")
        config = {**{name: common[name] for name in names}, **common["task"], **run}
        write_folder(common["out"], common["force"], result, record, config)


def _exit_if_interrupted(path: Any) -> None:
    if path.stopped == "interrupted":
        note("interrupted: the result is the part that was computed")
        raise SystemExit(_INTERRUPTED)
