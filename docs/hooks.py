"""Formulas as MathML, which browsers draw by themselves: no script, nothing fetched when a page is read."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
_ROLE = re.compile(r":math:<code>(.*?)</code>", re.DOTALL)
_BLOCK = re.compile(
    r"<p>\.\. math::</p>\s*(?:<div.*?>)?<pre>.*?<code>(.*?)</code></pre>", re.DOTALL
)


def on_page_content(content: str, **_: Any) -> str:
    """Formulas of pages, and those of docstrings."""
    content = _FORMULA.sub(lambda m: _mathml(m[2], block=m[1] == "div"), content)
    content = _ROLE.sub(lambda m: _mathml(m[1]), content)
    return _BLOCK.sub(lambda m: _mathml(re.sub("<.*?>", "", m[1]), block=True), content)


def _mathml(latex: str, block: bool = False) -> str:
    return convert(html.unescape(latex).strip(), display="block" if block else "inline")
