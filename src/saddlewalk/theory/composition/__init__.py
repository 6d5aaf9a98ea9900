"""Composition in a group, one representation at a time: utilities, stages, and exact networks."""

from saddlewalk.theory.composition.deep import recurrent_network as recurrent_network
from saddlewalk.theory.composition.deep import tree_network as tree_network
from saddlewalk.theory.composition.exact import exact_network as exact_network
from saddlewalk.theory.composition.exact import neurons_needed as neurons_needed
from saddlewalk.theory.composition.theory import CompositionTheory as CompositionTheory
from saddlewalk.theory.composition.theory import ordered_parts as ordered_parts
from saddlewalk.theory.composition.utilities import maximal_utility as maximal_utility
from saddlewalk.theory.composition.utilities import maximizer as maximizer
from saddlewalk.theory.composition.utilities import part_utility as part_utility
from saddlewalk.theory.composition.utilities import utility as utility
