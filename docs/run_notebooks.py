"""Notebooks as pages: scripts in cells, run from top to bottom and shown with what they print and draw.

A notebook is kept as a script (`# %%` begins a cell), without output: it can be read, compared and
checked like other code. The documentation runs them and makes a page of each; one that has not
changed, nor the package, is not run again. `make notebooks` writes them to `build/notebooks`, for
Jupyter.
"""

import base64
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jupytext
import nbformat
from nbclient import NotebookClient

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted((ROOT / "docs" / "notebooks").glob("*.py"))
FOR_JUPYTER = ROOT / "build" / "notebooks"
DONE = ROOT / "build" / "notebooks-run"
CHECK = "check"
"""Cells with this tag hold what the words around them say; they are run, and not shown."""
_QUICK = {
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_backend_optimization_level=0",
}
"""Small networks run for milliseconds and are compiled for seconds."""


def on_files(files: "Files", config: Any) -> "Files":
    """Each notebook as a page, its pictures, and the notebook itself to download."""
    from mkdocs.structure.files import File

    with ThreadPoolExecutor(max_workers=2) as pool:
        for script, notebook in zip(SCRIPTS, pool.map(run, SCRIPTS), strict=True):
            page = "notebooks/" + script.stem
            notebook.cells = shown(notebook)
            text, pictures = as_page(notebook.cells, script.stem)
            text += f"\n\n[Download this notebook]({script.stem}.ipynb)\n"
            files.append(File.generated(config, f"{page}.md", content=text))
            for name, content in pictures.items():
                files.append(File.generated(config, f"notebooks/{name}", content=content))
            whole = nbformat.writes(notebook)
            files.append(File.generated(config, f"{page}.ipynb", content=whole))
    return files


def run(script: Path) -> Any:
    """The notebook of a script with its outputs; a cell that fails ends it with its words.

    Parameters
    ----------
    script : the file, in cells.
    """
    key, kept = _key(script), DONE / f"{script.stem}.ipynb"
    if kept.exists() and (done := nbformat.read(kept, 4)).metadata.get("key") == key:
        return done
    notebook = read(script)
    notebook.metadata["key"] = key
    environment = {**os.environ, **{k: os.environ.get(k, v) for k, v in _QUICK.items()}}
    with tempfile.TemporaryDirectory() as desk:
        client = NotebookClient(
            notebook, timeout=600, kernel_name="python3", extra_arguments=["--log-level=40"]
        )
        client.resources = {"metadata": {"path": desk}}
        client.execute(env=environment)
    DONE.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, kept)
    return notebook


def read(script: Path) -> Any:
    """The notebook of a script, not run.

    Parameters
    ----------
    script : the file, in cells.
    """
    notebook = jupytext.read(script)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook.metadata["kernelspec"] = kernel
    return notebook


def shown(notebook: Any) -> list[Any]:
    """Its cells, without those that check the words of the others.

    Parameters
    ----------
    notebook : run, or not.
    """
    return [cell for cell in notebook.cells if CHECK not in cell.metadata.get("tags", [])]


def as_page(cells: list[Any], name: str) -> tuple[str, dict[str, bytes]]:
    """Text of the page, and its pictures by file name.

    Parameters
    ----------
    cells : what is shown.
    name : of the notebook, with which the names of its pictures begin.
    """
    text, pictures = [], dict[str, bytes]()
    for cell in cells:
        if cell.cell_type == "markdown":
            text.append(cell.source)
            continue
        text.append(f"```python\n{cell.source}\n```")
        drawn = [output for output in cell.outputs if "image/png" in output.get("data", {})]
        if bool(drawn) != ("alt" in cell.metadata):
            raise ValueError(
                f"{name}: a cell draws, and only then says what (alt=):\n{cell.source}"
            )
        for output in cell.outputs:
            data = output.get("data", {})
            if "image/png" in data:
                file = f"{name}-{len(pictures) + 1}.png"
                pictures[file] = base64.b64decode(data["image/png"])
                text.append(f"![{cell.metadata['alt']}]({file})")
            elif drawn and output.output_type == "execute_result":
                continue  # the name of what was drawn on
            elif "text/html" in data:
                text.append(f'<div class="output">{data["text/html"]}</div>')
            else:
                text.append(f"```text\n{output.get('text') or data['text/plain']}\n```")
    return "\n\n".join(text), pictures


def _key(script: Path) -> str:
    """Changes with the notebook and with the package."""
    total = hashlib.sha256(sys.version.encode())
    for file in (script, *_sources()):
        total.update(file.read_bytes())
    return total.hexdigest()


def _sources() -> Iterator[Path]:
    yield from sorted((ROOT / "src").rglob("*.py"))


if __name__ == "__main__":
    FOR_JUPYTER.mkdir(parents=True, exist_ok=True)
    for script in SCRIPTS:
        notebook = read(script)
        notebook.cells = shown(notebook)
        nbformat.write(notebook, FOR_JUPYTER / f"{script.stem}.ipynb")
    print(
        f"{len(SCRIPTS)} notebooks in {FOR_JUPYTER.relative_to(ROOT)}: open them in VS Code, or in Jupyter "
        "(.venv/bin/python -m pip install jupyterlab, then .venv/bin/jupyter lab build/notebooks)."
    )
