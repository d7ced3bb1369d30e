# Each target sets up what it needs. A machine with Python ≥ 3.11, pip and make is enough.
PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
CLIENTS := tests/clients/node_modules
WORKERS ?= 3
# Where .venv has no pip, the one of $(PYTHON) installs into it.
PIP     := $$(test -e $(BIN)/pip && echo $(BIN)/python -m pip || echo $(PYTHON) -m pip --python $(BIN)/python) \
           --disable-pip-version-check
# pip 22.3 can install into another environment; to put a pip into .venv takes as long as all the rest of `make run`.
CAN_LEND_PIP := $(PYTHON) -c 'import pip, sys; sys.exit([*map(int, pip.__version__.split(".")[:2])] < [22, 3])' 2>/dev/null

# Hundreds of processes are started here: each would compile the code anew where no bytecode may be written.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run test quick slow live adapters otel check format bench fuzz storm goldens schemas locales page docs clean

help: ## show this help
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

run: $(VENV)/.product ## install the product, then run `callsheet demo`: a poor agent, before and after
	@$(BIN)/callsheet demo

test: $(VENV)/.dev $(CLIENTS)/.done ## run all tests, in three processes; in more: make test WORKERS=4
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

quick: $(VENV)/.dev ## the tests of a minute: no servers, no clients from npm
	CALLSHEET_EXAMPLES=$(or $(CALLSHEET_EXAMPLES),20) $(BIN)/python -m pytest -n 2 --dist worksteal tests/unit

slow: $(VENV)/.dev ## the slow suites in full size
	CALLSHEET_FULL=1 $(BIN)/python -m pytest $$(grep -rlE '^from tests.support.sizes import' tests --include='test_*.py')

live: $(VENV)/.dev ## install real agents, and try the tap in front of them
	-$(BIN)/python -m tests.live.install
	CALLSHEET_LIVE=1 $(BIN)/python -m pytest tests/integration/live

adapters: $(VENV)/.dev $(CLIENTS)/.done ## install each framework in a venv of its own, and test its adapter; one: make adapters ONLY=langchain
	$(BIN)/python -m tests.adapters $(ONLY)

otel: $(VENV)/.dev ## install Phoenix, send it spans, and look at what it shows of them
	$(BIN)/python -m tests.phoenix

check: $(VENV)/.dev ## lint, types, layers, the budgets of packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_layout.py
	$(BIN)/callsheet lint src/callsheet/tools
	@if command -v npm >/dev/null; then $(MAKE) -s page && git diff --exit-code --stat src/callsheet/ui/static; \
	  else echo "no npm here: the page's bundle is not compared with its sources" >&2; fi

format: $(VENV)/.dev ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench ## peers side by side: a table, and bench/results.json
	$(BIN)/python -m bench

fuzz: $(VENV)/.dev ## send an agent and a tap 100,000 mutated messages; the same again: make fuzz SEED=…
	$(BIN)/python -m tests.support.agent_fuzz $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tests.support.tap_fuzz $(if $(SEED),--seed $(SEED))

storm: $(VENV)/.dev ## kill -9 in storms of calls, 200 times on each engine; the same again: make storm SEED=…
	CALLSHEET_FULL=1 CALLSHEET_SEED=$(SEED) $(BIN)/python -m pytest tests/soak/history/test_kills.py

goldens: $(VENV)/.dev ## make the golden outputs anew
	$(BIN)/python -m tests.golden

schemas: $(VENV)/.dev ## fetch the official ACP schemas anew from their npm package
	$(BIN)/python scripts/refresh_schemas.py

locales: $(VENV)/.dev ## extract the messages of titles, and compile the catalogues
	$(BIN)/python scripts/make_locales.py

page: ui/node_modules/.done ## bundle the web page anew (src/callsheet/ui/static)
	npm --prefix ui run -s build

docs: $(VENV)/.dev ## write the parts of docs/ that are made from the code, and draw the picture of the demo
	$(BIN)/python scripts/write_reference.py
	$(BIN)/python scripts/draw_demo.py

clean: ## remove what these made
	rm -rf $(VENV) .venvs $(CLIENTS) tests/live/.agents bench/node_modules ui/node_modules .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "callsheet needs Python 3.11 or newer, and $(PYTHON) is not that." \
	    "Name one that is: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Making $(VENV) with $$($(PYTHON) --version) ..."
	@$(PYTHON) -m venv $$($(CAN_LEND_PIP) && echo --without-pip) $(VENV)

# What users need, without the developers' tools. Where these are installed, the product is, too. Python compiles
# what is run; all that is installed would take longer.
$(VENV)/.product: pyproject.toml | $(VENV)/bin/python
	@test -e $(VENV)/.dev || $(PIP) install --no-compile -e .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(PIP) -q install -e '.[dev]'
	@touch $@

$(VENV)/.bench: $(VENV)/.dev bench/package.json
	$(PIP) -q install -e '.[dev,bench]'
	@if command -v npm >/dev/null; then npm --prefix bench install --no-audit --no-fund --loglevel=error; \
	  else echo "no npm here: the TypeScript SDK is left out" >&2; fi
	@touch $@

ui/node_modules/.done: ui/package.json
	npm --prefix ui install --no-audit --no-fund --loglevel=error
	@touch $@

# The clients that the agent is tested with. Without them, their tests are skipped, or fail where CI=true.
$(CLIENTS)/.done: tests/clients/package.json
	@if ! command -v npm >/dev/null; then echo "no npm here: the agent is not tested with clients in TypeScript" >&2; \
	  elif npm --prefix tests/clients install --no-audit --no-fund --loglevel=error; then touch $@; \
	  else echo "npm has failed: the agent is not tested with clients in TypeScript" >&2; fi
