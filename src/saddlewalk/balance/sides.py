"""On which side of a unit its weight lies."""

from saddlewalk.show.words import Word


class Side(Word):
    """Which layer of a unit outweighs the other, and so which one learns faster."""

    UPSTREAM = (
        "upstream",
        "upstream: the outgoing weights are the larger, the incoming ones learn faster",
    )
    BALANCED = "balanced", "balanced: weights in and out are alike, and learn together"
    DOWNSTREAM = (
        "downstream",
        "downstream: the incoming weights are the larger, the outgoing ones learn faster",
    )
    MIXED = "mixed", "mixed: some units are upstream, others downstream"
