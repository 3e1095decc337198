# Each target is what a person can also type; `make test` and `make demo` set everything up first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
ROOMS  := $(addprefix tests/scouter/,evaluate replay drift model formats queue alert)
PYTEST := $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

.PHONY: demo fleet test test-quick test-failed test-long test-fleet fuzz check bench docs clean

demo: $(READY) ## the main job, end to end, in about half a minute; KEEP=1 leaves its page open
	$(BIN)/scouter demo $(if $(KEEP),--keep)

fleet: $(READY) ## a small fleet on this machine, without containers; needs Java, Maven and PostgreSQL
	PYTHONPATH=. $(BIN)/python deploy/fleet/local.py

test: $(READY) ## all tests; what needs Kafka or Prometheus is skipped where they are missing
	$(PYTEST)

test-quick: $(READY) ## the minute between two edits; `make test-quick ROOMS=tests/collector/api` for others
	$(PYTEST) -m "not (long or hypothesis or pace)" $(ROOMS)

test-failed: $(READY) ## the tests that failed in the last run, one after the other
	$(BIN)/python -m pytest -rA --last-failed --last-failed-no-failures none

test-long: $(READY) ## what `make test` shows in a shorter form: every step, every benchmark
	$(PYTEST) -m long

test-fleet: $(READY) ## a fleet under 30 kills, 10 joins and 4 freezes; ten minutes
	$(BIN)/python -m tests.support.fleet_run

fuzz: $(READY) ## property tests on new examples; `make test` has the same ones in each run
	$(PYTEST) --hypothesis-profile fuzz -m "hypothesis and not long"

check: $(READY) ## format, lint, types and import direction
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/python -m pytest -q tests/test_direction.py

bench: $(READY) ## figures of the hot paths beside their bounds; fails if one is missed
	$(BIN)/python -m tests.bench

docs: $(READY) ## the documentation as a searchable site in site/; a dead link fails
	$(BIN)/python -m pip install --quiet --group docs
	$(BIN)/python -m mkdocs build

clean: ## remove the environment and the caches
	rm -rf $(VENV) site docs/reference/openapi.json .cache .pytest_cache .ruff_cache .hypothesis build dist *.egg-info

# `--group` needs pip 25.1; a fresh venv has the pip of its Python.
$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Scouter needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[demo,rabbitmq,redis]' --group dev
	touch $(READY)
