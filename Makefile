# Everything here needs only make and Python >= 3.11; the first run builds the environment.

PYTHON ?= python3
JOBS ?= 2
PYTEST_ARGS ?=
LOCK_ARGS ?=
KERNEL_TESTS := tests/cpu tests/solver tests/test_conformance.py
# Of numbers that might depend on the processor. They run once more with kernels for an old one, in BLAS, NumPy and Numba.
NUMBER_TESTS := $(KERNEL_TESTS) tests/explain tests/similarity tests/test_class_scores.py tests/test_neighbors.py tests/test_search.py
PLAIN_PROCESSOR := OPENBLAS_CORETYPE=Nehalem NPY_DISABLE_CPU_FEATURES="X86_V3 X86_V4" \
	NUMBA_CPU_NAME=generic NUMBA_CACHE_DIR=$(CURDIR)/.venv/numba-generic
# Tests of the repository, its tools, pages and experiments: the oldest versions change nothing there.
ANY_VERSION := tests/benchmarks tests/cli tests/cuda tests/dask tests/report tests/reproduce tests/serving \
	tests/test_docs.py tests/test_examples.py
AUDIT_ARGS ?=

# The stamps are named after the path of the folder: a moved or copied folder gets a new environment.
PLACE := $(shell pwd | cksum | cut -d ' ' -f 1)
LOCKED := .venv/.stamp-locked-$(PLACE)
READY := .venv/.stamp-ready-$(PLACE)
DOCS_LOCKED := .venv/.stamp-docs-$(PLACE)
OLDEST_LOCKED := .venv-oldest/.stamp-locked-$(PLACE)
OLDEST_READY := .venv-oldest/.stamp-ready-$(PLACE)
LOCK_READY := .venv-lock/.stamp-ready-$(PLACE)
OTHER := .venv-$(notdir $(PYTHON))
OTHER_LOCKED := $(OTHER)/.stamp-locked-$(PLACE)
OTHER_READY := $(OTHER)/.stamp-ready-$(PLACE)
RELEASE_READY := .venv-release/.stamp-ready-$(PLACE)
RUN_LOCKED := .venv-run/.stamp-locked-$(PLACE)
DEMO_READY := .venv-run/.stamp-ready-$(PLACE)

RUN := .venv/bin/python -m
# Modules are compiled when they are first imported, and kept: most of those that are installed never are.
unexport PYTHONDONTWRITEBYTECODE
PIP_INSTALL := -m pip --disable-pip-version-check install -qq --no-compile
# Wheels only: building from source would fetch tools that no lock file names.
PIP_LOCKED := $(PIP_INSTALL) --only-binary :all: --require-hashes
THIS_PACKAGE := --no-deps --no-build-isolation -e .
COMPILE = .venv-lock/bin/python -m uv pip compile --quiet --universal --generate-hashes \
	--python-version 3.11 --custom-compile-command "make lock" $(LOCK_ARGS)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help env test test-slow test-gpu lint demo bench docs test-oldest test-newest test-python coverage dist audit sbom lock clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

env: $(READY)  ## make .venv with the locked versions; nothing to do when it is current

test: lint  ## run the linters, then all tests and doctests
	$(RUN) pytest -n $(JOBS) $(PYTEST_ARGS)

test-slow: $(READY)  ## run the tests that take minutes, those of the numbers as on a plain processor, a minute of fuzzing
	$(RUN) pytest -n $(JOBS) -m slow $(PYTEST_ARGS)
	$(PLAIN_PROCESSOR) $(RUN) pytest -p no:cacheprovider -n $(JOBS) $(PYTEST_ARGS) $(NUMBER_TESTS)
	.venv/bin/python tests/fuzz.py --seconds 60

test-gpu: $(READY)  ## run the tests of the GPU on this machine's card; needs `pip install hdsl[cuda]` in .venv
	.venv/bin/python -c "from hdsl.cuda.runtime import get_device; print(get_device().name)"
	$(RUN) pytest tests/cuda tests/test_conformance.py -k "cuda or card" $(PYTEST_ARGS)

lint: $(READY)  ## run ruff, mypy, the import contract and numpydoc's checks of the docstrings
	$(RUN) ruff check --no-cache .
	$(RUN) ruff format --no-cache --check .
	$(RUN) mypy
	.venv/bin/lint-imports --no-logo --no-cache
	.venv/bin/python .ci/docstrings.py docs/api.rst

# An environment of its own, of what the package runs with: the tests need far more.
demo: $(DEMO_READY)  ## learn which docstrings of Python's own library belong together; writes hdsl-demo.html
	.venv-run/bin/hdsl demo

