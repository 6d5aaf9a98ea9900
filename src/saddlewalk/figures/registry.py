"""Every figure and table of the papers, and studies beyond them: what it is, and who makes it."""

import importlib
import inspect
from dataclasses import dataclass

from saddlewalk.errors import InputError, nearest
from saddlewalk.figures.claims import FigureResult, Maker

PAPERS = {
    "agf": "Alternating Gradient Flows",
    "saddle": "Saddle-to-Saddle Dynamics",
    "rich": "Get Rich Quick",
    "fact": "Features at Convergence",
    "group": "Sequential Group Composition",
    "study": "Studies beyond the papers",
}


@dataclass(frozen=True)
class Entry:
    """One figure or table."""

    name: str
    place: str
    """Where it stands in its paper."""
    made_by: str = ""
    """`module:function` within this package; nothing for a drawing that shows no result."""
    drawing: str = ""
    """What a drawing without a result shows."""
    differs: str = ""
    """What of the paper's setting is different here at any size."""

    @property
    def paper(self) -> str:
        """Title of its paper."""
        return PAPERS[self.name.split("-")[0]]

    @property
    def maker(self) -> Maker:
        """The function that makes it."""
        module, function = self.made_by.split(":")
        return getattr(importlib.import_module(f"saddlewalk.figures.{module}"), function)

    @property
    def summary(self) -> str:
        """What it shows, in a line."""
        if self.drawing:
            return self.drawing
        return (inspect.getdoc(self.maker) or "").split("\n\n")[0].replace("\n", " ")

    @property
    def two_sizes(self) -> bool:
        """Whether it is smaller here than in the paper unless `full` is asked for."""
        return bool(self.made_by) and "full" in inspect.signature(self.maker).parameters

    def make(self, full: bool = False) -> FigureResult:
        """Compute it, draw it and check its claims.

        Parameters
        ----------
        full : at the paper's size, where that is larger; others have one size.
        """
        if self.drawing:
            raise InputError(f"{self.name} is a drawing and shows no result: {self.drawing}.")
        return self.maker(full=True) if full and self.two_sizes else self.maker()


