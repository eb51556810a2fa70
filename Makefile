# Everything here sets up .venv by itself, with plain python3 (3.11 or newer) and pip.
.DELETE_ON_ERROR:
.PHONY: help demo test check conformance lock mutants chaos soak bench test-pythons test-postgres clean

# The newest Python that really runs: a pyenv shim may exist and fail, and Debian's may lack venv.
PYTHON = $(shell for each in python3.13 python3.12 python3.11 python3; do \
	"$$each" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && \
	{ echo "$$each"; break; }; done)
ARGS =
IN = .venv/bin/python
PIP = PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore $(IN) -m pip install --quiet --no-input
COMPILE = $(IN) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-annotate --no-header --no-emit-index-url

help:
	@echo 'make demo            all of it on this machine, against stand-ins for the providers'
	@echo 'make test            every test (ARGS="-k guard" for some of them)'
	@echo 'make check           form, types, arrows, dependencies'
	@echo 'make conformance     against what others publish about the providers (needs npm and a network)'
	@echo 'make bench           what it takes, a JSON object a line'
	@echo 'make mutants         break the core on purpose and see that tests notice (ARGS="--sample 20")'
	@echo 'make chaos           let everything around the daemon fail and see that the laws hold (SEED=7 ROUNDS=20)'
	@echo 'make soak            the same for hours'
	@echo 'make test-pythons    unit and store tests under every other Python at hand'
	@echo 'make test-postgres   store tests on every PostgreSQL at hand'
	@echo 'make lock            resolve the dependencies anew (ARGS="--upgrade")'

.venv/installed: requirements.lock pyproject.toml hatch_build.py
	@set -e; \
	if ! $(IN) -c 'import pip' 2>/dev/null; then \
		python="$(PYTHON)"; \
		[ -n "$$python" ] || { echo 'make: no Python 3.11 or newer with venv found; name one: make PYTHON=...' >&2; exit 1; }; \
		"$$python" -m venv --clear .venv; \
	fi
	@$(PIP) --require-hashes -r requirements.lock
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

demo: .venv/installed
	@$(IN) -m reconciler demo $(ARGS)

# Tests wait as much as they work: more of them at a time than there are cores.
test: .venv/installed
	$(IN) -m pytest --numprocesses 4 --dist worksteal $(ARGS)

check: .venv/installed
	$(IN) -m ruff format --check .
	$(IN) -m ruff check .
	$(IN) -m mypy
	.venv/bin/lint-imports --no-logo
	.venv/bin/deptry .
	$(IN) -m pytest -q tests/unit/test_house.py

# The folder is in no other target: what it compares with comes from a registry, each time.
conformance: .venv/installed
	$(IN) -m pytest -p no:cacheprovider tests/conformance $(ARGS)

bench: .venv/installed
	@$(IN) -m tests.bench $(ARGS)

mutants: .venv/installed
	@$(IN) -m tests.mutants $(ARGS)

# Clocks are set where there is a C compiler.
chaos: .venv/installed
	@$(IN) -m tests.chaos $(if $(SEED),--seed $(SEED)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(ARGS)

soak:
	@$(MAKE) --no-print-directory chaos ROUNDS=200

test-pythons: .venv/installed
	@bash .ci/test-pythons $(ARGS)

test-postgres: .venv/installed
	@bash .ci/test-postgres $(ARGS)

lock: .venv/installed
	@$(IN) -c 'import uv' 2>/dev/null || $(PIP) uv
	@$(COMPILE) --extra embedded --extra sandbox --extra dev $(ARGS) pyproject.toml -o requirements.lock
	@$(COMPILE) --no-deps $(ARGS) .ci/postgres.in -o .ci/postgres.lock

clean:
	rm -rf .venv .venv-* build dist
