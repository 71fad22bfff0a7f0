# The commands of this repository; `make` lists them. Needs Python 3.11 or newer with venv, make and git.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CLIENTS := $(basename $(notdir $(wildcard requirements/clients-*.in)))
CLIENT_STAMPS := $(CLIENTS:%=$(VENV)/clients/%/.installed)
BETWEEN := $(basename $(notdir $(wildcard requirements/between-*.in)))
BETWEEN_STAMPS := $(BETWEEN:%=$(VENV)/clients/%/.installed)
TRACING_STAMP := $(VENV)/tracing/.installed
BENCH_FLAGS ?=
# Whole histories of a cluster that `make test-cluster` plays, some seconds each; tests/system/replay.py plays thousands.
HISTORIES ?= 45
PYTEST_FLAGS ?=
COVERAGE_TESTS ?=
CONFORMANCE_FLAGS ?=
NOX_FLAGS ?=
MANIFEST_FLAGS ?=
PROSE := src tests docs examples benchmarks deploy README.md ARCHITECTURE.md CONTRIBUTING.md
# Tests that take long: those of `make test-cluster` and `make test-charts`.
LONG := tests/cluster tests/adversary tests/charts tests/system
# Files with tests that `make test` leaves to `make test-cluster`, so that the gate ends within ten minutes.
SLOW = $(shell grep --recursive --files-with-matches 'mark\.slow' tests --include='test_*.py')
# Tests at the real Kubernetes; `make test-kubernetes` runs them, because it builds Kubernetes and Helm.
REAL := $(addprefix tests/cluster/test_,beside_volcano.py from_volcano.py howto_operators.py installation.py operators.py \
	real_failover.py real_faults.py real_kubernetes.py rights.py webhooks.py)
OPERATORS := $(addprefix tests/cluster/test_,beside_volcano.py howto_operators.py operators.py)
# Those that `make test-kubernetes` builds, so that it ends in time.
QUICK_OPERATORS := training-operator jobset
BENCHMARKS = $(wildcard benchmarks/bench_*.py)
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Each of the two has tests that stand together, so that it needs few servers twice; the one that ends first takes half
# of what the other has left.
PYTEST_ON_TWO := $(BIN)/pytest -n 2 --dist worksteal
# Tests that start servers or clusters spend a fifth of their time waiting, so a third worker keeps two processors busy.
PYTEST_ON_THREE := $(BIN)/pytest -n 3 --dist worksteal
# Extras stay in the pins: without them, pip before 23.3 tries the newest version of `coverage[toml]`, whose hash is unknown.
COMPILE := $(BIN)/python -m piptools compile --quiet --upgrade --generate-hashes --allow-unsafe --no-strip-extras \
	--no-header --no-emit-options --annotation-style=line

# The processes that tests start read modules that are compiled already, also where this variable forbids it elsewhere.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo test checks coverage test-matrix test-clients test-cluster test-kubernetes test-operators test-conformance test-charts kubernetes-binaries bench docs manifests lock clean

help:
	@echo "make install          create .venv with the pinned requirements and this package"
	@echo "make demo             start a cluster here and play the newest story on it: examples/inference-and-training"
	@echo "make test             format, lint, prose, types, layers and tests: the gate for every change"
	@echo "make checks           all of these but the tests"
	@echo "make coverage         tests, and how much of the code they run: build/coverage/index.html"
	@echo "make test-matrix      quick tests on each Python of this machine, and with the lowest requirements"
	@echo "make test-clients     the official Python clients of all versions from 29 to the newest"
	@echo "make test-cluster     longer tests, most of them against the embedded cluster"
	@echo "make test-kubernetes  our API server against the real one; our scheduler, our chart and operators at it (needs Go)"
	@echo "make test-operators   example jobs of all operators that the documentation names (needs Go)"
	@echo "make test-conformance conformance specs of Kubernetes' own e2e suite on \`kilauea up\` (needs Go and kubectl)"
	@echo "make test-charts      well-known charts on \`kilauea up\` with Helm (needs Go and kubectl)"
	@echo "make kubernetes-binaries  build the real Kubernetes into a cache outside the repository"
	@echo "make bench            run every benchmark once; BENCH_FLAGS=--smoke for a quick run"
	@echo "make docs             build the documentation site in build/site"
	@echo "make manifests        write deploy/install.yaml from the chart again (needs Go, to build Helm)"
	@echo "make lock             pin the newest versions of all requirements again (Python 3.11)"
	@echo "make clean            remove .venv, caches and build output"

