"""Sweeps that are disturbed: workers and clients killed, a full disk, Ctrl-C, other schedulers."""

import math
import os
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import xarray as xr

from saddlewalk.sweep import grid, sweep
from saddlewalk.sweep.results import open_results

FAULTS = grid({"width": [float(k) for k in range(1, 25)], "height": [1, 2]}, scale=0.1)
SLOW = """
import os, sys, time
from pathlib import Path
from saddlewalk.sweep import grid, sweep

def slow(width, height, scale, pids):
    Path(pids, str(os.getpid())).touch()
    with Path(pids).with_name("calls").open("a") as calls:
        calls.write("call ")
    time.sleep(0.05)
    return {"root": (scale * width * height) ** 0.5}

if __name__ == "__main__":
    plan = grid({"width": [float(k) for k in range(1, 25)], "height": [1, 2]}, scale=0.1, pids=sys.argv[2])
    sweep(slow, plan, sys.argv[1], workers=int(sys.argv[3]) if len(sys.argv) > 3 else None)
"""


@pytest.fixture(scope="module")
def slow_script(tmp_path_factory):
    """A sweep in a process of its own, and what it finds when nobody disturbs it."""
    folder = tmp_path_factory.mktemp("slow")
    script = folder / "slow.py"
    script.write_text(SLOW)
    (folder / "pids").mkdir()
    subprocess.run(
        [sys.executable, script, folder / "quiet.zarr", folder / "pids"],
        check=True,
        env=ENVIRONMENT,
    )
    return script, open_results(folder / "quiet.zarr").load()


ENVIRONMENT = os.environ | {"JAX_PLATFORMS": "cpu"}


def start(script, folder, *arguments):
    (folder / "pids").mkdir(exist_ok=True)
    command = [sys.executable, script, folder / "s.zarr", folder / "pids", *arguments]
    return subprocess.Popen(
        [str(part) for part in command], env=ENVIRONMENT, stderr=subprocess.DEVNULL
    )


def done_in(store):
    try:
        return int((open_results(store)["status"] == 1).sum())
    except Exception:
        return 0


def test_what_is_finished_is_written_while_the_next_cell_runs(tmp_path):
    """Two quick cells and one that takes long: the second does not wait for the third."""
    seen = []

    def slow_end(width):
        if width == 3:
            wait_until(lambda: done_in(tmp_path / "s.zarr") == 2, 20)
            seen.append(True)
        return {"root": width}

    sweep(slow_end, grid({"width": [1, 2, 3]}), tmp_path / "s.zarr")
    assert seen == [True]


def wait_until(true, seconds=60):
    for _ in range(20 * seconds):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError("waited in vain")


def assert_same(folder, quiet):
    found = open_results(folder / "s.zarr").load()
    np.testing.assert_array_equal(found["root"], quiet["root"])
    np.testing.assert_array_equal(found["status"], quiet["status"])


def test_workers_that_are_killed(slow_script, tmp_path):
    script, quiet = slow_script
    running = start(script, tmp_path, "2")
    wait_until(lambda: done_in(tmp_path / "s.zarr") >= 4)
    for pid in [int(file.name) for file in (tmp_path / "pids").iterdir()]:
        os.kill(pid, signal.SIGKILL)
    assert running.wait(timeout=120) == 0
    assert len(list((tmp_path / "pids").iterdir())) > 2  # others took their place
    assert_same(tmp_path, quiet)


@pytest.mark.parametrize("workers", [(), ("2",)])
def test_a_client_that_is_killed(slow_script, tmp_path, workers):
    script, quiet = slow_script
    running = start(script, tmp_path, *workers)
    wait_until(lambda: done_in(tmp_path / "s.zarr") >= 4)
    running.kill()
    running.wait()
    before = done_in(tmp_path / "s.zarr")
    assert 4 <= before < len(FAULTS)
    (tmp_path / "calls").unlink()
    assert start(script, tmp_path, *workers).wait(timeout=120) == 0
    assert_same(tmp_path, quiet)
    # nothing that was done is done again
    assert len((tmp_path / "calls").read_text().split()) == len(FAULTS) - before


def test_a_scheduler_that_runs_already(tmp_path):
    """Cells that raise and that give NaN, on workers that someone else started."""
    from distributed import LocalCluster

    plan = grid({"width": [0.0, 1.0, 2.0, 3.0], "height": [1, 2]})
    quiet = sweep(touchy, plan, tmp_path / "quiet.zarr").load()
    with LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster:
        found = sweep(touchy, plan, tmp_path / "s.zarr", scheduler=cluster.scheduler_address).load()
    xr.testing.assert_identical(found.drop_attrs(), quiet.drop_attrs())
    assert found["status"].values.tolist() == [[1, 1], [2, 2], [1, 1], [1, 1]]
    assert np.isnan(found["root"].values[0]).all()
    assert found["error"].values[1, 0] == "ValueError: I do not like 1.0"


def touchy(width, height):
    if width == 1.0:
        raise ValueError(f"I do not like {width}")
    return {"root": math.nan if width == 0 else math.sqrt(width * height)}


def environment_of(worker_number):
    return {"gpu": float(os.environ.get("CUDA_VISIBLE_DEVICES", "-1"))}


def test_workers_get_a_gpu_each(monkeypatch, tmp_path):
    """As if the machine had two: this test needs none."""
    monkeypatch.setattr("saddlewalk.sweep.engines.visible_gpus", lambda: ["0", "1"])
    plan = grid({"worker_number": list(range(16))})
    found = sweep(environment_of, plan, tmp_path / "s.zarr", workers=2)
    assert set(found["gpu"].values.tolist()) == {0.0, 1.0}


FULL_DISK = """
import sys
from saddlewalk.sweep import grid, sweep

def noisy(number):
    # numbers that do not compress, so that the store grows
    return {f"digit {k}": (number + 1) ** 0.5 * k**0.5 % 1 for k in range(1, 9)}

if __name__ == "__main__":
    sweep(noisy, grid({"number": list(range(4000))}), sys.argv[1])
"""


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 200 kB, and how to enlarge it; where nothing can be mounted, files of at most 30 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(disk)]
    mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    crowded = {} if mounted else {"preexec_fn": allow_small_files}

    def enlarge():
        if mounted:
            subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)

    yield disk, crowded, enlarge
    if mounted:
        subprocess.run(["umount", str(disk)], check=True)


def allow_small_files():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))


def test_a_full_disk(small_disk, tmp_path):
    """What is done before a disk is full stays, and the run goes on when there is room."""
    disk, crowded, enlarge = small_disk
    script = tmp_path / "full.py"
    script.write_text(FULL_DISK)

    def run(store, **limits):
        command = [sys.executable, str(script), str(store)]
        return subprocess.run(command, capture_output=True, text=True, check=False, **limits)

    failed = run(disk / "s.zarr", **crowded)
    assert failed.returncode != 0
    assert "What was done before is kept" in failed.stderr
    before = open_results(disk / "s.zarr").load()
    done = (before["status"] == 1).values
    assert 0 < done.sum() < 4000
    enlarge()
    assert run(disk / "s.zarr").returncode == 0
    assert run(tmp_path / "quiet.zarr").returncode == 0
    found, quiet = (open_results(p).load() for p in (disk / "s.zarr", tmp_path / "quiet.zarr"))
    xr.testing.assert_identical(found.drop_attrs(), quiet.drop_attrs())
    np.testing.assert_array_equal(before["digit 3"].values[done], quiet["digit 3"].values[done])


def test_ctrl_c_is_no_result(tmp_path):
    """A measure that answers Ctrl-C with half of its work, as `train` does, is not called done."""

    def half(width):
        try:
            if width == 2.0:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(10)
        except KeyboardInterrupt:
            return {"root": -1.0}
        return {"root": width}

    plan = grid({"width": [1.0, 2.0, 3.0]})
    with pytest.raises(KeyboardInterrupt):
        sweep(half, plan, tmp_path / "s.zarr")
    assert open_results(tmp_path / "s.zarr")["status"].values.tolist() == [1, 0, 0]