_DEEP = "one seed, width 1024 at most"
_MACHINE = "bandwidth 0.7 and 10 updates, not averaged (paper: 5, 5, averaged)"
_GROUPS = "spectra, groups and scales chosen"
_ALL = (
    Entry("agf-1", "Fig 1", drawing="an overview of the theory"),
    Entry("agf-2", "Fig 2", drawing="the two steps of Alternating Gradient Flows"),
    Entry("agf-3", "Fig 3", "agf.diagonal:figure_3"),
    Entry("agf-4", "Fig 4", "agf.linear:figure_4", differs="scale 1e-12 (paper: 1e-15)"),
    Entry("agf-5", "Fig 5", "agf.attention:figure_5"),
    Entry("agf-6", "Fig 6", "agf.modular:figure_6"),
    Entry(
        "agf-7",
        "Fig 7",
        "agf.relu:figure_7",
        differs="500 images, 16 components (paper: 5,000, 1,024)",
    ),
    Entry("agf-8", "Fig 8", "agf.diagonal:figure_8"),
    Entry(
        "saddle-1",
        "Fig 1",
        "saddles.architectures:figure_1",
        differs="starts of F and G chosen among eight that show both plateaus",
    ),
    Entry("saddle-2", "Fig 2", "saddles.effects:figure_2"),
    Entry("saddle-3", "Fig 3", "saddles.mnist:figure_3"),
    Entry("saddle-table-1", "Table 1", "saddles.mnist:table_1"),
    Entry(
        "saddle-4",
        "Fig 4",
        "saddles.architectures:figure_4",
        differs="2,048 samples (paper: 8,192); G and H start ten times larger, A at 0.005 with 10 heads "
        "(paper: 1e-6, 50)",
    ),
    Entry(
        "saddle-5",
        "Fig 5",
        "saddles.architectures:figure_5",
        differs="2,048 samples (paper: 8,192)",
    ),
    Entry("saddle-6", "Fig 6", "saddles.skips:figure_6"),
    Entry("rich-1a", "Fig 1a", "rich.teacher:figure_1a"),
    Entry("rich-1b", "Fig 1b", "rich.portrait:figure_1b"),
    Entry("rich-2", "Fig 2", "rich.neuron:figure_2"),
    Entry("rich-3", "Fig 3", "rich.neuron:figure_3"),
    Entry("rich-4", "Fig 4", "rich.neuron:figure_4"),
    Entry("rich-5a", "Fig 5a", "rich.lenet:figure_5a", differs="full: 85 epochs (paper: 500)"),
    Entry(
        "rich-5b",
        "Fig 5b",
        "rich.filters:figure_5b",
        differs="5,000 images at most (paper: 50,000), a small network without augmentation",
    ),
    Entry("rich-5c", "Fig 5c", "rich.hierarchy:figure_5c"),
    Entry("rich-5d", "Fig 5d", "rich.grokking:figure_5d", differs="with weight decay"),
    # Its appendix; the two figures there about filters and grokking are in 5b and 5d.
    Entry("rich-basins", "appendix", "rich.neuron:figure_basins"),
    Entry("rich-dynamics", "appendix", "rich.neuron:figure_dynamics"),
    Entry("rich-partition", "appendix", "rich.teacher:figure_partition"),
    Entry(
        "rich-supporting",
        "appendix",
        "rich.portrait:figure_supporting",
        differs="full: 100,000 steps (paper: 1,000,000)",
    ),
    Entry(
        "fact-table-1",
        "Table 1",
        "fact.training:table_1",
        differs="one seed",
    ),
    Entry("fact-1", "Fig 1", "fact.machines:figure_1", differs=_MACHINE),
    Entry("fact-2", "Fig 2", drawing="a model that depends on W through its product with h(x)"),
    Entry(
        "fact-table-2",
        "Table 2",
        "fact.training:table_2",
        differs="up to 5,000 images width 256, decay 1e-3 and 130 epochs, chosen to match the first column, "
        "three seeds (paper: 1024, 1e-4, 200)",
    ),
    Entry("fact-3", "Fig 3", "fact.training:figure_3", differs=_DEEP),
    Entry("fact-4", "Fig 4", "fact.networks:figure_4"),
    Entry(
        "fact-table-3", "Table 3", "fact.tabular:table_3", differs="86 tables at most (paper: 120)"
    ),
    Entry("fact-5", "Fig 5", "fact.machines:figure_5", differs=_MACHINE),
    Entry(
        "fact-6",
        "Fig 6",
        "fact.machines:figure_6",
        differs="matrices scaled to a constant trace; 70 updates (paper: 75)",
    ),
    Entry("fact-7", "Fig 7", "fact.machines:figure_7", differs="after 70 updates (paper: 75)"),
    Entry("fact-8", "Fig 8", "fact.training:figure_8", differs=_DEEP),
    Entry("fact-9", "Fig 9", "fact.training:figure_9", differs=_DEEP),
    Entry("fact-10", "Fig 10", "fact.training:figure_10", differs=_DEEP),
    Entry(
        "fact-11",
        "Fig 11",
        "fact.networks:figure_11",
        differs="64 hidden neurons, 1,000 samples (paper: 512, 5,000)",
    ),
    Entry("group-c11", "staircase of C11", "groups.staircases:figure_c11", differs=_GROUPS),
    Entry("group-c5xc5", "staircase of C5xC5", "groups.staircases:figure_c5xc5", differs=_GROUPS),
    Entry("group-d5", "staircase of D5", "groups.staircases:figure_d5", differs=_GROUPS),
    Entry(
        "group-octahedral",
        "staircase of the octahedral group",
        "groups.staircases:figure_octahedral",
        differs=_GROUPS,
    ),
    Entry(
        "group-a5",
        "staircase of A5",
        "groups.staircases:figure_a5",
        differs=f"{_GROUPS}; by default one representation",
    ),
    Entry("group-depth", "depth and width", "groups.depth:figure_depth", differs=_GROUPS),
    Entry("study-general-position", "study", "studies.general_position:general_position"),
    Entry("study-adaptive-rates", "study", "studies.adaptive_rates:adaptive_rates"),
    Entry("study-natural-data", "study", "studies.natural_data:natural_data"),
)
ENTRIES = {entry.name: entry for entry in _ALL}


def find_entry(name: str) -> Entry:
    """An entry by its name.

    Parameters
    ----------
    name : as in `saddlewalk reproduce list`; a near miss is told the name that it is near to.
    """
    if name not in ENTRIES:
        raise InputError(
            f"Unknown figure '{name}'.{nearest(name, ENTRIES)} `saddlewalk reproduce list` names all."
        )
    return ENTRIES[name]


def two_sizes() -> list[str]:
    """Entries that are smaller here than in the paper unless `full` is asked for."""
    return [name for name, entry in ENTRIES.items() if entry.two_sizes]
