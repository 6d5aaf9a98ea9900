"""A training that somebody else runs: where it is, what grows, and when the loss drops next."""

from saddlewalk.watch.forecast import Forecast as Forecast
from saddlewalk.watch.forecast import Reason as Reason
from saddlewalk.watch.functions import Adam as Adam
from saddlewalk.watch.functions import Sgd as Sgd
from saddlewalk.watch.functions import Watch as Watch
from saddlewalk.watch.outlook import State as State
from saddlewalk.watch.record import Look as Look
from saddlewalk.watch.record import WatchRecord as WatchRecord
from saddlewalk.watch.rules import Adaptive as Adaptive
from saddlewalk.watch.rules import Descent as Descent
