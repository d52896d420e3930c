.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin

help: ## List the commands
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## Set up everything: .venv, Python packages, Java if absent

$(VENV)/.ready: requirements.lock pyproject.toml scripts/setup
	@scripts/setup

demo: setup ## Run the quickstart: lineage, a live table, rows
	@scripts/demo

test: setup ## Lint, type-check and test
	@scripts/test

quick: setup ## Only the tests that need no Spark and no service
	@$(BIN)/pytest -q -n 2 --dist loadfile -m "not spark and not process and not browser" tests/unit tests/golden tests/site tests/repo

format: setup ## Format the code
	@$(BIN)/ruff format src tests bench scripts && $(BIN)/ruff check --fix src tests bench scripts

docs: setup ## Write the generated references and schemas anew
	@$(BIN)/python scripts/generate_docs.py

bench: setup ## Run the benchmarks
	@$(BIN)/python bench/validate.py && $(BIN)/python bench/embedded.py && $(BIN)/python bench/streaming.py

bench-kafka: setup ## Run the benchmarks of Kafka, beside plain Spark and Flink
	@$(BIN)/python bench/kafka.py && $(BIN)/python bench/latency.py

bench-sinks: setup ## Run the benchmarks of sinks and of sources that fill up, on real services
	@$(BIN)/python bench/postgres.py && $(BIN)/python bench/clickhouse.py && $(BIN)/python bench/webhook.py
	@$(BIN)/python bench/fan_out.py && $(BIN)/python bench/hybrid.py

chaos: setup ## Kill a running project again and again, then count its rows
	@$(BIN)/python tests/chaos/kill_rounds.py

chaos-broker: setup ## Let a broker stand still for a minute under a running project, then count its records
	@$(BIN)/python tests/chaos/broker_pause.py

lock: setup ## Pin the development packages anew
	@$(BIN)/pip freeze --exclude-editable | grep -v '^penstock' > requirements.lock

.PHONY: help setup demo test quick format docs bench bench-kafka bench-sinks chaos chaos-broker lock
