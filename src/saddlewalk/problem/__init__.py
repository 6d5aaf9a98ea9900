"""The one idea: units + data + loss. What they cost, what is left to learn, and how units move."""

from saddlewalk.problem.problem import AnyLoss as AnyLoss
from saddlewalk.problem.problem import Parameters as Parameters
from saddlewalk.problem.problem import ParametersLike as ParametersLike
from saddlewalk.problem.problem import Problem as Problem
from saddlewalk.problem.problem import mean_norm as mean_norm
from saddlewalk.problem.problem import norms as norms
from saddlewalk.problem.problem import read_by as read_by
from saddlewalk.problem.problem import task_modes as task_modes
from saddlewalk.problem.where import TrainedNetwork as TrainedNetwork
from saddlewalk.problem.where import network_at as network_at
from saddlewalk.renamed import answer_old_names

__getattr__ = answer_old_names(
    __name__,
    {name: f"saddlewalk.losses.{name}" for name in ("AbstractLoss", "SquaredError")},
)
