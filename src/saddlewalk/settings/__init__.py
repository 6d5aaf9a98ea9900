"""Settings by name, and one description of a run, which commands, sweep files and Python all build."""

from saddlewalk.renamed import answer_old_names
from saddlewalk.settings.catalog import SETTINGS as SETTINGS
from saddlewalk.settings.catalog import Setting as Setting
from saddlewalk.settings.catalog import find_setting as find_setting
from saddlewalk.settings.run import Run as Run
from saddlewalk.settings.run import run_options as run_options
from saddlewalk.settings.run import train_runs as train_runs

__getattr__ = answer_old_names(
    __name__, {"make_problem": "saddlewalk.settings.Run.of(name, **options), with .task and .units"}
)
