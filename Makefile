# `make help` lists the targets. Needs only make and Python 3.11 or newer; everything else goes into .venv.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check
OUT    := out
SEEDS  := 0:10000
SEED   :=
MOST   := 2500
N      := 100000
# The tests in two halves that take about as long, which run side by side.
MODELS := $(addprefix tests/,cases formulas hardware models ops plans programs rendering)
HALVES := pytest-models pytest-others
# Tests start many processes: each reads the bytecode that the first one wrote.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help accuracy agreement demo test test-long pytest $(HALVES) lint types bench calls fuzz laws lowest docs docs-check docs-faults docs-update web clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/ready  ## install, run the lines of docs/demo.txt, write charts to out/
	@mkdir -p $(OUT)
	@PATH="$(CURDIR)/$(BIN):$$PATH"; export PATH; \
	grep '^roofline ' docs/demo.txt | while IFS= read -r line; do \
		printf '\n$$ %s\n' "$$line"; eval "$$line" < /dev/null || exit 1; \
	done
	@printf '\ncharts: '; ls $(OUT) | tr '\n' ' '; echo

test: $(VENV)/ready-dev  ## everything CI checks: style, types, import contracts, docs, tests with doctests
	@$(MAKE) --no-print-directory --jobs=3 $(HALVES) docs-check types lint

test-long: $(VENV)/ready-dev  ## the tests with more random examples, fresh ones each time, every case of the long lists, and the long tests
	ROOFLINE_LONG=1 $(BIN)/python -m pytest --quiet --numprocesses=auto --dist=worksteal

pytest: $(VENV)/ready-dev  ## the tests alone, with doctests, on two processes; in a random order: make pytest ORDER=7
	@$(MAKE) --no-print-directory --jobs=2 $(HALVES)

# Each half reads its files alone, and tests of a file share their answers: half the CPU of two workers that read all.
pytest-models: $(VENV)/ready-dev
	ROOFLINE_ORDER=$(ORDER) $(BIN)/python -m pytest --quiet $(MODELS)

pytest-others: $(VENV)/ready-dev
	ROOFLINE_ORDER=$(ORDER) $(BIN)/python -m pytest --quiet $(MODELS:%=--ignore=%)

lint: $(VENV)/ready-dev  ## style, formatting, import contracts
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/lint-imports

types: $(VENV)/ready-dev  ## mypy, strict
	$(BIN)/mypy --strict --no-error-summary

docs: $(VENV)/ready-dev  ## build the documentation into docs/_build/html; a warning is an error
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --jobs auto docs docs/_build/html

docs-check: $(VENV)/ready-dev  ## the same pages, without what only readers need: navigation, search, examples at a phone's width
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --tag check docs docs/_build/check

docs-faults: docs  ## hold every page against what a reader needs, at five widths in both themes; needs Chromium
	$(BIN)/python -m tests.web.site docs/_build/html

docs-update: $(VENV)/ready-dev  ## run every example of the README and the docs, put its output in place
	$(BIN)/python -m tests.update_docs

bench: $(VENV)/ready  ## measure against the budgets
	$(BIN)/python benchmarks/run.py

fuzz: $(VENV)/ready-dev  ## hostile input by seed, limits of 2 GB and 10 s each; goes on where it was stopped: make fuzz SEEDS=0:100000
	nice $(BIN)/python -m tests.fuzz --seeds $(SEEDS)

calls: $(VENV)/ready-dev  ## hostile arguments of every function and of methods of answers: make calls SEED=1 MOST=60
	nice $(BIN)/python -m tests.fuzz.calls --seed "$(SEED)" --most $(MOST)

laws: $(VENV)/ready-dev  ## the laws of an answer on random questions, with the number of checks: make laws N=100000
	nice $(BIN)/python -m tests.laws --checks $(N)

agreement: $(VENV)/ready-dev  ## ten thousand random questions in numbers, arrays, symbols, compiled, Python and JavaScript
	nice $(BIN)/python -m tests.formulas.agreement

lowest: $(VENV)/ready  ## the tests with the lowest version of each library that an extra may bring
	$(BIN)/python -m tests.lowest

accuracy: $(VENV)/ready  ## fit the constants of estimates to measured kernels: make accuracy DATA=folder
	$(PIP) install --editable '.[estimate]'
	$(PIP) install scikit-learn
	$(BIN)/python -m benchmarks.estimates $(DATA) --catalog src/roofline/estimates/catalog
	$(BIN)/python -m benchmarks.estimates.page

web:  ## build the page of reports from web/ (needs node and npm)
	cd web && npm ci --no-fund --no-audit && npm run check && npm run build

clean:  ## remove everything that was made
	rm -rf $(VENV) $(OUT) docs/_build build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment is made afresh whenever pyproject.toml changes.
$(VENV)/ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "roofline needs Python 3.11 or newer, $(PYTHON) is " + sys.version.split()[0] + "; say make PYTHON=python3.12")'
	@echo "setting up $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install --editable .
	@touch $@

$(VENV)/ready-dev: $(VENV)/ready
	@echo "adding the test and docs tools to $(VENV)"
	@$(PIP) install --editable '.[test,docs]'
	@touch $@