bench: $(READY)  ## run the benchmarks
	$(RUN) benchmarks

docs: $(READY) $(DOCS_LOCKED)  ## build the pages in docs/_build/html, and check the links inside them
	$(RUN) sphinx -W --keep-going -q docs docs/_build/html
	.venv/bin/python docs/check_links.py docs/_build/html

# Compiled kernels of another Numba have a folder of their own.
test-oldest: $(OLDEST_READY)  ## run the tests of the library on the oldest versions we claim (Python 3.11 or 3.12)
	.venv-oldest/bin/python -m pip --disable-pip-version-check check
	NUMBA_CACHE_DIR=$(CURDIR)/.venv-oldest/numba HYPOTHESIS_PROFILE=quick .venv-oldest/bin/python -m pytest \
		-p no:cacheprovider -n $(JOBS) $(ANY_VERSION:%=--ignore=%) $(PYTEST_ARGS) tests

# Not locked: what is new is what may break us.
test-newest:  ## run kernels, Dask and scikit-learn's checks on the newest releases, pre-releases included
	$(PYTHON) -m venv --clear .venv-newest
	.venv-newest/bin/python $(PIP_INSTALL) --pre -r requirements/dev.in
	.venv-newest/bin/python $(PIP_INSTALL) $(THIS_PACKAGE)
	NUMBA_CACHE_DIR=$(CURDIR)/.venv-newest/numba .venv-newest/bin/python -m pytest -p no:cacheprovider -n $(JOBS) \
		$(PYTEST_ARGS) $(KERNEL_TESTS) tests/dask tests/test_hdsl.py

test-python: $(OTHER_READY)  ## run the tests on another Python: make test-python PYTHON=python3.14
	$(OTHER)/bin/python -m pytest -p no:cacheprovider -n $(JOBS) $(PYTEST_ARGS)

# Coverage cannot see compiled code: the tests of the kernels run once more without compiling.
coverage: $(READY)  ## lines and branches that the tests reach, compiled kernels included: at least 95 %
	$(RUN) coverage erase
	$(RUN) coverage run -m pytest -n $(JOBS) $(PYTEST_ARGS)
	NUMBA_DISABLE_JIT=1 $(RUN) coverage run -m pytest -n $(JOBS) -k "not threads and not chunks and not install" $(KERNEL_TESTS)
	$(RUN) coverage combine -q
	$(RUN) coverage report

