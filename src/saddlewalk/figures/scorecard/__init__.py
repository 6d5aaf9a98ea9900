"""The papers, run one entry after the other: what came of each, in a folder and on a page."""

from saddlewalk.figures.scorecard.folder import Scorecard as Scorecard
from saddlewalk.figures.scorecard.run import reproduce as reproduce
