# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
# Tests that compute, in this many processes: some of them wait.
JOBS   ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
# Those of `local` wait most of their time, so more of them than cores.
LOCAL_JOBS ?= $(shell echo $$((4 * $$(getconf _NPROCESSORS_ONLN))))
# Each brings up a cluster of its own, with three dockerds.
CLUSTER_JOBS ?= $(shell cores=$$(getconf _NPROCESSORS_ONLN); echo $$((cores < 6 ? 2 * cores : 12)))
PYTEST  = $(BIN)/pytest -q --dist worksteal --numprocesses
PIP     = $(BIN)/python -m pip --disable-pip-version-check --quiet

# An environment with dependencies at their lowest, and the tests that call each of them most.
FLOORS ?= .venv-floors
FLOORS_TESTS = tests/ssh/test_ssh_*.py $(addprefix tests/screens/test_,app.py layout.py launch_screen.py) \
  $(addprefix tests/unit/test_,remote_*.py spec_*.py document.py code_*.py tui_*.py cli_config.py cli_grammar.py \
  cli_hosts_change.py cli_printer.py) $(addprefix tests/local/test_,remote_*.py spec_*.py code_*.py build_context.py)

# Else every program that a test starts would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

# Runs the ranks of `make test-gpu`.
GPU_PYTHON ?= python3

.PHONY: help demo test test-gpu lint packages unit local trainers cluster floors lock mutants bench screenshots lab-up lab-down clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/.dev: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --constraint constraints.txt --editable '.[dev]'
	@touch $@

$(VENV)/.torch: $(VENV)/.dev
	$(PIP) install --constraint constraints.txt torch
	@touch $@

demo: $(VENV)/.torch ## a real two-host training run on two embedded ssh hosts; needs only Python
	$(BIN)/distui demo --headless

test: lint packages unit local trainers cluster ## everything: lint, types, unit tests, and the test cluster (root on Linux)

lint: $(VENV)/.dev ## ruff, which room may import which, and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/mypy

packages: $(VENV)/.dev ## Debian packages that the tests use (root on Linux only)
	$(BIN)/python tests/lab packages

unit: $(VENV)/.dev ## tests of values and of hosts in memory, at most with a short program
	$(PYTEST) $(JOBS) tests/unit tests/verdict

local: $(VENV)/.dev ## tests with processes of this machine, ssh servers of their own, and the terminal UI
	$(PYTEST) $(LOCAL_JOBS) tests/local tests/ssh tests/screens

trainers: $(VENV)/.torch ## tests of the training programs, with torch; no cluster, no GPU
	$(PYTEST) $(JOBS) tests/trainers

cluster: $(VENV)/.torch ## tests on real sshd and dockerd hosts in network namespaces
	$(BIN)/pytest -q --dist load --maxschedchunk 1 --numprocesses $(CLUSTER_JOBS) tests/cluster

test-gpu: $(VENV)/.dev ## tests on a real NVIDIA GPU, without Docker and root; GPU_PYTHON has torch with CUDA
	GPU_PYTHON=$(GPU_PYTHON) $(BIN)/pytest -q --numprocesses 0 tests/gpu

$(FLOORS)/.dev: pyproject.toml constraints.txt tools/floors.py
	$(PYTHON) -m venv --clear $(FLOORS)
	$(PYTHON) tools/floors.py constraints.txt >$(FLOORS)/floors.txt
	$(FLOORS)/bin/python -m pip --disable-pip-version-check --quiet install --constraint $(FLOORS)/floors.txt \
	  --editable '.[dev]'
	@touch $@

floors: $(FLOORS)/.dev ## tests with the lowest version of each dependency that pyproject.toml allows
	$(FLOORS)/bin/pytest -q --dist worksteal --numprocesses $(LOCAL_JOBS) $(FLOORS_TESTS)

lock: $(VENV)/.dev ## writes requirements.lock again: constraints.txt with hashes, for who installs distui
	$(PIP) install --constraint constraints.txt uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --constraint constraints.txt \
	  --generate-hashes --no-annotate --custom-compile-command 'make lock' --output-file requirements.lock pyproject.toml

$(VENV)/.mutants: $(VENV)/.dev
	$(PIP) install --constraint constraints.txt --editable '.[dev,mutants]'
	@touch $@

mutants: $(VENV)/.mutants ## small changes of the code, one at a time: which does no test notice? half an hour or more
	nice -n 19 $(BIN)/python tools/mutants.py

bench: $(VENV)/.torch ## measures beside peers; prints ratios
	$(BIN)/python -m bench

screenshots: $(VENV)/.torch ## pictures of every screen for the docs, from real runs (root)
	$(BIN)/python tools/screenshots.py

lab-up: $(VENV)/.dev ## bring up the test cluster by hand (root): three hosts
	$(BIN)/python tests/lab up --hosts 3

lab-down: $(VENV)/.dev ## take it down again
	$(BIN)/python tests/lab down

clean: ## remove what was built here
	rm -rf $(VENV) $(FLOORS) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
