# Fairpool: everything one types often. `make` alone lists it.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.up-to-date
DEV    := $(VENV)/.dev-up-to-date
JOBS   ?= auto
PYTEST := $(BIN)/python -m pytest --numprocesses $(JOBS) --dist worksteal

ON_POSTGRESQL := FAIRPOOL_TEST_DATABASE=postgresql FAIRPOOL_KILL_ROUNDS=1 $(PYTEST) \
  tests/contracts tests/control tests/end_to_end/test_netapp_commands.py tests/simulation/test_two_processes.py

BENCHMARKS := $(sort $(filter-out bench/_%,$(wildcard bench/*.py)))

.DEFAULT_GOAL := help
.PHONY: help up down env ui native check test test-postgresql test-fast soak bench kube-assets pictures golden format constraints clean

help: ## List the targets
	@echo "Fairpool. Targets:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "Settings: PYTHON=$(PYTHON) (3.11 to 3.14), JOBS=$(JOBS) (parallel test processes)"

env: $(DEV) ui native ## Create or update the development environment in .venv

# What running needs, and nothing else.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' || { \
	  echo "Fairpool needs Python 3.11 to 3.14; '$(PYTHON)' is another version."; \
	  echo "Choose another one, e.g.: make env PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot create virtual environments: its venv module is incomplete."; \
	  echo "On Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@$(BIN)/python -c 'import pip' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group build
	FAIRPOOL_UI=skip FAIRPOOL_NATIVE=skip $(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation --editable .
	@touch $@

# What tests, checks and benchmarks need beside that.
$(DEV): $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev
	@touch $@

# Only if its sources have changed. Node comes from the path or, for this alone, from PyPI into .node.
ui: $(STAMP) ## Build the web UI into the package (FAIRPOOL_UI=skip: leave it out)
	@$(BIN)/python -m tools.ui_build

# Only if its sources have changed. Where there is no C compiler one line says so, and everything else works.
native: $(STAMP) ## Build the library of GPU shares into the package (FAIRPOOL_NATIVE=skip: leave it out)
	@$(BIN)/python -m tools.native_build

up: $(STAMP) ui native ## Start the platform in the background and sign you in
	@$(BIN)/fairpool up --detach

down: ## Stop the platform; running pods are not affected
	@if [ -x $(BIN)/fairpool ]; then $(BIN)/fairpool down; else echo "There is no .venv here: nothing to stop."; fi

check: env ## Check formatting, lint, types, import rules and house rules
	$(BIN)/ruff format --check --output-format concise .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.tidy
	$(BIN)/python -m tools.ui_build run check

# Programs that cannot be built are named here; then tests that need them are skipped, and fail where CI runs.
test: env ## Run all tests, then those of the control plane again on PostgreSQL
	@$(BIN)/python -m tools.kube_assets >/dev/null || true
	$(BIN)/python -m tools.ui_build run test
	$(PYTEST)
	$(ON_POSTGRESQL)

test-postgresql: env ## Run the tests of the control plane on PostgreSQL
	$(ON_POSTGRESQL)

test-fast: env ## Run the tests that are not marked slow
	$(PYTEST) -m "not slow"

SEEDS ?= 1000
FIRST ?= 0
APART ?= 200
ROUNDS ?= 20
SUBMITS ?= 6000
CHAOS_S ?= 180
REQUESTS ?= 1000000
TAB_MINUTES ?= 60
soak: env ## Fault injection, fuzz, a real server killed, a long run: make soak SEEDS=10000 FIRST=0 APART=200 ROUNDS=20 REQUESTS=1000000
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) --first $(FIRST)
	$(BIN)/python -m tests.simulation --two-processes --seeds $(APART) --first $(FIRST)
	FAIRPOOL_TEST_DATABASE=postgresql $(BIN)/python -m tests.simulation --two-processes --seeds $(APART) --first $(FIRST)
	$(BIN)/python -m tests.fuzz --requests $(REQUESTS)
	FAIRPOOL_WORLDS=50 $(PYTEST) tests/properties/test_prepared.py
	FAIRPOOL_KILL_ROUNDS=$(ROUNDS) $(PYTEST) tests/end_to_end/test_netapp_commands.py
	FAIRPOOL_KILL_ROUNDS=$(ROUNDS) $(PYTEST) tests/end_to_end/test_netapp_two_programs.py
	FAIRPOOL_KILL_ROUNDS=$(ROUNDS) FAIRPOOL_API_SERVER_AWAY_S=600 $(PYTEST) tests/kubernetes/test_netapp.py
	FAIRPOOL_CHAOS_S=$(CHAOS_S) $(PYTEST) tests/end_to_end/test_chaos.py
	$(BIN)/python -m bench.longrun --submits $(SUBMITS)
	$(BIN)/python -m bench.web_ui --minutes $(TAB_MINUTES)

bench: env ## Run the benchmarks one after the other
ifeq ($(BENCHMARKS),)
	@echo "There are no benchmarks in bench/."
else
	@set -e; for module in $(BENCHMARKS:bench/%.py=%); do echo "== bench.$$module"; $(BIN)/python -m bench.$$module; done
endif

kube-assets: $(STAMP) ## Build a Kubernetes cluster's programs for tests, once, into ~/.cache
	@$(BIN)/python -m tools.kube_assets

pictures: env ## Take pictures of every page of the web UI for the documentation
	FAIRPOOL_PICTURES=docs/images/web-ui $(BIN)/python -m pytest -q tests/browser/test_pages.py

golden: env ## Update golden files and generated reference pages; review the diff
	$(BIN)/python -m tools.messages --write
	$(BIN)/python -m tools.module_map --write
	$(BIN)/python -m tools.api_reference
	$(BIN)/python -m tools.ui_schema
	$(BIN)/python -m tools.role_reference
	$(BIN)/python -m tools.flag_table
	$(BIN)/python -m tools.operator_manifest
	FAIRPOOL_WRITE_GOLDEN=1 $(BIN)/python -m pytest -q tests/contracts/test_permissions.py \
	  tests/end_to_end/test_golden_screens.py tests/client/test_client.py

format: env ## Format the code and apply lint fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Three weeks back, because a fresh release may come before the packages it needs.
constraints: env ## Update the pinned versions; review the diff
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --group dev --group ui \
	  --exclude-newer "$$($(BIN)/python -c 'import datetime as d; print(d.date.today() - d.timedelta(weeks=3))')" \
	  --no-annotate --no-header --upgrade --output-file constraints.txt pyproject.toml

clean: ## Remove the virtual environment, caches and builds
	rm -rf $(VENV) .venv-client .node ui/node_modules src/fairpool/control/static .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist build
	find src tests tools bench -name __pycache__ -type d -prune -exec rm -rf {} +
