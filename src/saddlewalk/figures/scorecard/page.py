"""The scorecard as one HTML page: an overview a paper, then each entry with its picture and claims."""

import html
from collections.abc import Iterable

from saddlewalk.figures.registry import PAPERS
from saddlewalk.figures.scorecard.records import Record, claims_held, verdict_kind

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 0.5rem 0 1rem; }
td, th { border-bottom: 1px solid #ddd; padding: 0.25rem 0.5rem; text-align: left; vertical-align: top; }
img { max-width: 100%; border: 1px solid #eee; }
section { margin: 2.5rem 0; }
.reproduced { color: #17692c; } .partly { color: #9a5b00; } .not-run { color: #777; }
.not-reproduced { color: #a11; }
.no { color: #a11; font-weight: 600; }
"""


def page_of(summary: str, records: Iterable[Record]) -> str:
    """The whole page, from the card in a line and what is known of each entry.

    Parameters
    ----------
    summary : the card in a line.
    records : of all entries.
    """
    known = list(records)
    body = [
        "<h1>saddlewalk: does it reproduce the papers?</h1>",
        f"<p>{_safe(summary)}. Every number was computed by <code>saddlewalk reproduce</code>; a claim "
        "of the paper, or one of ours about it, holds or it does not. What differs from the paper's setting "
        "is said.</p>",
    ]
    for paper in PAPERS.values():
        of_paper = [record for record in known if record["paper"] == paper]
        body += [f"<h2>{_safe(paper)}</h2>", _overview(of_paper)]
        body += [_section(record) for record in of_paper if record["claims"]]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>saddlewalk scorecard</title>'
        f"<style>{_STYLE}</style></head><body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _overview(records: Iterable[Record]) -> str:
    rows = (
        f"<tr><td>{_linked(r)}</td><td>{_safe(r['place'])}</td>"
        f"<td>{_safe(r['summary'])}</td><td>{claims_held(r)}</td><td>{_verdict(r)}</td></tr>"
        for r in records
    )
    heads = "".join(f"<th>{h}</th>" for h in ("name", "place", "what", "claims", "verdict"))
    return f"<table><tr>{heads}</tr>" + "".join(rows) + "</table>"


def _linked(record: Record) -> str:
    name = record["figure"]
    return f'<a href="#{name}">{name}</a>' if record["claims"] else name


def _section(record: Record) -> str:
    name = record["figure"]
    rows = "".join(
        f"<tr><td>{'yes' if c['holds'] else '<span class=no>no</span>'}</td>"
        f"<td>{_safe(c['statement'])}</td><td>{_safe(c['measured'])}</td></tr>"
        for c in record["claims"]
    )
    size = f" ({record['differs']})" if record["differs"] else ""
    return (
        f'<section id="{name}"><h3>{name}: {_safe(record["title"])}{_safe(size)}</h3>'
        f"<p>{_verdict(record)}</p>"
        f'<img src="{name}/figure.png" alt="{_safe(record["title"])}" loading="lazy">'
        f"{_explored(record)}<table><tr><th>holds</th><th>claim</th><th>measured here</th></tr>"
        f"{rows}</table></section>"
    )


def _explored(record: Record) -> str:
    """A link to the page of its runs, where there is one."""
    if not record.get("explored"):
        return ""
    return f'<p><a href="{record["figure"]}/explore.html">Explore its runs</a></p>'


def _verdict(record: Record) -> str:
    return (
        f'<span class="{verdict_kind(record).replace(" ", "-")}">{_safe(record["verdict"])}</span>'
    )


def _safe(words: str) -> str:
    return html.escape(str(words))
