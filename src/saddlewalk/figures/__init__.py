"""The papers' figures and tables, and studies beyond them: one function each, with its claims as numbers."""

from saddlewalk.figures.claims import Claim as Claim
from saddlewalk.figures.claims import FigureResult as FigureResult
from saddlewalk.figures.registry import ENTRIES as ENTRIES
from saddlewalk.figures.registry import Entry as Entry
from saddlewalk.figures.registry import find_entry as find_entry
from saddlewalk.figures.registry import two_sizes as two_sizes
from saddlewalk.figures.scorecard import Scorecard as Scorecard
from saddlewalk.figures.scorecard import reproduce as reproduce
