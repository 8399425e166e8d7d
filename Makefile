# make demo   sets up .venv and runs the main comparison
# make test   sets up .venv and runs lint, types and tests
# make bench  sets up .venv and measures the speed of a local step
# make docs   sets up .venv and builds the documentation into site/
# make release  sets up .venv, builds wheel and sdist, and tries them in a fresh environment with the lowest versions
# make torture  sets up .venv and kills, damages and misuses runs for about half an hour: docs/reliability.md
# make mutants  sets up .venv, makes small mistakes in a copy of the package and sees whether the tests notice
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test bench docs release torture mutants lint clean

demo: $(VENV)/installed
	$(BIN)/feddc compare --jobs 2

test: $(VENV)/dev lint
	scripts/install-test-tools
	$(BIN)/pytest -n 2 --dist loadfile

bench: $(VENV)/dev
	$(BIN)/python -m benchmarks

docs: $(VENV)/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

release: $(VENV)/dev
	PYTHON=$(PYTHON) scripts/test-release

torture: $(VENV)/dev
	$(BIN)/python -m tests.torture --runs 72 --kills 6 --inputs 5000 --damaged 1000 --cost

mutants: $(VENV)/dev
	$(BIN)/python -m tests.mutants --jobs 2

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "feddc needs Python 3.11 or newer: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -c constraints.txt -e .
	@touch $@

$(VENV)/dev: $(VENV)/installed
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	@touch $@

$(VENV)/docs: $(VENV)/installed
	$(BIN)/pip install -q -c constraints.txt -e '.[docs]'
	@touch $@

clean:
	rm -rf $(VENV) build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis
