"""What is known of one entry, as a plain record: its verdict, its claims, and whether it was run in full."""

from typing import Any

from saddlewalk.figures.registry import Entry

REPRODUCED, PARTLY, FAILED, NOT_RUN = VERDICTS = "reproduced", "partly", "not reproduced", "not run"
Record = dict[str, Any]


def not_run(entry: Entry, reason: str) -> Record:
    """The record of an entry without a result.

    Parameters
    ----------
    entry : the figure or table.
    reason : why there is no result.
    """
    return {"figure": entry.name, "verdict": f"{NOT_RUN}: {reason}", "claims": [], "full": False}


def verdict_kind(record: Record) -> str:
    """One of `VERDICTS`, without what is said about it.

    Parameters
    ----------
    record : of an entry.
    """
    return str(record["verdict"]).split(":")[0]


def claims_held(record: Record) -> str:
    """How many claims hold, in words for a table.

    Parameters
    ----------
    record : of an entry.
    """
    claims = record["claims"]
    return f"{sum(claim['holds'] for claim in claims)} of {len(claims)}" if claims else "-"
