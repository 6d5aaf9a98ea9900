"""How it really evolves: gradient flow, finite steps, trajectories."""

from saddlewalk.flow.training import train as train
from saddlewalk.flow.training import train_many as train_many
from saddlewalk.flow.trajectory import Trajectory as Trajectory