install: $(STAMP)

$(STAMP): pyproject.toml requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "install: Python 3.11 or newer is needed; set one with PYTHON=/path/to/python3"; exit 1; }
	@echo "install: create $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)
	@echo "install: pinned requirements, which takes some minutes"
# Python compiles what is imported; to compile everything here would take half a minute, most of it for nothing.
	@$(PIP) install --require-hashes --no-compile -r requirements/dev.txt
	@echo "install: kilauea itself, editable"
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@
	@echo "install: done"

# Old and new official Python clients, each in a folder of its own, for tests/official_clients.
$(VENV)/clients/%/.installed: requirements/%.txt $(STAMP)
	@echo "install: $*"
	@rm -rf $(@D)
	@$(PIP) install --require-hashes --no-deps --no-compile --target $(@D) -r $<
	@touch $@

# OpenTelemetry, in a folder of its own, for tests/cluster/test_tracing.py.
$(TRACING_STAMP): requirements/tracing.txt $(STAMP)
	@echo "install: OpenTelemetry"
	@rm -rf $(@D)
	@$(PIP) install --require-hashes --no-deps --no-compile --target $(@D) -r $<
	@touch $@

demo: install
	@$(BIN)/python examples/inference-and-training/demo.py

# The clients are installed beside the checks, as pip waits for the network and uses one core.
test: install
	@$(MAKE) --no-print-directory --jobs 2 checks $(CLIENT_STAMPS)
	@echo "test: tests"
	@$(PYTEST_ON_THREE) -m 'not slow' $(LONG:%=--ignore=%) $(PYTEST_FLAGS)

