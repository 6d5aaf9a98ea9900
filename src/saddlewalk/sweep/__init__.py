"""Phase diagrams: many configurations, one labeled store that survives whatever happens."""

from saddlewalk.sweep.plan import Plan as Plan
from saddlewalk.sweep.plan import grid as grid
from saddlewalk.sweep.plan import latin_hypercube as latin_hypercube
from saddlewalk.sweep.plan import product as product
from saddlewalk.sweep.plan import uniform as uniform
from saddlewalk.sweep.results import Results as Results
from saddlewalk.sweep.results import Series as Series
from saddlewalk.sweep.run import sweep as sweep
