"""Put the scorecard of a folder of results into the docs: `make gallery`.

Every claim, number and verdict comes from the runs in that folder; pictures are made smaller.
"""

import sys
from pathlib import Path

from PIL import Image

from saddlewalk.figures import ENTRIES, Scorecard
from saddlewalk.figures.registry import PAPERS

HERE = Path(__file__).parent
WIDTH, COLORS = 1100, 128


def main(results: Path) -> None:
    """The page, and its pictures."""
    card = Scorecard.read(results)
    missing = [
        name
        for name, record in card.records.items()
        if not (record["claims"] or ENTRIES[name].drawing or (results / f"{name}.error").is_file())
    ]
    if missing:
        raise SystemExit(
            f"No result of this code: {', '.join(missing)}. Run `saddlewalk reproduce all`."
        )
    (HERE / "pictures").mkdir(exist_ok=True)
    for paper in PAPERS:
        for picture in (HERE / "pictures").glob(f"{paper}-*.png"):
            picture.unlink()
    lines = [
        "# Gallery and scorecard",
        "",
        f"`saddlewalk reproduce all` on two cores, at default sizes: **{card.summary}**. A claim is a "
        "statement of the paper, or one of ours about it, with a number; it holds or it does not. "
        "`reproduce NAME --full` is the paper's size where that is larger.",
    ]
    for key, paper in PAPERS.items():
        lines += ["", f"## {paper}", "", "| | | claims | verdict |", "| --- | --- | --- | --- |"]
        names = [name for name in ENTRIES if name.split("-")[0] == key]
        lines += [_row(name, card.records[name]) for name in names]
        for name in names:
            if card.records[name]["claims"]:
                _shrink(results / name / "figure.png", HERE / "pictures" / f"{name}.png")
                lines += _section(name, card.records[name])
    (HERE / "gallery.md").write_text("\n".join(lines) + "\n")


def _row(name: str, record: dict) -> str:
    claims = record["claims"]
    kind, *why = record["verdict"].split(": ", 1)
    verdict = kind if claims else f"{kind}: {why[0]}"
    held = f"{sum(c['holds'] for c in claims)} of {len(claims)}" if claims else ""
    where = f"[{name}](#{name})" if claims else name
    return (
        f"| {where}, {record['place']} | {_cell(record['summary'])} | {held} | {_cell(verdict)} |"
    )


def _section(name: str, record: dict) -> list[str]:
    rows = [
        f"| {'yes' if c['holds'] else '**no**'} | {_cell(c['statement'])} | {_cell(c['measured'])} |"
        for c in record["claims"]
    ]
    head = ["| holds | claim | measured here |", "| --- | --- | --- |"]
    title = f"### {name}: {record['title']} {{ #{name} }}"
    picture = f"![{record['title']}](pictures/{name}.png)"
    differs = [f"*{record['differs']}*", ""] if record["differs"] else []
    return ["", title, "", *differs, picture, "", *head, *rows]


def _cell(words: str) -> str:
    for old, new in (("|", "\\|"), ("[", "&#91;"), ("<", "&lt;"), ("*", "\\*"), ("_", "\\_")):
        words = words.replace(old, new)
    return words


def _shrink(source: Path, target: Path) -> None:
    with Image.open(source) as image:
        picture = image.convert("RGB")
        height = round(picture.height * WIDTH / picture.width)
        if picture.width > WIDTH:
            picture = picture.resize((WIDTH, height), Image.Resampling.LANCZOS)
        picture.quantize(COLORS).save(target, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
