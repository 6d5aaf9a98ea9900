"""The page of the explorer in a real browser: Chromium, headless, driven through its own driver."""

import json
import shlex
import shutil

import numpy as np
import pytest

import saddlewalk as sw
from saddlewalk.cli import main
from saddlewalk.curves.reading import read_stages
from saddlewalk.explore import network_of_run, network_of_setting, network_of_store, write_page
from saddlewalk.settings import Run

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
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
)
ODD = "<img src=x onerror=\"document.title='taken'\"> & </script>"
pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="there is no Chromium with its driver here (Debian's packages chromium, chromium-driver)",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def agreement():
    """A run on data whose columns have odd names."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(30, 3))
    task = sw.tasks.from_arrays(x, x @ [2.0, -1.0, 0.3], names=[ODD, "b", "c"])
    path = sw.train(task, sw.units.Diagonal(), 1e-4)
    return sw.compare(sw.predict(task, sw.units.Diagonal(), 1e-4), path)


@pytest.fixture(scope="module")
def networks(agreement):
    live = [Run.of("diagonal", dim=5, sparsity=3), Run.of("linear", dim=4, outputs=3)]
    return [*map(network_of_setting, live), network_of_run(agreement, ODD, "saddlewalk compare")]


@pytest.fixture
def page(browser, networks, tmp_path_factory):
    """The page, loaded anew."""
    file = write_page(networks, tmp_path_factory.mktemp("page") / "explore.html", ODD)
    browser.get_log("browser"), browser.get_log("performance")
    browser.get(file.as_uri())
    return browser


def put(page, name, value):
    """Move a slider as a hand would."""
    page.execute_script(
        """const one = document.getElementById(arguments[0]); one.value = arguments[1];
        one.dispatchEvent(new Event("input"));""",
        name,
        value,
    )
    page.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")


def shown(page, kind):
    words = page.find_element("css selector", f"#readout .{kind} b").text
    return float(words.replace("−", "-"))


def curve(page):
    """All that the page has integrated, before it is thinned."""
    script = "const run = saddlewalk.state.record.all; return [run.time, run.loss]"
    return map(np.array, page.execute_script(script))


def column(page, head):
    """Numbers of a column of the table of stages; `None` where it is not there."""
    heads = [one.text for one in page.find_elements("css selector", "#stages th")]
    if head not in heads:
        return None
    place = heads.index(head) + 1
    cells = page.find_elements("css selector", f"#stages tbody td:nth-child({place})")
    return [float(one.text.replace("−", "-")) for one in cells]


def command(page):
    """The options of the command in the page, as the command line reads them; each flag stands once."""
    verb, *words = shlex.split(page.find_element("id", "command").text)[1:]
    flags = [word for word in words if word.startswith("--")]
    assert len(flags) == len(set(flags))
    given = main.commands[verb].make_context(verb, words).params
    return {k: v for k, v in given.items() if v not in (None, False) and k != "setting"}


def digits(values, many):
    return [float(f"{value:.{many}g}") for value in values]


def test_loads_quietly(page):
    errors = [entry for entry in page.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
    assert not errors
    sent = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    asked = {
        message["params"]["request"]["url"].split(":")[0]
        for message in sent
        if message["method"] == "Network.requestWillBeSent"
    }
    assert asked <= {"file", "data"}
    assert len(page.find_elements("css selector", "#networks button")) == 3
    assert page.find_elements("css selector", "#loss canvas")
    assert page.title == ODD


@pytest.mark.parametrize(
    ("scale", "correlation", "noise", "draw"),
    [(-6, 0, 0, 0), (-2, 0.5, 0.5, 1), (-40, -0.3, 0, 2)],
)
def test_flow_of_diagonal_networks_is_that_of_train(page, scale, correlation, noise, draw):
    for name, value in {"correlation": correlation, "noise": noise, "data_seed": draw}.items():
        put(page, f"slider-{name}", value)
    put(page, "slider-scale", scale)
    made = {"dim": 5, "sparsity": 3, "correlation": correlation, "noise": noise, "data_seed": draw}
    run = Run.of("diagonal", **made, scale=10.0**scale)
    agree(page, run, sw.train(run.task, run.units, run.scale, times=some_times(page)))


@pytest.mark.parametrize(
    ("scale", "seed", "width", "decay"), [(-3, 0, 3, 1.0), (-6, 2, 2, 0.4), (-10, 1, 3, 1.6)]
)
def test_flow_of_linear_networks_is_that_of_train(page, scale, seed, width, decay):
    page.execute_script("saddlewalk.open(1)")
    for name, value in {"seed": seed, "width": width - 1, "decay": decay, "scale": scale}.items():
        put(page, f"slider-{name}", value)
    run = Run.of("linear", dim=4, outputs=3, decay=decay, seed=seed, width=width, scale=10.0**scale)
    agree(page, run, sw.train(run.task, run.units, run.scale, seed, times=some_times(page)))


def some_times(page):
    """Two hundred of the moments at which the page was."""
    time, _ = curve(page)
    return time[np.unique(np.linspace(0, len(time) - 1, 200).astype(int))]


def agree(page, run, path):
    """At every moment of the page, of which training keeps the weights, the loss is that of these weights."""
    time, loss = curve(page)
    moments = path.data["saved"].values
    known = np.isin(time, moments)
    assert known.sum() > 50
    with sw.float64():
        expected = np.array([float(run.problem.loss(theta)) for theta in path.parameters])
    expected = expected[np.searchsorted(moments, time[known])]
    np.testing.assert_allclose(loss[known], expected, rtol=1e-3, atol=1e-9 * expected[0])
    assert loss[known].min() < 0.5 * loss[0]


@pytest.mark.parametrize(
    ("network", "draw", "tolerance", "level"),
    [(0, 0, 2e-3, 1e-3), (0, 3, 2e-3, 1e-3), (1, 0, 0.1, 0.02)],
)
def test_staircase_of_the_page_is_near_the_numeric_one(page, network, draw, tolerance, level):
    page.execute_script(f"saddlewalk.open({network})")
    put(page, "slider-data_seed", draw)
    found = page.execute_script("return saddlewalk.state.record.predicted")
    sizes = [{"dim": 5, "sparsity": 3}, {"dim": 4, "outputs": 3}][network]
    stairs = Run.of(["diagonal", "linear"][network], **sizes, data_seed=draw).predict()
    levels = [found["initial_loss"], *(stage["loss"] for stage in found["stages"])]
    same = 0
    for before, stage in zip(stairs.loss_levels, stairs.stages, strict=False):
        places = [int(np.argmin(np.abs(np.subtract(levels, one)))) for one in (before, stage.loss)]
        assert abs(levels[places[1]] - stage.loss) < level * stairs.initial_loss
        if places[1] == places[0] + 1:  # what is one jump to the package may be two to the page
            same += 1
            assert found["stages"][places[0]]["time"] == pytest.approx(stage.time, rel=tolerance)
    assert same >= 1


@pytest.mark.parametrize(("network", "scale"), [(0, -6), (0, -20), (1, -6)])
def test_simulated_times_of_a_live_page(page, network, scale):
    """Those that `compare` would read off the same flow for the same levels."""
    page.execute_script(f"saddlewalk.open({network})")
    put(page, "slider-scale", scale)
    sizes = [{"dim": 5, "sparsity": 3}, {"dim": 4, "outputs": 3}][network]
    run = Run.of(["diagonal", "linear"][network], **sizes, scale=10.0**scale)
    levels = page.execute_script(
        "const one = saddlewalk.state.record.predicted;"
        "return [one.initial_loss, ...one.stages.map(stage => stage.loss)]"
    )
    reading = read_stages(run.train(progress=False).curve, levels)
    assert column(page, "simulated") == pytest.approx(reading.times, rel=1e-3)
    predicted = np.array(column(page, "predicted"))
    off = np.max(np.abs(predicted - reading.times) / reading.times)
    words = page.find_element("id", "stages").text
    assert (f"up to {100 * off:.2g}%" in words) == (off > 0.01)


def test_a_folder_shows_the_times_of_its_result(run, browser, tmp_path):
    """Neurons that turn slowly never reach the predicted level, so its middle is not when they jump."""
    run("compare", "relu", "--out", tmp_path / "relu")
    browser.get((tmp_path / "relu" / "explore.html").as_uri())
    numbers = json.loads((tmp_path / "relu" / "result.json").read_text())["agreement"]
    assert column(browser, "simulated") == digits(numbers["time_observed"], 5)
    assert max(numbers["time_error"]) > 0.1


@pytest.mark.parametrize(
    ("setting", "given", "shown_as"),
    [
        ("diagonal", {"dim": 4, "sparsity": 2, "correlation": 0.3, "noise": 5.0}, {}),
        ("diagonal", {"dim": 4, "sparsity": 2, "scale": 1e-80, "seed": 2}, {}),
        ("linear", {"dim": 3, "outputs": 2, "commuting": True, "width": 2}, {}),
        (
            "linear",
            {"dim": 3, "outputs": 2, "method": "closed", "max_time": 3.0},
            {"dim": 3, "outputs": 2},
        ),
    ],
)
def test_commands_can_be_given(browser, tmp_path, setting, given, shown_as):
    network = network_of_setting(Run.of(setting, **given))
    browser.get(write_page([network], tmp_path / "page.html").as_uri())
    found = command(browser)
    asked, made = Run.of(setting, **(shown_as or given)), Run.of(setting, **found)
    assert {**made.to_json(), "width": 0} == {**asked.to_json(), "width": 0}
    assert made.problem.width == asked.problem.width
    notes = browser.find_element("id", "notes").text
    assert ("--max-time" in notes) == ("max_time" in given)


def test_commands_of_grids_and_own_data(browser, tmp_path, fig3):
    """Names with spaces and quotes, values that are words, switches that are off."""
    file = tmp_path / "it's my data.npz"
    np.savez(file, X=fig3.x, y=fig3.y)
    own = network_of_setting(Run.of("diagonal", data=str(file)))
    axes = {"optimizer": ("adam:beta2=0.9",), "adaptive": (False, True)}
    grid = network_of_setting(Run.of("diagonal", dim=2, sparsity=1, max_time=1.0), axes)
    browser.get(write_page([own, grid], tmp_path / "page.html").as_uri())
    assert command(browser)["data"] == str(file)
    browser.execute_script("saddlewalk.open(1)")
    kept = {"dim": 2, "sparsity": 1, "max_time": 1.0, "optimizer": "adam:beta2=0.9"}
    assert command(browser) == kept
    put(browser, "slider-adaptive", 1)
    assert command(browser) == {**kept, "adaptive": True}


def test_the_time_slider_is_in_time(page):
    """Its thumb stands below its moment, also on a log axis, and what is beside it is of one moment."""
    page.execute_script("saddlewalk.open(2)")
    low, high = page.execute_script("return saddlewalk.state.view")
    times = np.array(page.execute_script("return Array.from(saddlewalk.state.record.time)"))
    for part in (0.1, 0.5, 0.9):
        put(page, "cursor", part)
        wanted = low + part * (high - low)
        assert shown(page, "time") == digits([times[np.abs(times - wanted).argmin()]], 5)[0]
        places = page.execute_script(
            """const box = document.getElementById("cursor").getBoundingClientRect();
            const mark = document.querySelector("#loss .time-mark").getBoundingClientRect();
            const part = Number(document.getElementById("cursor").value);
            return [box.left + 8 + part * (box.width - 16), mark.left]"""
        )
        assert places[0] == pytest.approx(places[1], abs=3)
        rows = page.find_elements("css selector", "#panels .card:first-child .value")
        listed = page.find_elements("css selector", "#learned b")
        assert [one.text for one in rows] == [one.text for one in listed]
    page.find_element("id", "log-time").click()
    low, high = page.execute_script("return saddlewalk.state.view")
    put(page, "cursor", 0.5)
    wanted = np.sqrt(low * high)
    assert shown(page, "time") == digits([times[np.abs(times - wanted).argmin()]], 5)[0]


def test_curve_and_sliders_are_seen_together_on_a_phone(page, networks, tmp_path):
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        page.refresh()  # with odd names
        assert page.execute_script("return document.documentElement.scrollWidth") <= 390
        page.get(write_page(networks[:2], tmp_path / "page.html").as_uri())
        page.execute_script("saddlewalk.open(1)")  # the network with most sliders
        box = "return document.getElementById(arguments[0]).getBoundingClientRect()"
        curve_, sliders = (page.execute_script(box, name) for name in ("loss", "sliders"))
        assert 0 <= curve_["top"] < curve_["bottom"] <= sliders["top"]
        assert sliders["bottom"] <= 844
        assert page.execute_script("return document.documentElement.scrollWidth") <= 390
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_slider_changes_the_curve(page):
    before = page.execute_script("return Array.from(saddlewalk.state.record.time)")
    put(page, "slider-scale", -12)
    after = page.execute_script("return Array.from(saddlewalk.state.record.time)")
    assert after[-1] > 1.5 * before[-1]
    assert "1e−12" in page.find_element("id", "sliders").text
    assert "--scale 1e-12" in page.find_element("id", "command").text


def test_the_stage_at_the_cursor_is_marked(page):
    marked = (
        "return [...document.querySelectorAll('#stages tbody tr.now')].map(row => row.dataset.time)"
    )
    for step in (lambda: None, lambda: put(page, "slider-scale", -12)):  # also before any move
        step()
        here = shown(page, "time")
        times = page.execute_script(
            "return saddlewalk.state.record.predicted.stages.map(one => one.time)"
        )
        assert [float(one) for one in page.execute_script(marked)] == [
            max(t for t in times if t <= here)
        ]
    put(page, "cursor", 0)
    assert page.execute_script(marked) == []


def test_cursor_shows_the_numbers_of_the_run(page, agreement):
    page.execute_script("saddlewalk.open(2)")
    path = agreement.observed
    for k in (0, 17, 60):
        page.execute_script(f"saddlewalk.moveTo({k})")
        time = page.execute_script("return saddlewalk.state.record.time[saddlewalk.state.cursor]")
        place = int(np.flatnonzero(path.time == time)[0])
        assert shown(page, "time") == digits([time], 5)[0]
        assert shown(page, "observed") == digits([path.loss[place]], 5)[0]
        level = agreement.predicted.loss_levels[sum(s.time <= time for s in agreement.predicted)]
        assert shown(page, "predicted") == digits([level], 5)[0]
        moment = page.execute_script(f"return saddlewalk.state.record.panelsAt({time!r})[0].moment")
        row = int(np.flatnonzero(path.data["saved"].values == moment)[0])
        beta = path.problem.units.coefficients(path.parameters[row])
        cells = page.find_elements("css selector", "#panels .card:first-child .value")
        assert [float(one.text.replace("−", "-")) for one in cells] == digits(beta, 4)


def test_names_stay_words(page):
    page.execute_script("saddlewalk.open(2)")
    assert page.title == ODD
    assert not page.find_elements("css selector", "img")
    assert any(ODD in one.text for one in page.find_elements("css selector", "#learned li"))


def test_keyboard(page):
    from selenium.webdriver.common.keys import Keys

    cursor = page.find_element("id", "cursor")
    at = lambda: page.execute_script("return saddlewalk.state.cursor")  # noqa: E731
    cursor.send_keys(Keys.HOME)
    assert at() == 0
    cursor.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert at() == 2
    cursor.send_keys(Keys.ARROW_LEFT)
    assert at() == 1
    cursor.send_keys("]")
    first = page.execute_script("return saddlewalk.state.record.predicted.stages[0].time")
    assert shown(page, "time") == pytest.approx(first, rel=0.05)
    cursor.send_keys(Keys.END)
    assert at() == page.execute_script("return saddlewalk.state.record.time.length - 1")
    tab = page.find_element("css selector", "#networks button")
    tab.send_keys(Keys.ARROW_RIGHT)
    assert page.execute_script("return saddlewalk.state.network") == 1
    words = page.find_element("id", "cursor").get_attribute("aria-valuetext")
    assert words.startswith("time ") and ", loss " in words  # noqa: PT018
    assert "Predicted jumps" in page.find_element("id", "loss").get_attribute("aria-label")


def test_store_of_a_sweep(browser, tmp_path):
    from saddlewalk.sweep import grid, sweep

    axes = {"scale": [1e-3, 1e-5], "data_seed": [0, 1]}
    plan = grid(axes, setting="diagonal", dim=5, sparsity=3)
    found = sweep("curves", plan, tmp_path / "mine.zarr", progress=False)
    file = write_page([network_of_store(found, "mine.zarr")], tmp_path / "explore.html")
    browser.get(file.as_uri())
    put(browser, "slider-scale", 1)
    put(browser, "slider-data_seed", 1)
    cell = found.sel(scale=1e-5, data_seed=1)
    browser.execute_script("saddlewalk.moveTo(10)")
    time = np.float32(cell["curve_time"].values[10])
    assert shown(browser, "time") == digits([time], 5)[0]
    assert shown(browser, "observed") == digits([np.float32(cell["curve_loss"].values[10])], 5)[0]
    rows = browser.find_elements("css selector", "#measured .numbers tr")
    said = dict(row.text.rsplit(" ", 1) for row in rows)
    for name, words in said.items():
        assert float(words.replace("−", "-")) == digits([float(cell[name])], 5)[0]
    assert set(said) >= {"time_error", "stages_predicted"}
    known = cell["stage_simulated"].values[np.isfinite(cell["stage_time"].values)]
    assert column(browser, "simulated") == digits(known, 5)
    assert command(browser) == {"dim": 5, "sparsity": 3, "scale": 1e-5, "data_seed": 1}
    old = network_of_store(found.drop_vars("stage_simulated"), "old.zarr")
    browser.get(write_page([old], tmp_path / "old.html").as_uri())
    assert column(browser, "time")
    assert column(browser, "simulated") is None
