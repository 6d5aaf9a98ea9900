"""The watch on a GPU: compiled modules, mixed precision, a probe that is elsewhere; what it costs there.

For each training: its losses with and without the watch must be the same to the last bit, looks must come
within the budget, and the next drop where it was forecast. Without a GPU the same runs on the processor.
Writes watch_gpu.json beside this file, or in `--out`.
"""

import argparse
import json
import time
import warnings
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import nn

from saddlewalk.errors import InputError
from saddlewalk.torch import Watch

HERE = Path(__file__).parent
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WIDTH = 512 if DEVICE == "cuda" else 16
SAMPLES = 4096 if DEVICE == "cuda" else 128


def network():
    """Three modes, from a small start: three drops."""
    torch.manual_seed(0)
    x = torch.randn(SAMPLES, 32)
    y = x[:, :3] * torch.tensor([3.0, 1.8, 1.0])
    model = nn.Sequential(nn.Linear(32, WIDTH, bias=False), nn.Linear(WIDTH, 3, bias=False))
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(2e-3)
    return model.to(DEVICE), x.to(DEVICE), y.to(DEVICE)


def plain(loss, optimizer, _):
    loss.backward()
    optimizer.step()


def scaled(loss, optimizer, scaler):
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


TRAININGS = {
    "float32": {},
    "compiled": {"compiled": True},
    "bfloat16": {"cast": torch.bfloat16},
    "float16, scaled": {"cast": torch.float16, "update": scaled},
    "compiled, bfloat16": {"compiled": True, "cast": torch.bfloat16},
    "adamw, compiled, bfloat16": {"compiled": True, "cast": torch.bfloat16, "adaptive": True},
}


def train(steps, watched, compiled=False, cast=None, update=plain, adaptive=False, budget=0.05):
    """Losses of all steps, the watch, and seconds.

    Parameters
    ----------
    steps : how many.
    watched : with a watch.
    compiled, cast, update, adaptive : how it is trained.
    budget : what looks may take.
    """
    model, x, y = network()
    shown = torch.compile(model) if compiled else model
    optimizer = (
        torch.optim.AdamW(model.parameters(), 2e-4)
        if adaptive
        else torch.optim.SGD(model.parameters(), 5e-3)
    )
    loss, watch = nn.MSELoss(), None
    scaler = torch.amp.GradScaler(DEVICE) if update is scaled else None
    if watched:
        # arrays are brought to where the module is
        watch = Watch(
            shown,
            loss,
            probe=(x.cpu().numpy(), y.cpu().numpy()),
            optimizer=optimizer,
            budget=budget,
        )
    losses, began = [], time.perf_counter()
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast(DEVICE, cast) if cast else nullcontext():
            value = loss(shown(x), y)
        update(value, optimizer, scaler)
        losses.append(value.item())
        if watch is not None:
            watch.step(losses[-1])
    return losses, watch, time.perf_counter() - began


def measure(name, steps):
    """One training with and without, and what the watch said."""
    options = TRAININGS[name]
    train(20, False, **options)  # compile
    alone, _, seconds = train(steps, False, **options)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        beside, watch, with_it = train(steps, True, **options)
    share = watch.budget.share
    watch.look()
    outcomes = [one for one in watch.record.outcomes if one.happened == one.happened]
    return {
        "training": name,
        "device": torch.cuda.get_device_name() if DEVICE == "cuda" else "cpu",
        "steps": steps,
        "same losses": alone == beside,
        "seconds alone, with": [seconds, with_it],
        "share": share,
        "looks": len(watch.looks),
        "states": [str(look.state) for look in watch.looks],
        "forecasts": [[o.forecast.made, o.forecast.step, o.happened] for o in outcomes],
        "held": [sum(o.inside for o in outcomes), len(outcomes)],
        "warned": [str(one.message) for one in said],
        "sentence": str(watch),
    }


def elsewhere():
    """What is said of a probe on another device than the module's."""
    model, x, y = network()
    probe = (x.cpu(), y.cpu()) if DEVICE == "cuda" else (x.to("meta"), y.to("meta"))
    try:
        Watch(model, nn.MSELoss(), probe=probe)
    except InputError as refusal:
        return str(refusal)
    return "accepted"


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--steps", type=int, default=6000)
    options.add_argument("--out", type=Path, default=HERE, help="the folder")
    chosen = options.parse_args()
    known = {"probe on another device": elsewhere(), "trainings": []}
    for name in TRAININGS:
        try:
            known["trainings"].append(measure(name, chosen.steps))
        except Exception as error:  # the others are still of interest
            known["trainings"].append({"training": name, "failed": repr(error)})
        print(json.dumps(known["trainings"][-1])[:400], flush=True)
        (chosen.out / "watch_gpu.json").write_text(json.dumps(known, indent=1))


if __name__ == "__main__":
    main()
