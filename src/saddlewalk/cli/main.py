"""The command line: one thin command a verb. JAX is imported only when a command computes."""

import json
import os
import platform
from pathlib import Path
from typing import Any

import click

from saddlewalk.cli.exploring import explore
from saddlewalk.cli.options import flag_of, in_flags, run_from_flags, takes_run
from saddlewalk.cli.papers import reproduce
from saddlewalk.cli.results import note, reserve_folder, show, write_folder
from saddlewalk.cli.stored import diagnose_stored, refuse_foreign
from saddlewalk.cli.sweeps import sweep
from saddlewalk.cli.watching import watch
from saddlewalk.errors import InputError
from saddlewalk.interrupts import INTERRUPTED
from saddlewalk.settings.catalog import SETTINGS
from saddlewalk.settings.run import Run

_OF_OPTIMIZERS = {
    "--weight-decay": "adamw:weight_decay=0.1",
    "--beta1": "adam:beta1=0.9",
    "--beta2": "adam:beta2=0.99",
    "--epsilon": "adam:epsilon=1e-8",
    "--nesterov": "momentum:nesterov=true",
    "--newton-schulz": "muon:newton_schulz=0",
}
"""Numbers of an optimizer stand after its name."""
_FAILED = 1
"""Exit code of a computation that came to nothing; wrong input has 2."""


