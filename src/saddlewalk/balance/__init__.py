"""How a unit's scale splits between its layers: what is conserved, and starts of one's choice."""

from saddlewalk.balance.conserved import Conserved as Conserved
from saddlewalk.balance.conserved import conserved_quantities as conserved_quantities
from saddlewalk.balance.imbalance import Imbalance as Imbalance
from saddlewalk.balance.imbalance import imbalances as imbalances
from saddlewalk.balance.rescale import alpha_of as alpha_of
from saddlewalk.balance.rescale import rescaled as rescaled
from saddlewalk.balance.sides import Side as Side
from saddlewalk.balance.starts import he_start as he_start
from saddlewalk.balance.steps import conserved_in_steps as conserved_in_steps
from saddlewalk.renamed import answer_old_names

__getattr__ = answer_old_names(
    __name__, {"incoming_degree": "saddlewalk.units.find_incoming_degree"}
)
