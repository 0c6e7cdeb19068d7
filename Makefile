# make demo   the main job, in a terminal
# make test   the linters and all tests
# make torture   the long forms of the random tests (forty minutes)
# make notebooks   the notebooks, in JupyterLab

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(PYTHON) -m pip --python $(BIN)/python --disable-pip-version-check --quiet
WORKERS ?= 2

.PHONY: demo test lint style types torture notebooks format clean

demo: $(VENV)/installed-demo
	@$(BIN)/arc demo

# The types are checked beside the tests: in a new clone mypy takes 25 s of one core.
# The tests start many processes; without bytecode each of them would compile arc again.
test: style
	@$(MAKE) --no-print-directory types >$(VENV)/types.log 2>&1 & types=$$!; \
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not torture" --durations=10; \
	tests=$$?; wait $$types; checked=$$?; cat $(VENV)/types.log; exit $$((tests + checked))

lint: style types

style: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-dev
	$(BIN)/mypy
	$(BIN)/lint-imports

torture: $(VENV)/installed-dev
	$(BIN)/python -m pytest -m torture --timeout 36000

notebooks: $(VENV)/installed-notebooks
	$(BIN)/jupyter lab notebooks

format: $(VENV)/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# Some systems ship Python without ensurepip; there the environment has no pip, and the system's pip installs into it.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "arc needs Python 3.11 or newer; name one with: make PYTHON=python3.12 …" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || $(PYTHON) -m venv --clear --without-pip $(VENV)

$(VENV)/installed-demo: $(BIN)/python pyproject.toml
	@echo "installing arc with LangChain and LlamaIndex into $(VENV) …"
	@$(PIP) install -e '.[langchain,llamaindex]'
	@touch $@

$(VENV)/installed-dev: $(BIN)/python pyproject.toml
	@echo "installing arc with everything its tests need into $(VENV) …"
	@$(PIP) install -e '.[dev]'
	@touch $@ $(VENV)/installed-demo

$(VENV)/installed-notebooks: $(BIN)/python pyproject.toml
	@echo "installing arc with JupyterLab and the notebooks' packages into $(VENV) …"
	@$(PIP) install -e '.[notebooks]'
	@touch $@ $(VENV)/installed-demo
