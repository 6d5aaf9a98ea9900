"""Staircases, trajectories and agreements: numbers, files, pictures, and how they fail."""

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

import saddlewalk as sw
from saddlewalk import store
from saddlewalk.losses import AbstractLoss
from saddlewalk.show.draw import new_figure

UNITS = sw.units.Diagonal()


@pytest.fixture(scope="module")
def agreement(fig3, fig3_paths):
    return sw.compare(sw.predict(fig3, UNITS, 1e-12, method="closed"), fig3_paths[1e-12])


def test_agreement_numbers(agreement):
    assert agreement.order
    assert len(agreement.stages_observed) == 5
    assert max(agreement.time_error) < 0.06
    assert max(agreement.level_error) < 1e-3
    seen, predicted = np.array(agreement.jump_times), np.array(agreement.predicted.jump_times)
    np.testing.assert_allclose(agreement.time_error, np.abs(predicted - seen) / seen)


def test_a_wrong_order_is_noticed(agreement):
    stairs = agreement.predicted
    first, second = stairs.stages[0], stairs.stages[1]
    swapped = (
        dataclasses.replace(first, units=second.units),
        dataclasses.replace(second, units=first.units),
        *stairs.stages[2:],
    )
    wrong = sw.compare(dataclasses.replace(stairs, stages=swapped), agreement.observed)
    assert not wrong.order


def test_a_wrong_time_and_level_are_noticed(agreement):
    stairs = agreement.predicted
    stages = tuple(
        dataclasses.replace(s, time=2 * s.time, loss=s.loss + 1e-3 * stairs.initial_loss)
        for s in stairs.stages
    )
    wrong = sw.compare(dataclasses.replace(stairs, stages=stages), agreement.observed)
    assert min(wrong.time_error) > 0.5
    assert min(wrong.level_error) > 0.9e-3


def test_level_errors_are_relative_to_the_level_too(agreement):
    stairs = agreement.predicted
    level = agreement.loss_levels[3]
    stages = [*stairs.stages]
    stages[3] = dataclasses.replace(stages[3], loss=1.3 * level)
    wrong = sw.compare(dataclasses.replace(stairs, stages=tuple(stages)), agreement.observed)
    np.testing.assert_allclose(wrong.level_error_relative[3], 0.3, rtol=0.01)
    assert wrong.level_error[3] < 0.05
    assert "of level" in str(wrong)
    # two levels of nothing are not compared; one of nothing, where another was predicted, is far off
    assert np.isnan(wrong.level_error_relative[4])
    assert wrong.to_json()["agreement"]["level_error_relative"][4] is None
    assert "of level: - where there is no plateau, or less than 1e-06" in str(wrong)
    stages[4] = dataclasses.replace(stages[4], loss=1e-5 * stairs.initial_loss)
    wrong = sw.compare(dataclasses.replace(stairs, stages=tuple(stages)), agreement.observed)
    expected = 1e-5 * stairs.initial_loss / wrong.loss_levels[4] - 1
    np.testing.assert_allclose(wrong.level_error_relative[4], expected)


class Absolute(AbstractLoss):
    def __call__(self, output, target):
        return abs(target - output).sum()


def test_what_does_not_belong_together_is_refused(fig3):
    """Another seed, task, loss, network, rate: each is named, and nothing else."""
    x = np.random.default_rng(0).normal(size=(20, 3))
    task, units = sw.tasks.from_arrays(x, x @ [2.0, 1.0, 0.5]), sw.units.Dense(2, "tanh")
    path = sw.train(task, units, 1e-2, max_time=1.0)
    assert sw.compare(sw.predict(task, units, 1e-2, max_time=1.0), path)
    other = sw.tasks.from_arrays(x, x @ [1.0, 2.0, 0.5])
    wrong = {
        "seed": sw.predict(task, units, 1e-2, 1, max_time=1.0),
        "data": sw.predict(other, units, 1e-2, max_time=1.0),
        "loss": sw.predict(task, units, 1e-2, loss=Absolute(), max_time=1.0),
        "units": sw.predict(task, sw.units.Dense(2, "sin"), 1e-2, max_time=1.0),
        "rates": sw.predict(task, units, 1e-2, rates={"a": 2.0}, max_time=1.0),
        "scale": sw.predict(task, units, 1e-3, max_time=1.0),
    }
    for name, stairs in wrong.items():
        with pytest.raises(sw.InputError, match=f"They differ in {name}: [^;]*Compare"):
            sw.compare(stairs, path)


