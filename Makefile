# `make demo` and `make test` set everything up on a machine with Python 3.11, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-slow lint bench setup clean

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

setup: $(VENV)/ready

demo: setup
	$(BIN)/exhume demo

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=src $(BIN)/lint-imports

test: lint
	$(BIN)/python -m pytest

test-slow: setup
	$(BIN)/python -m pytest -m slow

bench: setup
	$(BIN)/python benchmarks/against_the_paper.py
	$(BIN)/python benchmarks/gemm_efficiency.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache exhume-demo
