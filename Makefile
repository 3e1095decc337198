# Each target is what a person can also type; `make test` and `make demo` set everything up first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo test check bench clean

demo: $(READY) ## the main job, end to end, in about 20 s
	$(BIN)/scouter demo

test: $(READY) ## all tests; what needs Kafka or Prometheus is skipped where they are missing
	$(BIN)/python -m pytest -n 3 --dist loadfile

check: $(READY) ## format, lint, types and import direction
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/python -m pytest -q tests/test_direction.py

bench: $(READY) ## figures of the hot paths, each beside a baseline
	$(BIN)/python -m tests.bench.engine
	$(BIN)/python -m tests.bench.sdk
	$(BIN)/python -m tests.bench.away
	$(BIN)/python -m tests.bench.collector
	$(BIN)/python -m tests.bench.collector_kafka
	$(BIN)/python -m tests.bench.pipeline
	$(BIN)/python -m tests.bench.http
	$(BIN)/python -m tests.bench.stored
	$(BIN)/python -m tests.bench.known
	$(BIN)/python -m tests.bench.api
	$(BIN)/python -m tests.bench.judge
	$(BIN)/python -m tests.bench.calibration
	$(BIN)/python -m tests.bench.soak --minutes 10
	$(BIN)/python -m tests.bench.kill
	$(BIN)/python -m tests.bench.kill --kafka
	$(BIN)/python -m tests.bench.outage
	SCOUTER_FUZZ_SECONDS=120 $(BIN)/python -m pytest tests/fuzz/test_api.py

clean: ## remove the environment and the caches
	rm -rf $(VENV) .cache .pytest_cache .ruff_cache .hypothesis build dist *.egg-info

# `--group` needs pip 25.1; a fresh venv has the pip of its Python.
$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Scouter needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[demo,rabbitmq,redis]' --group dev
	touch $(READY)
