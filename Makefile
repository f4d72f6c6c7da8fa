# Every target installs what it needs into this folder first; see README.md.
SHELL := /bin/sh
PY := .venv/bin/python
PYTEST := $(PY) -m pytest

# Without bytecode every process that is started would compile all that it imports, and tests start hundreds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help docs pictures environment setup demo up down test test-more test-faults rows lint bench load clean

help:  ## say what there is
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

environment:  ## install the Python packages alone
	@/bin/sh stack/setup.sh environment

setup:  ## install everything: packages, jars, Redis
	@/bin/sh stack/setup.sh

demo: setup  ## run the story: webhooks with every kind of trouble
	@.venv/bin/payhook demo

up: setup  ## start the embedded stack
	@.venv/bin/payhook up

down: setup  ## stop it
	@.venv/bin/payhook down

# The same examples and orders in each run. In the first part each process imports everything and collects all tests: on
# two cores three of them take less time than four. In the second part each has a JVM of its own, which takes a while to
# warm up and keeps a core busy: with more of them than cores it takes half as long again. What has the marker `more` or
# `slow` says why it isn't here.
test test-more: export PYTHONHASHSEED = 0
test: setup  ## run the tests that a change must pass at once
	@$(PY) -m tests.parts \
		"tests/unit tests/contract -m 'not slow and not more' -q -n 3 --dist worksteal" \
		"tests/integration/ledger -m 'not slow and not more' -q -n 2 --dist loadfile" \
		"tests/e2e tests/integration --ignore=tests/integration/ledger tests/security -m 'not slow and not more' -q -n 3 --dist loadfile --no-loadscope-reorder"

# What takes longest begins first.
test-more: setup  ## run the rest: many servers, a browser, whole stacks
	@$(PY) -m tests.parts \
		"tests/e2e tests/browser tests/integration tests/security tests/contract tests/unit -m 'more and not slow' -q -n 3 --dist loadfile --no-loadscope-reorder"

# Other examples in each run; `make test-faults SEED=N` is that run again.
test-faults: SEED := $(or $(SEED),$(shell date +%s))
test-faults: export PYTHONHASHSEED = $(SEED)
test-faults: export HYPOTHESIS_PROFILE := $(or $(HYPOTHESIS_PROFILE),faults)
test-faults: export OBJECT_STORE = 1
test-faults: setup  ## search for new examples and run the long fault tests; SEED=N is a run again
	@echo "hypothesis takes seed $(SEED); the same run again: make test-faults SEED=$(SEED)"
	@$(PY) -m tests.parts \
		"tests/unit tests/contract tests/integration -m 'hypothesis or slow' -q --timeout=7200 -n 2 --hypothesis-seed=$(SEED)" \
		"$(wildcard tests/faults tests/e2e) -q --timeout=1800 --hypothesis-seed=$(SEED)"

rows: environment  ## say which test shows which requirement; ends with 1 where one has none
	@$(PY) -m tests.rows

lint: environment  ## check style, types, import direction, the compose file; count the code
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy .
	@$(PYTEST) tests/unit/test_imports.py -q
	@if [ -f docker-compose.yml ]; then \
		$(PY) -m check_jsonschema --builtin-schema vendor.compose-spec docker-compose.yml deploy/compose.object-store.yml; fi
	@$(PY) -m tests.code_size

bench: setup  ## print figures beside baselines of the same run; ONLY=receiver,redis SHORT=1
	@$(PY) -m load.bench $(if $(ONLY),--only $(ONLY)) $(if $(SHORT),--short)

load: setup  ## send webhooks, look each 2xx up, keep a report; RATE=120 SECONDS=120 UI=1 COMPARE=last, or URL= (docs/load.md)
	@$(PY) -m load.run $(if $(RATE),--rate $(RATE)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(UI),--ui) \
		$(if $(URL),--url $(URL)) $(if $(SECRETS),--secrets $(SECRETS)) $(if $(YES_SEND),--yes-send) \
		$(if $(COMPARE),--compare $(COMPARE))

clean: down  ## remove data folders
	@rm -rf .payhook/data .payhook/demo .payhook/load .payhook/bench

pictures: setup  ## make docs/images again, from a demo that runs; needs Chromium
	@$(PY) -m load.pictures

docs: setup  ## write the generated pages again
	@$(PY) -m tests.settings_page > docs/settings.md
	@$(PY) -m stack.kafka_rights > docs/kafka-rights.md
	@$(PY) -m core.metrics > docs/metrics.md
	@$(PY) -m providers.event_types_page > docs/event-types.md
	@$(PY) -m tests.rows > docs/rows.md
	@$(PY) -m alerts.prometheus > deploy/prometheus/rules/payhook.yml
