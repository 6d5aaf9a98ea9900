"""Where a diagnostic looks: at a run, at a problem with weights, or at any network."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saddlewalk.landscape.base import AbstractLandscape
    from saddlewalk.problem.where import Where

    Anywhere = Where | AbstractLandscape
else:
    Anywhere = Any  # anything else is refused, with a sentence
