"""What an output costs: one short file a loss, with what the theory needs to know of it."""

from saddlewalk.losses.base import AbstractLoss as AbstractLoss
from saddlewalk.losses.cross_entropy import CrossEntropy as CrossEntropy
from saddlewalk.losses.huber import Huber as Huber
from saddlewalk.losses.logistic import Logistic as Logistic
from saddlewalk.losses.named import NAMES as NAMES
from saddlewalk.losses.named import as_loss as as_loss
from saddlewalk.losses.own import OwnLoss as OwnLoss
from saddlewalk.losses.squared import SquaredError as SquaredError
