"""Tables of one's own: the same numbers in every way to write them; mistakes are found by line."""

import numpy as np
import pandas as pd
import pytest

import saddlewalk as sw
from saddlewalk.tasks import load_task

X = np.array([[1.5, -2.0], [0.25, 4.0], [3.0, 0.5]])
Y = np.array([[1.0, 10.0], [2.0, -20.0], [-0.5, 30.0]])
ROWS = "1.5,-2,1,10\n0.25,4,2,-20\n3,.5,-0.5,3e1\n"
NAMED = "rooms,age,price,rent\n"


def write(folder, text, name="own.csv"):
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (ROWS, False),
        (NAMED + ROWS, True),
        ("\ufeff" + NAMED + ROWS, True),  # as spreadsheets write it
        ('"rooms","age","price","rent"\n' + ROWS.replace("0.25", '"0.25"'), True),
        ((NAMED + ROWS).replace(",", ";"), True),
        ((NAMED + ROWS).replace(",", ";").replace(".", ","), True),
        ((NAMED + ROWS).replace(",", "\t"), True),
        ((NAMED + ROWS).replace(",", " , ").replace("\n", "\r\n\n"), True),
        ("# made, by me\n# " + NAMED + ROWS, True),  # as NumPy writes it
        ((NAMED + ROWS).replace("\n", ",\n"), True),
    ],
)
def test_the_same_numbers_in_every_way_to_write_them(tmp_path, text, named):
    task = load_task(write(tmp_path, text), targets="2")
    np.testing.assert_array_equal(task.x, X)
    np.testing.assert_array_equal(task.y, Y)
    assert task.names == (("rooms", "age") if named else ())


def test_columns_without_a_name_are_counted(tmp_path):
    """The index of a frame has no name."""
    file = write(tmp_path, ",age,price\n0,2,1\n1,4,2\n2,0.5,3\n", "OWN.CSV")
    assert load_task(file).names == ("column 1", "age")


@pytest.mark.parametrize(
    ("targets", "inputs", "outputs"),
    [
        (None, ["rooms", "age", "price"], ["rent"]),
        (1, ["rooms", "age", "price"], ["rent"]),
        ("2", ["rooms", "age"], ["price", "rent"]),
        ("price", ["rooms", "age", "rent"], ["price"]),
        ("rent, rooms", ["age", "price"], ["rent", "rooms"]),
    ],
)
def test_targets_are_the_last_columns_or_named(tmp_path, targets, inputs, outputs):
    file = write(tmp_path, NAMED + ROWS)
    frame = pd.read_csv(file)
    task = load_task(file, targets)
    np.testing.assert_array_equal(task.x, frame[inputs])
    np.testing.assert_array_equal(task.y, frame[outputs])
    assert task.names == tuple(inputs)


def test_labels_become_outputs(tmp_path):
    file = write(tmp_path, "a,b,kind\n1,2,oak\n3,4,elm\n5,6,oak\n7,8,ash\n")
    frame = pd.read_csv(file)
    dummies = pd.get_dummies(frame["kind"]).to_numpy(dtype=float)
    np.testing.assert_array_equal(load_task(file).y, dummies)
    np.testing.assert_array_equal(sw.tasks.from_arrays(frame[["a", "b"]], frame["kind"]).y, dummies)
    np.savez(tmp_path / "own.npz", X=frame[["a", "b"]], y=frame["kind"].to_numpy(dtype=str))
    np.testing.assert_array_equal(load_task(tmp_path / "own.npz").y, dummies)


@pytest.mark.parametrize(
    ("text", "targets", "words"),
    [
        (NAMED + ROWS.replace("4", ""), None, "'' in line 3, column 2 ('age'): empty, NaN"),
        (NAMED + ROWS.replace("4", "NA"), None, "'NA' in line 3, column 2 ('age'): empty, NaN"),
        (ROWS.replace("3e1", "inf"), None, "'inf' in line 3, column 4: empty, NaN or infinite"),
        (NAMED + ROWS.replace("4", "four"), None, "line 3, column 2 ('age') has 'four'"),
        (NAMED + ROWS.replace("-20", "2O"), None, "line 3, column 4 ('rent') has '2O'"),
        (NAMED + ROWS + "1,2,3\n", None, "line 5 has 3 cells, line 1 has 4"),
        ("a,b\n1,x\n2,x\n", None, "a single label, 'x'"),
        (NAMED + ROWS, "prize", "no column 'prize'. Did you mean 'price'?"),
        (NAMED + ROWS, "4", "`targets` must be from 1 to 3"),
        (ROWS, "price", "Its columns have no names"),
        (NAMED + ROWS, "rooms,age,price,rent", "All columns"),
        (NAMED, None, "no rows of numbers"),
        ("", None, "no rows of numbers"),
        ("a b c\n1 2 3\n", None, "commas, semicolons or tabs"),
    ],
)
def test_mistakes_are_found_by_line_and_column(tmp_path, text, targets, words):
    with pytest.raises(sw.InputError) as error:
        load_task(write(tmp_path, text), targets)
    assert words in str(error.value)