checks: install
	@echo "test: format"
	@$(BIN)/ruff format --quiet --check . || { echo "test: run $(BIN)/ruff format"; exit 1; }
	@echo "test: lint"
	@$(BIN)/ruff check --quiet .
	@echo "test: prose"
	@$(BIN)/typos --force-exclude $(PROSE)
	@echo "test: types"
	@$(BIN)/mypy --num-workers 2 src tests $(wildcard benchmarks/*.py)
	@echo "test: layers"
	@$(BIN)/lint-imports --no-logo

# COVERAGE_TESTS=tests/api measures a part. Tests of speed are left out: measuring slows what they time.
coverage: install
	@$(PYTEST_ON_TWO) $(LONG:%=--ignore=%) --cov --cov-report=html --cov-report=term \
		--deselect tests/api/test_validate.py::test_plain_pods_cost_little $(PYTEST_FLAGS) $(COVERAGE_TESTS)
	@echo "coverage: open build/coverage/index.html"

test-matrix: install
	@$(BIN)/nox $(NOX_FLAGS)

# `make test` runs the oldest, the newest and one between; this runs all, with 35 MB for each version more.
test-clients: install $(CLIENT_STAMPS) $(BETWEEN_STAMPS)
	@$(BIN)/pytest tests/official_clients $(PYTEST_FLAGS)

# The adversary's tests measure how long others wait, so nothing else runs beside them.
test-cluster: install $(TRACING_STAMP)
	@KILAUEA_HISTORIES=$(HISTORIES) $(PYTEST_ON_THREE) tests/cluster tests/system $(REAL:%=--ignore=%) $(PYTEST_FLAGS)
	@$(PYTEST_ON_TWO) -m slow $(SLOW) $(PYTEST_FLAGS)
	@$(BIN)/pytest tests/adversary $(PYTEST_FLAGS)

test-kubernetes: install
	@$(BIN)/python tests/kubernetes/compare.py
	@$(BIN)/python tests/kubernetes/live_plans.py
	@$(BIN)/python tests/kubernetes/beside.py
	@$(BIN)/python tests/kubernetes/shards.py
	@$(BIN)/python tests/charts/sources.py helm > /dev/null
	@$(BIN)/python tests/kubernetes/real_operators.py $(QUICK_OPERATORS)
	@$(PYTEST_ON_TWO) $(REAL) $(PYTEST_FLAGS)

# All operators: the others take two to four minutes to build each.
test-operators: install
	@$(BIN)/python tests/kubernetes/real_binaries.py
	@$(BIN)/python tests/kubernetes/real_operators.py
	@$(PYTEST_ON_TWO) $(OPERATORS) $(PYTEST_FLAGS)

# CONFORMANCE_FLAGS="--sig sig-auth" runs a part; tests/kubernetes/conformance.py --help lists the flags.
test-conformance: install
	@$(BIN)/python tests/kubernetes/real_binaries.py e2e.test agnhost etcd sample-apiserver
	@$(BIN)/python tests/kubernetes/conformance.py $(CONFORMANCE_FLAGS)
	@$(MAKE) --no-print-directory test-charts
	@$(MAKE) --no-print-directory test-operators

# Fetches Helm and the charts first; what cannot be had is skipped. PYTEST_FLAGS="-k cilium" runs one chart.
test-charts: install
	@$(BIN)/python tests/charts/sources.py
	@$(PYTEST_ON_TWO) tests/charts $(PYTEST_FLAGS)

kubernetes-binaries:
	@$(PYTHON) tests/kubernetes/real_binaries.py

# A smoke run only shows that the benchmarks work, so two run side by side, and each is printed when it ends.
SMOKE = out="$$($(BIN)/python {} $(BENCH_FLAGS) 2>&1)"; code=$$?; \
	printf "bench: %s\n%s\n" {} "$$out"; [ $$code -eq 0 ] || exit 255

bench: install
ifneq ($(filter --smoke,$(BENCH_FLAGS)),)
	@printf '%s\n' $(BENCHMARKS) | xargs -P 2 -I {} sh -c '$(SMOKE)'
else
	@set -e; for file in $(BENCHMARKS); do \
		echo "bench: $$file"; $(BIN)/python $$file $(BENCH_FLAGS); \
	done
endif
	@test -n "$(BENCHMARKS)" || echo "bench: no benchmarks/bench_*.py yet; nothing was run"

docs: install
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going docs build/site
	@echo "docs: open build/site/index.html"

# MANIFEST_FLAGS="--output my.yaml --set basic.image_registry=registry.example.com" writes one of your own.
manifests: install
	@HELM="$$($(BIN)/python tests/charts/sources.py helm)" $(BIN)/python deploy/generate_install.py $(MANIFEST_FLAGS)

# The pins must hold for the oldest Python supported, so they are made with that one.
lock: install
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
		{ echo "lock: needs a .venv made with Python 3.11"; exit 1; }
	@set -e; for name in runtime dev tracing; do \
		echo "lock: requirements/$$name.txt"; \
		$(COMPILE) --output-file requirements/$$name.txt requirements/$$name.in; \
		{ echo "# Pinned versions for requirements/$$name.in. Made by \`make lock\`; do not edit."; \
		  cat requirements/$$name.txt; } > requirements/$$name.tmp; \
		mv requirements/$$name.tmp requirements/$$name.txt; \
	done
	@echo "lock: $(CLIENTS:%=requirements/%.txt) $(BETWEEN:%=requirements/%.txt)"
	@$(BIN)/python tests/official_clients/lock.py $(CLIENTS:%=requirements/%.in) $(BETWEEN:%=requirements/%.in)

clean:
	@echo "clean: .venv, caches, build output"
	@rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
