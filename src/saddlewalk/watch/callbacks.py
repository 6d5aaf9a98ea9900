"""A watch as a callback: Lightning and the Trainer of Hugging Face, each with its own library."""

from typing import Any

from saddlewalk.errors import import_extra
from saddlewalk.watch.torch import Watch


def lightning_watch(loss: Any, *, probe: Any, part: str = "", **options: Any) -> Any:
    """A Lightning callback that watches the training; its attribute `watch` is the watch.

    Numbers of each look go to the trainer's loggers as "watch/...".

    Parameters
    ----------
    loss : loss(outputs, targets), the one that is trained.
    probe : some of the training data, `(inputs, targets)`.
    part : name of the submodule that answers to the inputs; by default the whole module.
    **options : more of `Watch`: budget, widths, page, title, schedule, samples, clip,
        held_out.
    """
    base: Any = import_extra("lightning.pytorch", "Callbacks for Lightning", "lightning").Callback

    class WatchCallback(base):
        watch: Any = None

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            optimizer = trainer.optimizers[0] if trainer.optimizers else None
            model = pl_module.get_submodule(part)
            known = {"samples": _samples(trainer.train_dataloader, probe), **options}
            self.watch = Watch(model, loss, probe=probe, optimizer=optimizer, **known)

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            value = outputs["loss"] if isinstance(outputs, dict) else outputs
            look = None if self.watch is None or value is None else self.watch.step(value)
            if look is not None:
                pl_module.log_dict(self.watch.numbers())

    return WatchCallback()


def trainer_watch(loss: Any, *, probe: Any, **options: Any) -> Any:
    """A callback for the Trainer of Hugging Face; its attribute `watch` is the watch.

    The Trainer reports losses every `logging_steps`: in between the last one counts.

    Parameters
    ----------
    loss : loss(outputs, targets), the one that is trained.
    probe : some of the training data, `(inputs, targets)`; inputs by name are a dictionary.
    **options : more of `Watch`: budget, widths, page, title, schedule, samples, clip,
        held_out.
    """
    library: Any = import_extra("transformers", "Callbacks for the Trainer", "huggingface")

    class WatchCallback(library.TrainerCallback):
        watch: Any = None
        _last = float("nan")

        def on_train_begin(self, args: Any, state: Any, control: Any, **known: Any) -> None:
            told = {"samples": _samples(known.get("train_dataloader"), probe), **options}
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


def _samples(loader: Any, probe: Any) -> int | None:
    """How many samples a loader goes through, where it says so and they may be those of the probe."""
    try:
        count = len(loader.dataset)
        return count if count >= len(probe[1]) else None
    except (AttributeError, TypeError):  # several loaders, or data without an end
        return None
