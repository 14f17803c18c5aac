# `make demo` and `make test` set everything up on a machine with Python 3.11, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests run side by side, one thread each.
WORKERS ?= 2

.PHONY: demo test test-slow lint docs bench setup clean

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
	@command -v chromium chromium-browser google-chrome >/dev/null || \
		echo "No Chromium here: browser tests will skip. To run them: apt-get install chromium"
	$(BIN)/python -m pytest -n $(WORKERS)

test-slow: setup
	$(BIN)/python -m pytest -m slow

docs: setup
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

bench: setup
	$(BIN)/python benchmarks/against_the_paper.py
	$(BIN)/python benchmarks/gemm_efficiency.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache exhume-demo docs/_build
