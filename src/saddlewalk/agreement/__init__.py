"""`compare`: the one place where a prediction meets a simulation."""

from saddlewalk.agreement.comparison import Agreement as Agreement
from saddlewalk.agreement.comparison import compare as compare
from saddlewalk.renamed import answer_old_names

__getattr__ = answer_old_names(
    __name__,
    {
        "measure_stages": "saddlewalk.curves.reading.read_stages",
        "trajectory_to_json": "saddlewalk.Trajectory.to_json",
    },
)
