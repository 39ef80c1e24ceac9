# Every target makes .venv and installs what it needs the first time.
PYTHON ?= python3
comma := ,
BIN := .venv/bin
INSTALLED := .venv/.installed
LOWEST := .venv-lowest/.installed
# `make demo LANGUAGE=zh`; the environment variable of this name is that of the locale.
DEMO_LANGUAGE := $(if $(filter command line,$(origin LANGUAGE)),$(LANGUAGE),en)
DEMO_EXTRAS := picture$(if $(filter zh,$(DEMO_LANGUAGE)),$(comma)chinese)
DEMO := .venv/.demo-$(DEMO_LANGUAGE)
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo docs notebooks check test test-all test-lowest lint format golden mixins campaign bench clean

help:  ## This list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 13

# Installed with the tested versions of constraints.txt; pyproject.toml states the ranges.
$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python $(PIP_INSTALL) --constraint constraints.txt --editable ".[dev]"
	touch $@

# The package and what its picture needs; nothing where the development tools are installed already.
$(DEMO): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	test -e $(INSTALLED) || $(BIN)/python $(PIP_INSTALL) --constraint constraints.txt --editable ".[$(DEMO_EXTRAS)]"
	touch $@

$(LOWEST): pyproject.toml constraints-lowest.txt
	test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python $(PIP_INSTALL) --constraint constraints-lowest.txt --editable ".[test]"
	touch $@

demo: $(DEMO)  ## Look at the vectors of words with two meanings, offline
	$(BIN)/python -m elmo_hf.demo --language $(DEMO_LANGUAGE)

# `--quiet` would hide the warnings, which a strict build counts.
docs: $(INSTALLED)  ## Build the documentation site into build/site; fails on broken links and missing docstrings
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

notebooks: $(INSTALLED)  ## Run the notebooks and store what they print
	$(BIN)/python -m notebooks.run

check: lint  ## Format, lint, types and the fast tests, before each commit
	$(BIN)/python -m pytest -m "not slow and not medium"

test: $(INSTALLED)  ## Run the tests, except the slow ones
	$(BIN)/python -m pytest -m "not slow"

test-all: $(INSTALLED)  ## Run all tests
	$(BIN)/python -m pytest

test-lowest: $(LOWEST)  ## Run the core tests with the oldest supported dependencies, in .venv-lowest
	.venv-lowest/bin/python -m pytest -m "not slow" tests/modeling tests/embedding tests/finetuning tests/hub tests/frozen

lint: $(INSTALLED)  ## Check format, style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/ty check --quiet

format: $(INSTALLED)  ## Apply the format and the fixes that ruff can make
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

golden: $(INSTALLED)  ## Fetch the originals' vectors for the golden tests from the package index
	$(BIN)/python -m tests.fetch_golden

mixins: $(INSTALLED)  ## Fetch transformers' own test mixins from the package index
	$(BIN)/python -m tests.mixins.fetch

campaign: $(INSTALLED)  ## Test recovery from damaged files, kills, full disks and Hub failures: half an hour
	$(BIN)/python -m tests.campaign --json benchmarks/results/campaign.json

bench: $(INSTALLED)  ## Measure speed and memory beside the originals; the documentation's results and pictures
	mkdir -p benchmarks/results
	for name in tokenizer inference corpus memory loading scaling pretraining minilm onnx serving; do \
		$(BIN)/python -m benchmarks.$$name --json benchmarks/results/$$name.json || exit 1; \
	done
	$(BIN)/python -m benchmarks.plots
	$(BIN)/python -m benchmarks.tables
	$(BIN)/python -m benchmarks.finetuning

clean:  ## Remove what the targets made
	rm -rf .venv .venv-* .golden build *.egg-info
