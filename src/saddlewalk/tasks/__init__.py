"""What is learned: one file a family of tasks."""

from saddlewalk.tasks.base import AbstractTask as AbstractTask
from saddlewalk.tasks.files import load_task as load_task
from saddlewalk.tasks.moments import Moments as Moments
from saddlewalk.tasks.moments import compress as compress
from saddlewalk.tasks.moments import from_moments as from_moments
from saddlewalk.tasks.regression import agf_figure_3 as agf_figure_3
from saddlewalk.tasks.regression import agf_figure_8 as agf_figure_8
from saddlewalk.tasks.regression import sparse_regression as sparse_regression
from saddlewalk.tasks.samples import Samples as Samples
from saddlewalk.tasks.samples import from_arrays as from_arrays
from saddlewalk.tasks.samples import refuse_constant_columns as refuse_constant_columns