dist: $(RELEASE_READY)  ## build wheel and sdist, check them, run the examples on the wheel by itself
	rm -rf dist build/sdist
	.venv-release/bin/python -m hatchling build
	.venv-release/bin/python -m twine check --strict dist/*
	mkdir -p build/sdist
	tar -xzf dist/*.tar.gz --strip-components 1 -C build/sdist
	cd build/sdist && ../../.venv-release/bin/python -m hatchling build -t wheel
	cmp dist/*.whl build/sdist/dist/*.whl
	$(PYTHON) -m venv --clear .venv-dist
	.venv-dist/bin/python $(PIP_LOCKED) -r requirements/run.txt -r requirements/examples.txt
	.venv-dist/bin/python $(PIP_INSTALL) --no-deps dist/*.whl
	.venv-dist/bin/python -m pip --disable-pip-version-check check
	.venv-dist/bin/hdsl info
	for example in examples/*.py; do \
		echo $$example; MPLBACKEND=agg .venv-dist/bin/python $$example >/dev/null || exit 1; \
	done

audit: $(RELEASE_READY)  ## look up all locked versions among known vulnerabilities; needs the service
	@AUDIT_ARGS="$(AUDIT_ARGS)" .venv-release/bin/python .ci/audit.py .venv-release/bin/pip-audit requirements/*.txt

sbom:  ## write requirements/sbom.cdx.json, which the wheel carries: what the package runs with (CycloneDX)
	$(PYTHON) .ci/sbom.py requirements/run.txt requirements/sbom.cdx.json

lock: $(LOCK_READY)  ## compile the lock files again; LOCK_ARGS=--upgrade takes the newest versions
	$(COMPILE) requirements/dev.in -o requirements/dev.txt
	$(COMPILE) requirements/engines.in -o requirements/engines.txt
	$(COMPILE) requirements/docs.in -o requirements/docs.txt
	$(COMPILE) requirements/oldest.in -o requirements/oldest.txt
	$(COMPILE) requirements/lock.in -o requirements/lock.txt
	$(COMPILE) pyproject.toml -c requirements/dev.txt -o requirements/run.txt
	$(COMPILE) requirements/examples.in -o requirements/examples.txt
	$(COMPILE) requirements/release.in -o requirements/release.txt
	$(PYTHON) .ci/sbom.py requirements/run.txt requirements/sbom.cdx.json

clean:  ## remove the environments, caches and build results
	rm -rf .venv .venv-* build dist htmlcov .coverage .coverage.*
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	rm -rf docs/_build docs/gallery docs/generated
	for d in src tests benchmarks docs examples reproduce; do \
		if [ -d $$d ]; then find $$d -type d -name __pycache__ -prune -exec rm -rf {} +; fi; \
	done

# --- environments: one stamp for the locked packages, one for this package on top of them ---------

$(LOCKED): requirements/dev.txt requirements/engines.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "hdsl needs Python >= 3.11, but '$(PYTHON)' is not. Try: make env PYTHON=python3.12" >&2; exit 1; }
	@echo "Making .venv from requirements/dev.txt (a minute or two) ..."
	@$(PYTHON) -m venv --clear .venv
	@.venv/bin/python $(PIP_LOCKED) -r requirements/dev.txt
	@.venv/bin/python $(PIP_LOCKED) -r requirements/engines.txt
	@touch $@

$(READY): $(LOCKED) pyproject.toml
	@.venv/bin/python $(PIP_INSTALL) $(THIS_PACKAGE)
	@touch $@

$(DOCS_LOCKED): requirements/docs.txt $(LOCKED)
	@.venv/bin/python $(PIP_LOCKED) -r requirements/docs.txt
	@touch $@

# The oldest compiled packages have no wheels for Python 3.13.
$(OLDEST_LOCKED): requirements/oldest.txt
	@for python in $(PYTHON) python3.11 python3.12; do \
		if $$python -c 'import sys; sys.exit(sys.version_info[:2] not in [(3, 11), (3, 12)])' 2>/dev/null; then \
			echo "Making .venv-oldest from requirements/oldest.txt (a minute or two) ..."; \
			exec $$python -m venv --clear .venv-oldest; \
		fi; \
	done; \
	echo "The oldest versions need Python 3.11 or 3.12. Try: make test-oldest PYTHON=python3.11" >&2; exit 1
	@.venv-oldest/bin/python $(PIP_LOCKED) -r requirements/oldest.txt
	@touch $@

$(OLDEST_READY): $(OLDEST_LOCKED) pyproject.toml
	@.venv-oldest/bin/python $(PIP_INSTALL) $(THIS_PACKAGE)
	@touch $@

$(LOCK_READY):
	@$(PYTHON) -m venv --clear .venv-lock
	@.venv-lock/bin/python $(PIP_LOCKED) -r requirements/lock.txt
	@touch $@

$(OTHER_LOCKED): requirements/dev.txt
	@echo "Making $(OTHER) from requirements/dev.txt (a minute or two) ..."
	@$(PYTHON) -m venv --clear $(OTHER)
	@$(OTHER)/bin/python $(PIP_LOCKED) -r requirements/dev.txt
	@touch $@

$(OTHER_READY): $(OTHER_LOCKED) pyproject.toml
	@$(OTHER)/bin/python $(PIP_INSTALL) $(THIS_PACKAGE)
	@touch $@

$(RELEASE_READY): requirements/release.txt
	@$(PYTHON) -m venv --clear .venv-release
	@.venv-release/bin/python $(PIP_LOCKED) -r requirements/release.txt
	@touch $@

$(RUN_LOCKED): requirements/run.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "hdsl needs Python >= 3.11, but '$(PYTHON)' is not. Try: make demo PYTHON=python3.12" >&2; exit 1; }
	@echo "Making .venv-run from requirements/run.txt (half a minute) ..."
	@$(PYTHON) -m venv --clear .venv-run
	@.venv-run/bin/python $(PIP_LOCKED) -r requirements/run.txt
	@touch $@

# On the path, not installed: that would need a build tool.
$(DEMO_READY): $(RUN_LOCKED) pyproject.toml
	@.venv-run/bin/python -c 'import pathlib, sysconfig, tomllib; \
		version = tomllib.loads(pathlib.Path("pyproject.toml").read_text())["project"]["version"]; \
		home = pathlib.Path(sysconfig.get_path("purelib")); \
		about = home / f"hdsl-{version}.dist-info"; \
		about.mkdir(exist_ok=True); \
		(about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: hdsl\nVersion: {version}\n"); \
		(home / "hdsl.pth").write_text("$(CURDIR)/src\n")'
	@printf '#!/bin/sh\nexec "%s" -m hdsl "$$@"\n' "$(CURDIR)/.venv-run/bin/python" > .venv-run/bin/hdsl && chmod +x .venv-run/bin/hdsl
	@touch $@
