# Everything a person does with this repository. Each target sets up what it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
SEEDS  ?= 4

.DEFAULT_GOAL := help
.PHONY: help crawl test check sim bench bench-peers bench-publish soak clean

help:           ## say what the targets do
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/' | expand -t 18

# Enough to crawl, and everything for working on it: a newcomer's first crawl need not wait for the tools.
$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "amble needs Python 3.11 or newer; try: make PYTHON=python3.12" >&2; exit 1; }
	@echo "setting up $(VENV) ..." >&2
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.ready
	@echo "adding the tools for tests and benchmarks ..." >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,bench]'
	@touch $@

crawl: $(VENV)/.ready   ## crawl URL=..., or without it a demonstration web served on loopback
	@$(BIN)/python -m amble $(if $(URL),crawl '$(URL)',demo)

# Four on two cores: many tests wait for a site's pace.
test: check     ## lint, types, layers, then every test
	$(BIN)/python -m pytest -n 4

check: $(VENV)/.dev   ## lint, types and layers only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

sim: $(VENV)/.dev     ## the pacing laboratory: every strategy and peer rule against every server model
	$(BIN)/python -m amble.testing.lab --seeds $(SEEDS)

bench: $(VENV)/.dev   ## benchmarks, as ratios against peers measured in the same run
	$(BIN)/python -m bench

bench-peers: $(VENV)/.dev     ## amble beside other crawlers on the same farm; they get an environment of their own
	$(BIN)/python -m bench.peers $(if $(SCENARIOS),--scenarios $(SCENARIOS))

bench-publish: $(VENV)/.dev   ## put what the benchmarks found last into the documents
	$(BIN)/python -m bench._document $(PARTS)

soak: $(VENV)/.dev    ## the long campaigns
	AMBLE_KILLS=132 AMBLE_WORKER_KILLS=40 $(BIN)/python -m pytest -n 2 --hypothesis-profile=soak
	$(MAKE) sim SEEDS=20
	$(BIN)/python -m amble.testing.simulation --seeds 10000 --processes 2
	$(BIN)/python -m tests.simulation.mutants
	$(BIN)/python -m tests.cli.damaged

clean:          ## forget the environment and every cache
	rm -rf $(VENV) .venv-peers bench-results .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
