"""The one idea: units + data + loss. What they cost, what is left to learn, and how units move."""

from saddlewalk.problem.problem import AbstractLoss as AbstractLoss
from saddlewalk.problem.problem import Parameters as Parameters
from saddlewalk.problem.problem import ParametersLike as ParametersLike
from saddlewalk.problem.problem import Problem as Problem
from saddlewalk.problem.problem import SquaredError as SquaredError
from saddlewalk.problem.problem import mean_norm as mean_norm
from saddlewalk.problem.problem import norms as norms
from saddlewalk.problem.problem import task_modes as task_modes
from saddlewalk.problem.where import TrainedNetwork as TrainedNetwork
from saddlewalk.problem.where import network_at as network_at
