"""The explorer in a real browser: size of its pages, how long they take to open, and how soon they answer.

Pages: the one without arguments, runs of modular addition and ReLU networks, and made-up stores of 1,000 and
10,000 cells with curves. Chromium, headless. Writes benchmarks/explorer.json and benchmarks/explorer.md.
"""

import json
import math
import os
import shutil
import statistics
import tempfile
from pathlib import Path

import numpy as np
import xarray as xr
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from saddlewalk.explore import default_networks, network_of_run, network_of_store, write_page
from saddlewalk.settings import Run

HERE = Path(__file__).parent
MARKS = {"open": 2000.0, "cursor": 50.0}
"""Milliseconds."""
SIZES = {"default": 3.0, "10,000 cells": 30.0}
"""Megabytes."""
MOVES, ROUNDS = 60, 3
_WORDS = """
Made by `benchmarks/explorer.py` in {version}, headless, without a GPU, beside other work (load {load:.0f}
on {cores} cores). Opening: from the request to the finished page, the best of three. Cursor: from a move
to the layout of all that it changes, and to the frame that shows it (the largest of {moves} moves in
brackets, in the best of three rounds; frames come every 16 ms). Slider: from the slider to the second
frame after it, with the flow integrated anew where it is live. Marks: 2 s to open, 50 ms for a cursor, 3
MB for the default page, 30 MB for 10,000 cells; the last column says which of them a page misses, "at
worst" if it is a single move of the cursor.
""".strip().replace("\n", " ")
CURSOR = """
const [moves, done] = arguments, { record } = saddlewalk.state, times = [], frames = [];
const step = (k) => {
  if (k === moves) return done([times, frames]);
  const begin = performance.now();
  saddlewalk.moveTo(Math.round((k + 0.5) / moves * (record.time.length - 1)));
  document.body.getBoundingClientRect();
  times.push(performance.now() - begin);
  requestAnimationFrame(() => { const port = new MessageChannel(); port.port1.onmessage = () => {
    frames.push(performance.now() - begin); step(k + 1); }; port.port2.postMessage(0); });
};
step(0);
"""
SLIDER = """
const input = document.getElementById(arguments[0]), done = arguments[1], times = [];
const [low, high] = [Number(input.min), Number(input.max)];
const step = (k) => {
  if (k === 20) return done(times);
  input.value = low + (high - low) * (k + 0.5) / 20;
  const begin = performance.now();
  input.dispatchEvent(new Event("input"));
  requestAnimationFrame(() => requestAnimationFrame(() => {
    times.push(performance.now() - begin);
    step(k + 1);
  }));
};
step(0);
"""


def store(cells):
    """A store as the measure `curves` fills it, of so many cells in a square."""
    side = round(cells**0.5)
    axes = {"scale": np.geomspace(1e-2, 1e-8, side), "data_seed": np.arange(side)}
    time = np.linspace(0, 30, 128) * np.ones((side, side, 1))
    loss = 5 / (1 + np.exp(time - 10)) + 2 / (
        1 + np.exp(time - 20 - np.arange(side)[:, None] / side)
    )
    grown = np.random.default_rng(0).normal(size=(side, side, 48, 12))
    values = {
        "curve_time": time,
        "curve_loss": loss,
        "stage_time": np.full((side, side, 24), np.nan),
        "stage_loss": np.full((side, side, 24), np.nan),
        "stage_simulated": np.full((side, side, 24), np.nan),
        "grown_time": np.linspace(0, 30, 48) * np.ones((side, side, 1)),
        "grown": grown,
        "time_error": np.abs(grown[:, :, 0, 0]),
        "stages_predicted": np.full((side, side), 2.0),
    }
    values["stage_time"][..., :2], values["stage_loss"][..., :2] = [10, 20], [2, 0]
    values["stage_simulated"][..., :2] = [10, 20.5]
    data = {
        name: ((*axes, *(f"{name}_{k}" for k in range(array.ndim - 2))), array)
        for name, array in values.items()
    }
    data["status"] = (tuple(axes), np.ones((side, side), dtype="int8"))
    data["error"] = (tuple(axes), np.full((side, side), "", dtype=object))
    fixed = {"setting": "diagonal"}
    return xr.Dataset(
        data, coords=axes, attrs={"measured": list(values), "fixed": fixed, "measure": "curves"}
    )


