# `make demo` and `make test` need Python 3.11 or newer, make and pip; everything else is installed into .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
OUT ?= out/demo

.PHONY: help setup demo test lint clean
.DELETE_ON_ERROR:

help:
	@echo "make demo    compile ResNet-50 for the dynaplasia preset; results in $(OUT)"
	@echo "make test    run the tests"
	@echo "make lint    ruff, mypy and import contracts"
	@echo "make clean   remove the environment and everything that was built"

setup: $(READY)

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

# ResNet-50 as the onnx package ships it: shapes and operators, without trained weights.
FIND_MODEL := import importlib.util as u, pathlib as p; \
	print(p.Path(u.find_spec("onnx").origin).parent / "backend/test/data/light/light_resnet50.onnx")

demo: $(READY)
	$(BIN)/cmswitch solve "$$($(BIN)/python -c '$(FIND_MODEL)')" --hw dynaplasia --out $(OUT)

test: $(READY)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

clean:
	rm -rf $(VENV) build dist out *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
