# Every target installs what it needs into this folder first; see README.md.
SHELL := /bin/sh
PY := .venv/bin/python
PYTEST := $(PY) -m pytest

.PHONY: docs environment setup demo up down test test-faults lint bench soak load clean

environment:
	@/bin/sh stack/setup.sh environment

setup:
	@/bin/sh stack/setup.sh

demo: setup
	@.venv/bin/payhook demo

up: setup
	@.venv/bin/payhook up

down: setup
	@.venv/bin/payhook down

# The same examples and orders in each run.
test: export PYTHONHASHSEED = 0
test: setup
	@$(PY) -m tests.parts \
		"tests/unit tests/contract -q -n 3 --dist worksteal" \
		"tests/integration/ledger -q -n 2 --dist loadfile" \
		"tests/browser tests/security tests/integration --ignore=tests/integration/ledger -q -n 2 --dist loadfile" \
		"tests/e2e -q -n 2 --dist loadfile"

# Other examples in each run; `make test-faults SEED=N` is that run again.
test-faults: SEED := $(or $(SEED),$(shell date +%s))
test-faults: export PYTHONHASHSEED = $(SEED)
test-faults: export HYPOTHESIS_PROFILE := $(or $(HYPOTHESIS_PROFILE),faults)
test-faults: export OBJECT_STORE = 1
test-faults: setup
	@echo "hypothesis takes seed $(SEED); the same run again: make test-faults SEED=$(SEED)"
	@$(PY) -m tests.parts \
		"tests/unit tests/contract tests/integration -m hypothesis -q --timeout=7200 -n 2 --hypothesis-seed=$(SEED)" \
		"$(wildcard tests/faults tests/e2e) -q --timeout=1800 --hypothesis-seed=$(SEED)"

lint: environment
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy .
	@$(PYTEST) tests/unit/test_imports.py -q
	@if [ -f docker-compose.yml ]; then \
		$(PY) -m check_jsonschema --builtin-schema vendor.compose-spec docker-compose.yml; fi

bench: setup
	@$(PY) -m load.bench $(if $(ONLY),--only $(ONLY)) $(if $(SHORT),--short)

soak: setup
	@$(PY) -m load.soak $(if $(ONLY),--only $(ONLY))

load: setup
	@$(PY) -m load.run

clean: down
	@rm -rf .payhook/data .payhook/demo .payhook/load .payhook/bench .payhook/soak

docs: setup
	@$(PY) -m stack.settings_page > docs/settings.md
	@$(PY) -m ingest.openapi > docs/openapi-receiver.json