def test_objects_in_an_archive_are_called_objects(tmp_path):
    np.savez(tmp_path / "own.npz", X=np.array([["1", 2.0], [3.0, 4.0]], dtype=object), y=[1.0, 2.0])
    with pytest.raises(sw.InputError, match=r"X in .* is an array of Python objects.*dtype=float"):
        load_task(tmp_path / "own.npz")


def test_frames_carry_their_names(tmp_path):
    frame = pd.DataFrame(X, columns=["rooms", "age"])
    assert sw.tasks.from_arrays(frame, Y).names == ("rooms", "age")
    assert sw.tasks.from_arrays(X, Y, names=["u", "v"]).names == ("u", "v")
    assert sw.tasks.compress(sw.tasks.from_arrays(frame, Y)).names == ("rooms", "age")
    with pytest.raises(sw.InputError, match="must name 2 inputs"):
        sw.tasks.from_arrays(X, Y, names=["u"])
    frame.iloc[2, 1] = np.nan
    with pytest.raises(sw.InputError, match=r"row 2 of column 'age'"):
        sw.tasks.from_arrays(frame, Y)


def test_standardized_columns():
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3)) * [1.0, 1e5, 0.0] + [0.0, 7.0, 2.0]
    y, weights = rng.normal(size=(50, 1)) + 3, rng.uniform(size=50)
    task = sw.tasks.standardized(sw.tasks.from_arrays(x, y, weights))
    scaled = StandardScaler().fit_transform(x[:, :2], sample_weight=weights)
    np.testing.assert_allclose(task.x[:, :2], scaled, atol=1e-12)
    np.testing.assert_array_equal(task.x[:, 2], 2.0)  # a constant has no other scale
    target = StandardScaler().fit_transform(y, sample_weight=weights)
    np.testing.assert_allclose(task.y, target, atol=1e-12)
    with pytest.raises(sw.InputError, match="no columns to `standardize`"):
        sw.tasks.standardized(sw.tasks.linear_map(dim=2, outputs=2))


@pytest.mark.parametrize("method", ["numeric", "algorithm-1", "closed", "limit", "paper"])
def test_a_column_of_zeros_changes_nothing_and_a_constant_is_a_column_like_others(method):
    x = np.column_stack([np.random.default_rng(0).normal(size=(30, 2)), np.ones(30)])
    y = x @ [3.0, -1.0, 0.5]
    without = sw.predict(sw.tasks.from_arrays(x, y), sw.units.Diagonal(), 1e-6, method=method)
    zeros = sw.tasks.from_arrays(np.column_stack([x, np.zeros(30)]), y)
    stairs = sw.predict(zeros, sw.units.Diagonal(), 1e-6, method=method)
    np.testing.assert_allclose(stairs.jump_times, without.jump_times, rtol=1e-6)
    assert len(stairs) == 3


@pytest.fixture(scope="module")
def houses():
    rng = np.random.default_rng(0)
    columns = ["rooms", "age", "tax", "view", "noise"]
    x = pd.DataFrame(rng.normal(size=(60, 5)), columns=columns)
    return sw.tasks.from_arrays(x, 3 * x["rooms"] - 1.5 * x["tax"] + 0.5 * x["view"])


@pytest.mark.parametrize("method", ["numeric", "closed", "limit", "paper"])
def test_coordinates_are_called_by_their_names(houses, method, tmp_path):
    stairs = sw.predict(houses, sw.units.Diagonal(), 1e-6, method=method)
    learned = ["rooms (+)", "tax (-)", "view (+)"]  # by the size of what they explain
    assert [stage.learned for stage in stairs] == learned
    assert [stage.described for stage in stairs] == learned
    assert all(words in str(stairs) for words in learned)
    features = [stage["feature"] for stage in stairs.to_json()["stages"]]
    assert [(one["kind"], one["index"], one["name"]) for one in features] == [
        ("coordinate", 0, "rooms"),
        ("coordinate", 2, "tax"),
        ("coordinate", 3, "view"),
    ]
    again = sw.Staircase.load(stairs.save(tmp_path / "stairs.nc"))
    assert [stage.learned for stage in again] == learned
    assert again.problem.task.input_names == houses.names
    drawn = {text.get_text() for text in stairs.plot().texts}
    assert set(learned) <= drawn


