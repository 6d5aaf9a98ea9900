"""The page of a watch: one file for a browser, which shows itself anew while training runs."""

import base64
import html
import io
from pathlib import Path
from typing import TYPE_CHECKING

from saddlewalk.store import replacing

if TYPE_CHECKING:
    from saddlewalk.watch.base import AbstractWatch

_SECONDS = 5
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="{seconds}">
<title>{title}</title>
<style>body{{font:15px/1.5 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 1em;color:#222}}
img{{max-width:100%}}table{{border-collapse:collapse;font-size:13px}}td,th{{padding:.15em .7em}}
caption{{text-align:left;font-weight:600;padding:.5em 0}}p.now{{font-size:17px}}</style></head>
<body><h1>{title}</h1><p class="now">{now}</p>
<img alt="Loss, forecasts of its next drop, lengths of units and their growth, by step"
 src="data:image/png;base64,{picture}">
{table}
<p>Looks have taken {share:.1f}% of the training time. The page reads itself again every {seconds} s.</p>
</body></html>
"""


def write_page(watch: "AbstractWatch", path: Path) -> Path:
    """Write the page, whole or not at all.

    Parameters
    ----------
    watch : what it shows.
    path : the file.
    """
    record, picture = watch.record, io.BytesIO()
    axes = record.plot()
    axes[0].figure.savefig(picture, format="png", dpi=110)
    words = _PAGE.format(
        seconds=_SECONDS,
        title=html.escape(record.title),
        now=html.escape(str(watch)),
        picture=base64.b64encode(picture.getvalue()).decode(),
        table=record._repr_html_(),
        share=100 * watch.budget.share,
    )
    with replacing(path) as draft:
        draft.write_text(words, encoding="utf-8")
    return path
