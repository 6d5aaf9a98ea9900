"""CPU seconds of tests, which do not depend on what else the machine does; printed by file at the end."""

import os
from collections import Counter

import pytest

MOST_SHOWN = 12
_SPENT = pytest.StashKey[float]()


def spent():
    """CPU seconds of this process and of those it has waited for."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Each phase of a test carries what it took since the phase before."""
    report = yield
    before = item.config.stash.get(_SPENT, spent())
    item.config.stash[_SPENT] = spent()
    report.user_properties = [("cpu", item.config.stash[_SPENT] - before)]
    return report


def pytest_terminal_summary(terminalreporter):
    """All workers together; what is compiled for several files is counted for the first."""
    files = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            properties = dict(getattr(report, "user_properties", ()))
            files[getattr(report, "nodeid", "").partition("::")[0]] += properties.get("cpu", 0.0)
    if files.total():
        terminalreporter.write_sep("=", f"{files.total():.0f} s of CPU, by file")
        for file, seconds in files.most_common(MOST_SHOWN):
            terminalreporter.write_line(f"{seconds:8.1f} s  {file}")
