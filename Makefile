# Targets for people and for CI; .ci/run calls the same ones.
PYTHON ?= python3
BIN := .venv/bin
SETUP := $(PYTHON) scripts/setup.py
SOURCES := pipeline tests demo scripts bench
# Containers often switch off compiled caches: each test worker would then compile every test and every module anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-long test-fast test-s3 lint format bench lock clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install everything that is missing: system packages, environments, the demo's model
	@$(SETUP)

demo: ## the main job on a real model: admit, publish, roll out, audit
	@$(SETUP) system core heavy engine model
	@$(BIN)/python demo/run.py

test: setup ## every test, with real services and then a real engine that has the machine to itself, and the coverage threshold
	$(BIN)/python scripts/run_tests.py

test-long: setup ## MMLU's own rows on the real model, and the real gateway; some minutes
	$(BIN)/python -m pytest -m long -o timeout=14400

test-fast: ## tests without services, engine or long work; a minute or two
	@$(SETUP) core
	$(BIN)/python -m pytest -q --numprocesses=$$(( 2 * $$(nproc) )) --dist=loadfile --no-loadscope-reorder -m "not services and not engine and not slow and not long"

test-s3: ## the registry's tests against your server: make test-s3 S3_ENDPOINT=http://host:9000, keys from the environment
	@$(SETUP) core
	@test -n "$(S3_ENDPOINT)" || { echo "make test-s3 S3_ENDPOINT=http://host:port, with MINIO_ACCESS_KEY and MINIO_SECRET_KEY in the environment"; exit 2; }
	S3_ENDPOINT="$(S3_ENDPOINT)" $(BIN)/python -m pytest -q tests/registry

lint: ## ruff, mypy, bandit, locks, documents, workflows
	@$(SETUP) core
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/mypy scripts bench demo
	$(BIN)/bandit --quiet --recursive --configfile pyproject.toml pipeline scripts bench demo
	$(BIN)/python scripts/lock.py --check
	$(BIN)/python scripts/check_docs.py
	$(BIN)/actionlint
	$(BIN)/zizmor --offline --quiet .github

format: ## let ruff mend what it can
	@$(SETUP) core
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

bench: ## start-up, hashing, trees and weights, measured beside well-known tools
	@$(SETUP) core
	$(BIN)/python bench/measure.py

lock: ## write requirements/ from the environments as they stand
	$(BIN)/python scripts/lock.py

clean: ## remove caches and what the demo and the tests left; environments and the model stay
	rm -rf .cache/demo .modelctl .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.* htmlcov dist build
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## also remove the environments and the model
	rm -rf .venv .venv-engine .venv-dvc .cache