class _Main(click.Group):
    """Turns every InputError into one sentence on stderr and exit code 2, and Ctrl-C into one word."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except InputError as error:
            raise click.UsageError(in_flags(str(error))) from error
        except click.NoSuchOption as error:
            options = [] if error.ctx is None else error.ctx.command.params
            takes = any(option.name == "learning_rate" for option in options)
            if error.option_name not in _OF_OPTIMIZERS or not takes:
                raise
            raise click.UsageError(
                f"'{error.option_name}' is a number of the optimizer and stands after its name, as in "
                f"--optimizer {_OF_OPTIMIZERS[error.option_name]}."
            ) from error
        except KeyboardInterrupt:
            note("interrupted")
            raise SystemExit(INTERRUPTED) from None
        except BrokenPipeError:
            raise  # whoever read has read enough: click ends without a word
        except OSError as error:
            words = error.strerror or str(error) or type(error).__name__
            where = f": {error.filename}" if error.filename is not None else "."
            raise click.UsageError(words + where) from error
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
    _keep_programs()


def _keep_programs() -> None:
    """Let JAX keep what it compiles, so that the next command need not; it is imported later.

    Each machine has a folder of its own, since programs are made for its processor. Whoever has set JAX's own
    variable is left alone; an empty one keeps nothing.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "saddlewalk"
    wanted = {
        "JAX_COMPILATION_CACHE_DIR": str(cache / "programs" / platform.node()),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.02",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        os.environ.update(wanted)


@main.command()
@takes_run(predicts=True)
def predict(setting: str, out: str | None, force: bool, as_json: bool, **options: Any) -> None:
    """Predict the staircase of SETTING without training."""
    run = _prepared(setting, options, out, force)
    stairs = run.predict()
    _finish(stairs, {**stairs.to_json(), "setting": setting}, run, out, force, as_json)


@main.command()
@takes_run(trains=True)
def train(setting: str, out: str | None, force: bool, as_json: bool, **options: Any) -> None:
    """Simulate SETTING: gradient flow from a small start, or finite steps."""
    run = _prepared(setting, options, out, force)
    from saddlewalk.curves.stages import inputs_named, mode_name

    path = run.train()
    _finish(path, {**path.to_json(), "setting": setting}, run, out, force, as_json)
    if not as_json:
        for stage in path.stages:
            units = " ".join(map(str, stage.units)) or "none alone"
            named = mode_name(stage.feature) or inputs_named(stage.feature)
            click.echo(
                f"stage at time {stage.time:.5g}: loss falls to {stage.loss:.5g}, unit on: {units}"
                + (f" ({named})" if named else "")
            )
        _warn_of_steps(path)
    _exit_if_cut_short(path)


@main.command()
@takes_run(predicts=True, trains=True)
def compare(setting: str, out: str | None, force: bool, as_json: bool, **options: Any) -> None:
    """Predict SETTING, simulate it, lay one over the other, and say how well they agree."""
    run = _prepared(setting, options, out, force)
    agreement = run.compare()
    record = agreement.to_json()
    for part in ("predicted", "observed"):
        record[part]["setting"] = setting
    _finish(agreement, record, run, out, force, as_json)
    _exit_if_cut_short(agreement.observed)


@main.command()
@takes_run(trains=True)
@click.option("--regime", is_flag=True, help="Lazy or rich, instead of plateaus, and why.")
@click.option(
    "--weight-decay", type=float, help="With which the network of a .pt file was trained."
)
@click.option("--image", help="Shape of one input of a .pt file's data, as 28,28 or 3,32,32.")
def diagnose(
    setting: str,
    out: str | None,
    force: bool,
    as_json: bool,
    regime: bool,
    weight_decay: float | None,
    image: str | None,
    **options: Any,
) -> None:
    """Simulate SETTING and name its plateaus: duration, loss, effective width, kind of point.

    With --regime: whether learning was lazy, rich or delayed rich, by the tangent kernel, and whether the
    start was upstream, balanced or downstream, by the conserved quantities.

    If SETTING is a file NET.pt with a trained PyTorch network (the state_dict of a fully connected one, or an
    nn.Sequential of PyTorch's own layers): whether its layers satisfy the Features At Convergence Theorem on
    --data, with --activation, --loss (mse, the mean over outputs, by default), --weight-decay. Inputs that
    are images (--image) show features as such.
    """
    stored = setting.endswith((".pt", ".pth", ".ckpt", ".bin"))
    refuse_foreign(stored)
    if stored:
        where = {"setting": setting, "out": out, "force": force, "as_json": as_json}
        loss = options.pop("loss") or "mse"
        diagnose_stored({**options, **where}, loss, weight_decay, image)
        return
    from saddlewalk.diagnose import find_phases, find_regime

    run = _prepared(setting, options, out, force)
    path = run.train()
    found: Any = find_regime(path) if regime else find_phases(path)
    _finish(found, {**found.to_json(), "setting": setting}, run, out, force, as_json, path)
    _exit_if_cut_short(path)


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
            click.echo(f"  {flag_of(option)}{shown}")


main.add_command(explore)
main.add_command(reproduce)
main.add_command(sweep)
main.add_command(watch)


def _prepared(setting: str, options: dict[str, Any], out: str | None, force: bool) -> Run:
    """The run, with everything checked that can be checked before computing."""
    run = run_from_flags(setting, options)
    if out is not None:
        reserve_folder(out, force)
    return run


def _finish(
    result: Any,
    record: dict[str, Any],
    run: Run,
    out: str | None,
    force: bool,
    as_json: bool,
    seen: Any = None,
) -> None:
    """Show a result and keep it, with a page of the run that is `seen` in it (itself by default)."""
    show(result, record, as_json)
    if out is not None:
        write_folder(out, force, result, record, run.to_json(), result if seen is None else seen)


def _exit_if_cut_short(path: Any) -> None:
    """Say by the exit code, too, that a training did not come to its end."""
    if path.stopped == "interrupted":
        note("interrupted: the result is the part that was computed")
        raise SystemExit(INTERRUPTED)
    if path.stopped == "diverged":
        note(
            "diverged: the result ends where the loss became infinite; take a smaller --learning-rate "
            "(a prediction for descent or momentum says the largest stable one)"
        )
        raise SystemExit(_FAILED)


def _warn_of_steps(path: Any) -> None:
    """Say on stderr that steps were too large for where they went."""
    from saddlewalk.diagnose import find_stability

    if path.info["solver"] == "descent" and path.stopped != "diverged":
        found = find_stability(path)
        for line in found.parts()[1:] if found.edge is not None else ():
            note(str(line))
