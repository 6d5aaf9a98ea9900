"""The papers' figures and studies beyond them: one function each, with its claims as numbers."""

from saddlewalk.errors import InputError
from saddlewalk.figures.agf_attention import figure_5
from saddlewalk.figures.agf_diagonal import figure_3, figure_8
from saddlewalk.figures.agf_linear import figure_4
from saddlewalk.figures.agf_modular import figure_6
from saddlewalk.figures.agf_relu import figure_7
from saddlewalk.figures.claims import Claim as Claim
from saddlewalk.figures.claims import FigureResult as FigureResult
from saddlewalk.figures.claims import Maker
from saddlewalk.figures.saddle_architectures import figure_1 as saddle_1
from saddlewalk.figures.saddle_architectures import figure_4 as saddle_4
from saddlewalk.figures.saddle_architectures import figure_5 as saddle_5
from saddlewalk.figures.saddle_effects import figure_2 as saddle_2
from saddlewalk.figures.saddle_mnist import figure_3 as saddle_3
from saddlewalk.figures.saddle_skips import figure_6 as saddle_6
from saddlewalk.figures.studies.adaptive_rates import adaptive_rates
from saddlewalk.figures.studies.general_position import general_position
from saddlewalk.figures.studies.natural_data import natural_data

FIGURES: dict[str, Maker] = {
    "agf-3": figure_3,
    "agf-4": figure_4,
    "agf-5": figure_5,
    "agf-6": figure_6,
    "agf-7": figure_7,
    "agf-8": figure_8,
    "saddle-1": saddle_1,
    "saddle-2": saddle_2,
    "saddle-3": saddle_3,
    "saddle-4": saddle_4,
    "saddle-5": saddle_5,
    "saddle-6": saddle_6,
    "study-general-position": general_position,
    "study-adaptive-rates": adaptive_rates,
    "study-natural-data": natural_data,
}


def reproduce(name: str) -> FigureResult:
    """Draw one figure of the papers and check its claims."""
    if name not in FIGURES:
        raise InputError(f"Unknown figure '{name}'. Known: {', '.join(FIGURES)}.")
    return FIGURES[name]()