def test_predictions_of_another_problem_are_refused(agreement):
    other = dataclasses.replace(agreement.predicted, initial_loss=1.0)
    with pytest.raises(sw.InputError, match="different problems"):
        sw.compare(other, agreement.observed)


def test_a_run_that_stops_early_has_no_late_jumps(fig3, agreement):
    short = sw.train(fig3, UNITS, 1e-12, max_time=20.0)
    part = sw.compare(agreement.predicted, short)
    assert np.isfinite(part.time_error[:2]).all()
    assert np.isnan(part.time_error[2:]).all()
    assert part.to_json()["agreement"]["time_error"][-1] is None
    assert part.order
    assert part.stages_reached == 2
    assert "after 2 of 5 predicted stages" in str(part)


def test_a_run_that_reaches_no_jump(fig3, agreement):
    part = sw.compare(agreement.predicted, sw.train(fig3, UNITS, 1e-12, max_time=1.0))
    assert part.stages_reached == 0
    assert not part.order
    assert part.stages_observed == ()
    assert "no stage was reached" in str(part)
    assert np.isnan(part.time_error).all()


def test_scales_must_match(fig3, fig3_paths):
    with pytest.raises(sw.InputError, match="scale: 1e-08 and 1e-06"):
        sw.compare(sw.predict(fig3, UNITS, 1e-8), fig3_paths[1e-6])


def test_trajectory_round_trip_without_loss(fig3_paths, tmp_path):
    path = fig3_paths[1e-6]
    again = sw.Trajectory.load(path.save(tmp_path / "run.nc"))
    xr.testing.assert_identical(again.data, path.data)
    assert again.info == path.info


def test_staircase_round_trip_without_loss(agreement, tmp_path):
    stairs = agreement.predicted
    assert sw.Staircase.load(stairs.save(tmp_path / "stairs.nc")) == stairs


def test_agreement_file_holds_all_three_parts(agreement, tmp_path):
    agreement.save(tmp_path / "all.nc")
    with xr.open_datatree(tmp_path / "all.nc", engine="h5netcdf") as tree:
        assert set(tree.children) == {"agreement", "predicted", "observed"}
        np.testing.assert_array_equal(tree["agreement/time_error"], agreement.time_error)
    again = sw.Agreement.load(tmp_path / "all.nc")
    assert again.to_json() == agreement.to_json()


@pytest.mark.parametrize("content", [b"", b"not a netcdf file", b"\x89HDF\r\n\x1a\n" + b"\0" * 50])
def test_unreadable_files(tmp_path, content):
    file = tmp_path / "bad.nc"
    file.write_bytes(content)
    with pytest.raises(sw.InputError, match="not a readable"):
        sw.Trajectory.load(file)


def test_the_wrong_kind_of_file(agreement, tmp_path):
    file = agreement.predicted.save(tmp_path / "stairs.nc")
    with pytest.raises(sw.InputError, match="holds 'staircase'"):
        sw.Trajectory.load(file)
    with pytest.raises(sw.InputError, match="no file"):
        sw.Trajectory.load(tmp_path / "absent.nc")


def test_a_failed_write_leaves_the_old_result(tmp_path):
    target = tmp_path / "result.json"
    store.write_json({"good": 1}, target)
    with pytest.raises(ValueError, match="JSON compliant"):
        store.write_json({"bad": float("nan")}, target)
    assert json.loads(target.read_text()) == {"good": 1}
    assert list(tmp_path.iterdir()) == [target]


def test_a_failed_folder_leaves_the_old_folder(tmp_path):
    target = tmp_path / "run"
    with store.new_folder(target) as folder:
        (folder / "result.json").write_text("old")

    def fail_half_way():
        with store.new_folder(target, force=True) as folder:
            (folder / "result.json").write_text("new")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        fail_half_way()
    assert (target / "result.json").read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]
    with store.new_folder(target, force=True) as folder:
        (folder / "config.json").write_text("new")
    assert [f.name for f in target.iterdir()] == ["config.json"]
    (target / "thesis.txt").write_text("mine")
    with pytest.raises(sw.InputError, match="thesis"):
        store.check_folder_free(target, force=True)


def test_a_folder_that_another_process_made_meanwhile_is_not_replaced(tmp_path):
    def slower():
        with store.new_folder(tmp_path / "run"), store.new_folder(tmp_path / "run") as faster:
            (faster / "result.json").write_text("faster")

    with pytest.raises(sw.InputError, match="by another process meanwhile"):
        slower()
    assert (tmp_path / "run" / "result.json").read_text() == "faster"
    assert [file.name for file in tmp_path.iterdir()] == ["run"]


