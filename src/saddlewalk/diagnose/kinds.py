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
        "degenerate saddle: no curvature leads out, but growth of a higher power (a new unit) does, slowly",
    )
    MINIMUM = "minimum", "minimum: no small change of these units lowers the loss"
    NO_MINIMUM = (
        "no finite minimum",
        "no finite minimum: nothing nearby lowers the loss, but it falls for ever as the weights grow",
    )
    NEAR_SADDLE = (
        "near a saddle",
        "near a saddle: the network does not rest, but loses less on its way than a new unit will gain",
    )
    NOT_FIXED = "not a fixed point", "not a fixed point: the network is on its way"
    NOT_DECIDED = (
        "not decided",
        "not decided: the search took longer than its limit, and this is what is known",
    )
    NOT_TESTED = "-", "-: nobody looked (saddles=False)"

    @property
    def is_saddle(self) -> bool:
        """Whether the network is here for a while and will leave."""
        kinds = PointKind.STRICT_SADDLE, PointKind.DEGENERATE_SADDLE, PointKind.NEAR_SADDLE
        return self in kinds


class RegimeKind(Word):
    """How a network learned."""

    LAZY = "lazy", "lazy: the tangent kernel stands still, so no features are learned"
    RICH = "rich", "rich: the tangent kernel changes while the loss falls, so features are learned"
    DELAYED_RICH = (
        "delayed rich",
        "delayed rich: the tangent kernel turns long after the loss began to fall",
    )
    TOO_EARLY = (
        "too early to say",
        "too early to say: the kernel stands still so far, but the run was cut while most was left to learn",
    )