def test_directions_say_their_largest_inputs(houses):
    stairs = sw.predict(houses, sw.units.Dense(3, "relu"), 1e-4)
    feature = stairs[0].feature
    order = np.argsort(-np.abs(feature["vector"]))[:3]
    assert feature["names"] == [houses.names[k] for k in order]
    signs = ["+" if feature["vector"][k] > 0 else "-" for k in order]
    words = ", ".join(f"{houses.names[k]} ({sign})" for k, sign in zip(order, signs, strict=True))
    others = feature.get("others", [])
    assert all(set(one["names"]) <= set(houses.names) for one in others)
    assert stairs[0].learned == words + (f"; {len(others)} more units" if others else "")
    assert f" of {words}, active on " in stairs[0].described
    plain = sw.tasks.from_arrays(houses.x, houses.y)
    bare = sw.predict(plain, sw.units.Dense(3, "relu"), 1e-4)[0]
    assert " of 5 inputs" in bare.described
    assert bare.learned.startswith("unit ")
    assert "names" not in bare.feature


def test_coordinates_that_wake_together_are_all_named():
    x = np.tile(np.eye(4), (2, 1))  # orthogonal columns, equal in strength: one jump
    task = sw.tasks.from_arrays(x, x @ [1.0, 1.0, -1.0, 1.0], names=list("abcd"))
    stairs = sw.predict(task, sw.units.Diagonal(), 1e-6, method="numeric")
    assert len(stairs) == 1
    assert sorted(stairs[0].units) == [0, 1, 2, 3]
    feature = stairs[0].feature
    names = {one["index"]: one["name"] for one in [feature, *feature["others"]]}
    assert names == {0: "a", 1: "b", 2: "c", 3: "d"}
    assert stairs[0].learned == "a (+), b (+), c (-) and 1 more"


def test_a_training_names_what_its_units_look_at(houses):
    path = sw.train(houses, sw.units.Diagonal(), 1e-6)
    assert [stage.learned for stage in path.stages] == ["rooms (+)", "tax (-)", "view (+)"]
    assert [stage.feature["index"] for stage in path.stages] == [0, 2, 3]
    bare = sw.train(sw.tasks.from_arrays(houses.x, houses.y), sw.units.Diagonal(), 1e-6)
    assert [stage.learned for stage in bare.stages] == [
        f"coordinate {k}" for k in ("0 (+)", "2 (-)", "3 (+)")
    ]
    assert bare.stages[0].feature == {"kind": "coordinate", "index": 0, "sign": 1}


def test_an_adjustment_is_called_so():
    stage = sw.curves.Stage(1.0, 0.5, (), {"kind": "adjustment"})
    assert stage.learned == stage.described == "adjustment"
    task = sw.tasks.agf_figure_8()  # a coefficient returns to dormancy, and none wakes
    stairs = sw.predict(task, sw.units.Diagonal(), 1e-12, method="limit")
    alone = [stage for stage in stairs if not stage.units]
    assert all(stage.learned for stage in stairs)
    assert all(stage.learned == "adjustment" for stage in alone)


@pytest.mark.parametrize("units", [sw.units.Diagonal(), sw.units.Dense(2, "linear")])
@pytest.mark.parametrize("method", ["numeric", "limit"])
def test_columns_that_cannot_be_compared_are_told(houses, units, method):
    """In grams instead of tonnes a column that explains little is learned first."""

    def audited(task):
        stairs = sw.predict(task, units, 1e-6, method=method)
        return stairs, next(a for a in stairs.assumptions if a.name.startswith("comparable"))

    measures = np.array([1.0, 1.0, 1.0, 1e5, 1.0])
    wild = sw.tasks.from_arrays(houses.x * measures, houses.y, names=houses.names)
    stairs, audit = audited(wild)
    sizes = np.sqrt(np.mean((houses.x * measures) ** 2, axis=0))
    assert not audit.holds
    assert audit.value == pytest.approx(sizes.max() / sizes.min())
    assert "scale of view, the largest," in audit.name
    assert "standardize" in str(audit)
    tame, audit = audited(sw.tasks.standardized(wild))
    assert audit.holds
    assert audit.value == pytest.approx(1)
    if isinstance(units, sw.units.Diagonal):
        assert stairs[0].feature["name"] == "view"
        assert tame[0].feature["name"] == "rooms"
