"""The words in which a diagnosis is given: kinds of points, and regimes of learning."""

from saddlewalk.show.words import Word


class PointKind(Word):
    """What kind of point a network rests at."""

    STRICT_SADDLE = (
        "strict saddle",
        "strict saddle: the loss has negative curvature, and the network leaves exponentially fast",
    )
    DEGENERATE_SADDLE = (
        "degenerate saddle",
        "degenerate saddle: no curvature leads out, but a new unit does, slowly",
    )
    MINIMUM = "minimum", "minimum: nothing nearby, and no new unit, lowers the loss"
    NOT_FIXED = "not a fixed point", "not a fixed point: the network is on its way"
    NOT_TESTED = "-", "-: nobody looked (saddles=False)"

    @property
    def is_saddle(self) -> bool:
        """Whether the network rests here and will leave."""
        return self in (PointKind.STRICT_SADDLE, PointKind.DEGENERATE_SADDLE)


class RegimeKind(Word):
    """How a network learned."""

    LAZY = "lazy", "lazy: the tangent kernel stands still, so no features are learned"
    RICH = "rich", "rich: the tangent kernel changes while the loss falls, so features are learned"
    DELAYED_RICH = (
        "delayed rich",
        "delayed rich: the tangent kernel turns long after the loss began to fall",
    )