def pages():
    """Pages by name."""
    yield "default", default_networks()
    small = {"modular-addition": {"p": 7, "spectrum": "1:4,2:2"}, "relu": {}}
    for name, options in small.items():
        yield name, [network_of_run(Run.of(name, **options).compare(progress=False), name)]
    for words, cells in (("1,000 cells", 1024), ("10,000 cells", 10_000)):
        yield words, [network_of_store(store(cells), words)]


def browser(profile):
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        "--window-size=1366,768",
        f"--user-data-dir={profile}",
    ):
        options.add_argument(flag)
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


def measure(driver, file):
    """Of one page: its size, opening (the best of three), cursor moves and sliders of each network."""
    opened = []
    for _ in range(3):
        driver.get(file.as_uri())
        opened.append(
            driver.execute_script(
                "return performance.getEntriesByType('navigation')[0].domComplete"
            )
        )
    found = {"megabytes": file.stat().st_size / 1e6, "open_ms": min(opened), "networks": {}}
    for k in range(driver.execute_script("return saddlewalk.data_.networks.length")):
        driver.execute_script(f"saddlewalk.open({k})")
        rounds = [driver.execute_async_script(CURSOR, MOVES) for _ in range(ROUNDS)]
        drawn, frames = min(rounds, key=lambda one: max(one[0]))
        slider = driver.execute_script(
            "return document.querySelector('#sliders input')?.id || null"
        )
        moved = driver.execute_async_script(SLIDER, slider) if slider else [float("nan")]
        found["networks"][driver.execute_script(f"return saddlewalk.data_.networks[{k}].name")] = {
            "cursor_ms": statistics.median(drawn),
            "cursor_most_ms": max(drawn),
            "frame_ms": statistics.median(frames),
            "frame_most_ms": max(frames),
            "slider_ms": statistics.median(moved),
            "slider_most_ms": max(moved),
        }
    return found


def missed(page, one, numbers):
    """The marks that a page, or the cursor of one of its networks, misses; also in a single move."""
    if one["megabytes"] >= SIZES.get(page, math.inf):
        yield "too large"
    if one["open_ms"] >= MARKS["open"]:
        yield "opens late"
    if numbers["cursor_ms"] >= MARKS["cursor"]:
        yield "cursor late"
    elif numbers["cursor_most_ms"] >= MARKS["cursor"]:
        yield "cursor late at worst"


def table(found, version):
    lines = [
        "# The explorer in a browser",
        "",
        _WORDS.format(version=version, moves=MOVES, load=os.getloadavg()[1], cores=os.cpu_count()),
        "",
        "| page | MB | opens in ms | network | cursor ms | frame ms | slider ms | marks |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for page, one in found.items():
        for k, (name, numbers) in enumerate(one["networks"].items()):
            head = (
                f"| {page} | {one['megabytes']:.2f} | {one['open_ms']:.0f} |"
                if k == 0
                else "| | | |"
            )
            pairs = [
                f"{numbers[f'{what}_ms']:.1f} ({numbers[f'{what}_most_ms']:.1f})"
                if numbers[f"{what}_ms"] == numbers[f"{what}_ms"]
                else ""
                for what in ("cursor", "frame", "slider")
            ]
            verdict = "; ".join(missed(page, one, numbers)) or "kept"
            lines.append(f"{head} {name} | {' | '.join(pairs)} | {verdict} |")
    return "\n".join(lines) + "\n"


def main():
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        driver = browser(f"{folder}/profile")
        try:
            known = driver.capabilities
            version = f"Chromium {known['browserVersion']}"
            for name, networks in pages():
                file = write_page(networks, Path(folder) / "page.html")
                found[name] = measure(driver, file)
                print(name, json.dumps(found[name]), flush=True)
        finally:
            driver.quit()
    clean = json.loads(json.dumps(found).replace("NaN", "null"))
    (HERE / "explorer.json").write_text(json.dumps(clean, indent=1) + "\n")
    (HERE / "explorer.md").write_text(table(found, version))
    for name, one in found.items():
        for numbers in one["networks"].values():
            late = [words for words in missed(name, one, numbers) if "at worst" not in words]
            assert not late, (name, late)


if __name__ == "__main__":
    main()
