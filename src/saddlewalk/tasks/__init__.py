"""What is learned: one file a family of tasks."""

from saddlewalk.tasks.base import AbstractTask as AbstractTask
from saddlewalk.tasks.base import Modes as Modes
from saddlewalk.tasks.files import load_encoding as load_encoding
from saddlewalk.tasks.files import load_task as load_task
from saddlewalk.tasks.hierarchy import RandomHierarchy as RandomHierarchy
from saddlewalk.tasks.hierarchy import random_hierarchy as random_hierarchy
from saddlewalk.tasks.images import agf_figure_7 as agf_figure_7
from saddlewalk.tasks.images import images as images
from saddlewalk.tasks.in_context import InContextRegression as InContextRegression
from saddlewalk.tasks.in_context import in_context_regression as in_context_regression
from saddlewalk.tasks.in_context import in_context_sequences as in_context_sequences
from saddlewalk.tasks.in_context import in_context_tokens as in_context_tokens
from saddlewalk.tasks.modular import ModularAddition as ModularAddition
from saddlewalk.tasks.modular import modular_addition as modular_addition
from saddlewalk.tasks.moments import Moments as Moments
from saddlewalk.tasks.moments import compress as compress
from saddlewalk.tasks.moments import from_moments as from_moments
from saddlewalk.tasks.regression import agf_figure_3 as agf_figure_3
from saddlewalk.tasks.regression import agf_figure_8 as agf_figure_8
from saddlewalk.tasks.regression import hidden_directions as hidden_directions
from saddlewalk.tasks.regression import linear_map as linear_map
from saddlewalk.tasks.regression import sparse_regression as sparse_regression
from saddlewalk.tasks.samples import Samples as Samples
from saddlewalk.tasks.samples import from_arrays as from_arrays
from saddlewalk.tasks.samples import standardized as standardized
