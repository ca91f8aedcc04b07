# Everything runs from one environment in .venv, made on first use. `make` lists the targets; `make -C lab` lists the lab's.
SHELL := /bin/bash
STAGE ?= dev
.DEFAULT_GOAL := help
include requirements/environment.mk

.PHONY: help run test test-all check lint types imports format figures docs dist synth deploy diff smoke lock dependencies browser valkey clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(firstword $(MAKEFILE_LIST)) | sed -E 's/:[^#]*##/\t/' | expand -t 14

run: $(VENV)/.run ## the whole way on this machine: embedded AWS, deploy, seed, send, drain, verdict
	$(BIN)/python -m oneslot run $(if $(REQUESTS),--requests "$(REQUESTS)")

# The tests start hundreds of processes. Without bytecode on disk, each would compile every module again.
PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 3 --dist loadfile --durations 25

test: $(VENV)/.installed node_modules/.installed ## what a change can break, in three minutes
	$(PYTEST) -m "not slow and not lab"

test-all: test $(VENV)/templates/.installed $(VENV)/docs/.installed ## the same, then the slow tests
	$(PYTEST) -m "slow and not lab"

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

figures: $(VENV)/.installed ## put what the code says and the lab's last figures into docs
	$(BIN)/python -m lab.documentation.reference
	$(BIN)/python -m lab.figures
	$(BIN)/python -m examples.sam.template

docs: $(VENV)/docs/.installed ## the documentation as a site, its links checked: build/site/index.html
	$(VENV)/docs/bin/properdocs build --quiet --strict -f lab/documentation/properdocs.yml
	@echo "Open build/site/index.html. For its search, which a browser allows a server alone: python3 -m http.server -d build/site"

dist: $(VENV)/.installed ## the wheel and the source archive, into dist
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

COMPILE = $(BIN)/uv pip compile -q --generate-hashes --custom-compile-command "make lock" --python-version 3.11 --group

# All that runs together takes its versions from the environment that the tests run in.
lock: $(VENV)/.installed ## resolve and hash each dependency group of pyproject.toml into its list
	for list in dev docs dependencies templates; do $(COMPILE) $$list -o requirements/$$list.txt || exit; done
	$(COMPILE) run -c requirements/dev.txt -o requirements/run.txt
	$(COMPILE) mutants -c requirements/dev.txt -o requirements/mutants.txt
	$(COMPILE) deploy -c requirements/dev.txt -o requirements.txt
	$(COMPILE) function -c requirements/dev.txt -o lambda_src/requirements.txt
	$(COMPILE) emulator --universal -c requirements/dev.txt -o oneslot/local/aws/emulator.txt
	echo hatchling | $(subst --group,--universal --extra,$(COMPILE)) explorer pyproject.toml - -c requirements/dev.txt -o requirements/explorer.txt

dependencies: $(VENV)/dependencies/.installed node_modules/.installed ## secrets, licences, known vulnerabilities (needs the network)
	.ci/dependencies $(VENV)
	$(NPM) audit

# Root in a container, and a user with `sudo` on a runner. -n: fail instead of asking for a password.
APT := $(if $(filter 0,$(shell id -u)),,sudo -n )apt-get

valkey: ## install a Valkey (else Redis) server for the tests of that store; needs apt-get, and root or sudo
	@command -v valkey-server || command -v redis-server || { $(APT) update -qq && \
	{ $(APT) install -y -qq --no-install-recommends valkey-server || $(APT) install -y -qq --no-install-recommends redis-server; }; }

browser: ## install Chromium for the tests that open the audit's report; needs apt-get, and root or sudo
	@command -v chromium chromium-browser google-chrome || { $(APT) update -qq && $(APT) install -y -qq chromium; }

clean: ## remove everything that these targets made
	rm -rf $(VENV) node_modules cdk.out .oneslot build dist mutants
