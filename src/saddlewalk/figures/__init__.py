"""The papers' figures and studies beyond them: one function each, with its claims as numbers."""

import inspect

from saddlewalk.errors import InputError
from saddlewalk.figures.agf_attention import figure_5
from saddlewalk.figures.agf_diagonal import figure_3, figure_8
from saddlewalk.figures.agf_linear import figure_4
from saddlewalk.figures.agf_modular import figure_6
from saddlewalk.figures.agf_relu import figure_7
from saddlewalk.figures.claims import Claim as Claim
from saddlewalk.figures.claims import FigureResult as FigureResult
from saddlewalk.figures.claims import Maker
from saddlewalk.figures.fact_machines import figure_1 as fact_1
from saddlewalk.figures.fact_machines import figure_5 as fact_5
from saddlewalk.figures.fact_machines import figure_6 as fact_6
from saddlewalk.figures.fact_machines import figure_7 as fact_7
from saddlewalk.figures.fact_networks import figure_4 as fact_4
from saddlewalk.figures.fact_networks import figure_11 as fact_11
from saddlewalk.figures.fact_tabular import table_3 as fact_table_3
from saddlewalk.figures.fact_training import figure_3 as fact_3
from saddlewalk.figures.fact_training import figure_8 as fact_8
from saddlewalk.figures.fact_training import figure_9 as fact_9
from saddlewalk.figures.fact_training import figure_10 as fact_10
from saddlewalk.figures.fact_training import table_1 as fact_table_1
from saddlewalk.figures.fact_training import table_2 as fact_table_2
from saddlewalk.figures.rich_filters import figure_5b as rich_5b
from saddlewalk.figures.rich_grokking import figure_5d as rich_5d
from saddlewalk.figures.rich_hierarchy import figure_5c as rich_5c
from saddlewalk.figures.rich_lenet import figure_5a as rich_5a
from saddlewalk.figures.rich_neuron import figure_2 as rich_2
from saddlewalk.figures.rich_neuron import figure_3 as rich_3
from saddlewalk.figures.rich_neuron import figure_4 as rich_4
from saddlewalk.figures.rich_neuron import figure_7 as rich_7
from saddlewalk.figures.rich_neuron import figure_8 as rich_8
from saddlewalk.figures.rich_portrait import figure_1a as rich_1a
from saddlewalk.figures.rich_portrait import figure_1b as rich_1b
from saddlewalk.figures.rich_portrait import figure_partition as rich_partition
from saddlewalk.figures.rich_portrait import figure_supporting as rich_supporting
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
    "fact-1": fact_1,
    "fact-3": fact_3,
    "fact-4": fact_4,
    "fact-5": fact_5,
    "fact-6": fact_6,
    "fact-7": fact_7,
    "fact-8": fact_8,
    "fact-9": fact_9,
    "fact-10": fact_10,
    "fact-11": fact_11,
    "fact-table-1": fact_table_1,
    "fact-table-2": fact_table_2,
    "fact-table-3": fact_table_3,
    "rich-1a": rich_1a,
    "rich-1b": rich_1b,
    "rich-2": rich_2,
    "rich-3": rich_3,
    "rich-4": rich_4,
    "rich-5a": rich_5a,
    "rich-5b": rich_5b,
    "rich-5c": rich_5c,
    "rich-5d": rich_5d,
    "rich-7": rich_7,
    "rich-8": rich_8,
    "rich-partition": rich_partition,
    "rich-supporting": rich_supporting,
    "study-general-position": general_position,
    "study-adaptive-rates": adaptive_rates,
    "study-natural-data": natural_data,
}


def reproduce(name: str, full: bool = False) -> FigureResult:
    """Draw one figure of the papers and check its claims; `full`: at the paper's size, if that is larger."""
    if name not in FIGURES:
        raise InputError(f"Unknown figure '{name}'. Known: {', '.join(FIGURES)}.")
    if not full:
        return FIGURES[name]()
    if not has_two_sizes(name):
        raise InputError(
            f"'{name}' has one size, the paper's; those with two: {', '.join(two_sizes())}."
        )
    return FIGURES[name](full=True)


def two_sizes() -> list[str]:
    """Figures that are smaller here than in the paper unless `full` is asked for."""
    return [name for name in FIGURES if has_two_sizes(name)]


def has_two_sizes(name: str) -> bool:
    """Whether a figure takes `full`."""
    return "full" in inspect.signature(FIGURES[name]).parameters
