"""A watch as a callback: Lightning and the Trainer of Hugging Face, each with its own library."""

from typing import Any

from saddlewalk.errors import import_extra
from saddlewalk.watch.torch import Watch


def lightning_watch(loss: Any, *, probe: Any, part: str = "", **options: Any) -> Any:
    """A Lightning callback that watches the training; its attribute `watch` is the watch.

    A step is one of the optimizer, of however many batches. Scheduler, clipping and the number of samples
    are those of the trainer. Numbers of each look go to its loggers as "watch/...".

    Parameters
    ----------
    loss : loss(outputs, targets), the one that is trained.
    probe : some of the training data, `(inputs, targets)`.
    part : name of the submodule that answers to the inputs; by default the whole module.
    **options : more of `Watch`: budget, widths, page, title, held_out; schedule, samples, clip where those of
        the trainer are not meant.
    """
    base: Any = import_extra("lightning.pytorch", "Callbacks for Lightning", "lightning").Callback

    class WatchCallback(base):
        watch: Any = None

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            optimizer = trainer.optimizers[0] if trainer.optimizers else None
            model = pl_module.get_submodule(part)
            known = {
                "samples": _samples(trainer.train_dataloader, probe),
                "schedule": _step_schedule(trainer),
                "clip": _clip(trainer),
                **options,
            }
            self.watch = Watch(model, loss, probe=probe, optimizer=optimizer, **known)
            self._made: int = trainer.global_step
            self._losses: list[float] = []

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            value = outputs["loss"] if isinstance(outputs, dict) else outputs
            if self.watch is None or value is None:
                return
            # Lightning divides the loss by the batches that make a step
            self._losses.append(trainer.accumulate_grad_batches * float(value))
            if trainer.global_step == self._made:
                return
            look = self.watch.step(sum(self._losses) / len(self._losses))
            self._made, self._losses = trainer.global_step, []
            if look is not None:
                pl_module.log_dict(self.watch.numbers())

    return WatchCallback()


def trainer_watch(loss: Any, *, probe: Any, **options: Any) -> Any:
    """A callback for the Trainer of Hugging Face; its attribute `watch` is the watch.

    Scheduler, clipping and the number of samples are those of the Trainer. It reports losses every
    `logging_steps`: in between the last one counts.

    Parameters
    ----------
    loss : loss(outputs, targets), the one that is trained.
    probe : some of the training data, `(inputs, targets)`; inputs by name are a dictionary.
    **options : more of `Watch`: budget, widths, page, title, held_out; schedule, samples, clip where those of
        the Trainer are not meant.
    """
    library: Any = import_extra("transformers", "Callbacks for the Trainer", "huggingface")

    class WatchCallback(library.TrainerCallback):
        watch: Any = None
        _last = float("nan")

        def on_train_begin(self, args: Any, state: Any, control: Any, **known: Any) -> None:
            scheduler = known.get("lr_scheduler")
            told = {
                "samples": _samples(known.get("train_dataloader"), probe),
                "schedule": getattr(scheduler, "scheduler", scheduler),  # Accelerate wraps it
                "clip": args.max_grad_norm or None,
                **options,
            }
            self.watch = Watch(
                known["model"], loss, probe=probe, optimizer=known.get("optimizer"), **told
            )
            self._last = self.watch.landscape.loss(self.watch.weights())

        def on_log(
            self, args: Any, state: Any, control: Any, logs: Any = None, **known: Any
        ) -> None:
            self._last = float((logs or {}).get("loss", self._last))

        def on_step_end(self, args: Any, state: Any, control: Any, **known: Any) -> None:
            if self.watch is not None:
                self.watch.step(self._last)

    return WatchCallback()


def _step_schedule(trainer: Any) -> Any:
    """The scheduler of a Lightning trainer that is stepped at each step of the optimizer."""
    configs = trainer.lr_scheduler_configs
    if len(configs) != 1 or configs[0].interval != "step" or configs[0].frequency != 1:
        return None
    return configs[0].scheduler


def _clip(trainer: Any) -> float | None:
    """The length to which a Lightning trainer clips gradients; clipping of each number is not followed."""
    by_length = trainer.gradient_clip_algorithm in (None, "norm")
    return trainer.gradient_clip_val or None if by_length else None


def _samples(loader: Any, probe: Any) -> int | None:
    """How many samples a loader goes through, where it says so and they may be those of the probe."""
    try:
        count = len(loader.dataset)
        return count if count >= len(probe[1]) else None
    except (AttributeError, TypeError):  # several loaders, or data without an end
        return None