def test_pictures(agreement, tmp_path):
    for k, result in enumerate((agreement, agreement.predicted, agreement.observed)):
        for suffix in ("png", "svg"):
            result.plot(tmp_path / f"{k}.{suffix}")
            assert (tmp_path / f"{k}.{suffix}").stat().st_size > 5000


def test_pictures_on_axes_of_ones_own(agreement):
    for result in (agreement, agreement.predicted, agreement.observed):
        _, axes = new_figure()
        assert result.plot(ax=axes) is axes
        assert axes.lines


def test_tables_name_what_they_show(agreement):
    assert "order as predicted" in str(agreement)
    assert "no dormant units" in str(agreement.predicted)
    assert "converged" in str(agreement.observed)
    assert "Theorem C.4" in agreement.predicted.citation()


def test_importing_the_package_does_not_start_jax():
    code = "import sys, saddlewalk, saddlewalk.cli; print('jax' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


# --- pictures -----------------------------------------------------------------------------------------------


def test_names_in_a_picture_neither_meet_nor_leave_it():
    from saddlewalk.show.draw import new_figure
    from saddlewalk.show.labels import name_points

    figure, axes = new_figure()
    time = np.linspace(0.1, 1.0, 40)
    axes.plot(time, 1 / time, label="loss")
    axes.legend()
    points = [(t, 1 / t, f"coordinate {k} (+) and its many parts") for k, t in enumerate(time)]
    missing = name_points(axes, points)
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in axes.texts]
    assert len(boxes) == 40 - missing
    assert len(boxes) > 4
    curve = axes.transData.transform(np.column_stack([fine := np.linspace(0.1, 1, 5000), 1 / fine]))
    inside = axes.get_window_extent()
    for k, box in enumerate(boxes):
        assert inside.x0 <= box.x0 <= box.x1 <= inside.x1
        assert inside.y0 <= box.y0 <= box.y1 <= inside.y1
        assert not any(box.overlaps(other) for other in boxes[k + 1 :])
        assert not box.overlaps(axes.get_legend().get_window_extent())
        assert not any(box.contains(*place) for place in curve)


def test_a_loss_that_falls_to_nothing_stays_in_sight():
    from saddlewalk.show import draw

    time = np.linspace(0, 100, 2001)
    loss = np.exp(-time)
    levels = [1.0, 1e-3, 0.0]
    _, axes = draw.new_figure()
    draw.loss_curve(axes, time, loss)
    draw.stretch(axes, [5.0, 20.0], levels, 100.0)
    low, high = axes.get_window_extent().intervaly
    places = axes.transData.transform(np.column_stack([time, loss]))[:, 1]
    assert (np.diff(places) <= 0).all()
    assert low < places[-1] < low + 0.05 * (high - low)
    # levels that span decades: the picture ends where the lowest is reached, not at a hundredth of the fall
    assert abs(draw.end_of_fall(time, loss + 1e-3, levels) - np.log(1e3 / 0.05)) < 0.1


def test_a_training_shows_what_grows_and_ends_with_its_fall(agreement, tmp_path):
    axes = agreement.observed.plot(tmp_path / "run.png")
    upper, lower = axes.figure.axes
    assert lower.get_ylabel() == "coefficient"
    assert {text.get_text() for text in upper.texts} >= {
        stage.learned for stage in agreement.observed.stages[:2]
    }


def test_a_picture_ends_after_the_loss_has_fallen():
    from saddlewalk.show.draw import end_of_fall

    time = np.linspace(0, 20, 2001)
    assert abs(end_of_fall(time, np.exp(-time)) - np.log(100)) < 0.02


def test_a_comparison_shows_what_grows(tmp_path):
    """Coefficients of a diagonal network end at those of least squares."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    task = sw.tasks.from_arrays(x, x @ [2.0, 0.0, -1.0])
    report = sw.compare(
        sw.predict(task, sw.units.Diagonal(), 1e-3), sw.train(task, sw.units.Diagonal(), 1e-3)
    )
    axes = report.plot(tmp_path / "figure.png")
    lower = axes.get_figure().axes[1]
    ends = {line.get_label(): line.get_ydata()[-1] for line in lower.get_lines()}
    found = [ends[f"coordinate {k}"] for k in range(3)]
    np.testing.assert_allclose(found, [2.0, 0.0, -1.0], atol=1e-2)
