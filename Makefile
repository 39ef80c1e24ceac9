# Every target makes .venv and installs what it needs the first time.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test lint format golden mixins campaign bench clean

help:  ## This list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

# Installed with the tested versions of constraints.txt; pyproject.toml states the ranges.
$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	touch $@

demo: $(INSTALLED)  ## Look at the vectors of words with two meanings, offline
	$(BIN)/python -m elmo_hf.demo

test: $(INSTALLED)  ## Run the tests
	$(BIN)/python -m pytest

lint: $(INSTALLED)  ## Check format, style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/ty check --quiet

format: $(INSTALLED)  ## Bring the code into form
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

golden: $(INSTALLED)  ## Fetch the originals' vectors for the golden tests from the package index
	$(BIN)/python -m tests.fetch_golden

mixins: $(INSTALLED)  ## Fetch transformers' own test mixins from the package index
	$(BIN)/python -m tests.mixins.fetch

campaign: $(INSTALLED)  ## Try faults of every kind: damaged files, kills, full disks, a Hub that fails; minutes
	$(BIN)/python -m tests.campaign --json benchmarks/results/campaign.json

bench: $(INSTALLED)  ## Measure speed and memory beside the originals; the documentation's results and pictures
	mkdir -p benchmarks/results
	for name in tokenizer inference corpus memory loading scaling pretraining; do \
		$(BIN)/python -m benchmarks.$$name --json benchmarks/results/$$name.json || exit 1; \
	done
	$(BIN)/python -m benchmarks.plots
	$(BIN)/python -m benchmarks.finetuning

clean:  ## Remove what the targets made
	rm -rf .venv .venv-* .golden build *.egg-info
