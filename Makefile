# Everything here needs only make and Python >= 3.11; the first run builds the environment.

PYTHON ?= python3
JOBS ?= 2
PYTEST_ARGS ?=
LOCK_ARGS ?=

# The stamps carry the place of the folder: a moved or copied folder gets a new environment.
PLACE := $(shell pwd | cksum | cut -d ' ' -f 1)
LOCKED := .venv/.stamp-locked-$(PLACE)
READY := .venv/.stamp-ready-$(PLACE)
DOCS_LOCKED := .venv/.stamp-docs-$(PLACE)
OLDEST_LOCKED := .venv-oldest/.stamp-locked-$(PLACE)
OLDEST_READY := .venv-oldest/.stamp-ready-$(PLACE)
LOCK_READY := .venv-lock/.stamp-ready-$(PLACE)

RUN := .venv/bin/python -m
PIP_INSTALL := -m pip --disable-pip-version-check install -qq
THIS_PACKAGE := --no-deps --no-build-isolation -e .
COMPILE = .venv-lock/bin/python -m uv pip compile --quiet --universal --generate-hashes \
	--python-version 3.11 --custom-compile-command "make lock" $(LOCK_ARGS)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help env test lint demo bench docs test-oldest lock clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

env: $(READY)  ## make .venv with the locked versions; nothing to do when it is current

test: lint  ## run the linters, then all tests and doctests
	$(RUN) pytest -n $(JOBS) $(PYTEST_ARGS)

lint: $(READY)  ## run ruff, mypy and the import contract
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy
	.venv/bin/lint-imports --no-logo --no-cache

demo: $(READY)  ## learn which docstrings of Python's own library belong together; writes hdsl-demo.html
	$(RUN) hdsl demo

bench: $(READY)  ## run the benchmarks
	$(RUN) benchmarks

docs: $(READY) $(DOCS_LOCKED)  ## build the pages in docs/_build/html, and check the links inside them
	$(RUN) sphinx -W --keep-going -q docs docs/_build/html
	.venv/bin/python docs/check_links.py docs/_build/html

test-oldest: $(OLDEST_READY)  ## run the tests on the oldest versions we claim (Python 3.11 or 3.12)
	.venv-oldest/bin/python -m pip --disable-pip-version-check check
	.venv-oldest/bin/python -m pytest -p no:cacheprovider -n $(JOBS) $(PYTEST_ARGS) tests

lock: $(LOCK_READY)  ## compile the lock files again; LOCK_ARGS=--upgrade takes the newest versions
	$(COMPILE) requirements/dev.in -o requirements/dev.txt
	$(COMPILE) requirements/docs.in -o requirements/docs.txt
	$(COMPILE) requirements/oldest.in -o requirements/oldest.txt
	$(COMPILE) requirements/lock.in -o requirements/lock.txt

clean:  ## remove the environments, caches and build results
	rm -rf .venv .venv-oldest .venv-lock build dist htmlcov .coverage .coverage.*
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	rm -rf docs/_build docs/gallery docs/generated
	for d in src tests benchmarks docs examples; do \
		if [ -d $$d ]; then find $$d -type d -name __pycache__ -prune -exec rm -rf {} +; fi; \
	done

# --- environments: one stamp for the locked packages, one for this package on top of them ---------

$(LOCKED): requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "hdsl needs Python >= 3.11, but '$(PYTHON)' is not. Try: make env PYTHON=python3.12" >&2; exit 1; }
	@echo "Making .venv from requirements/dev.txt (a minute or two) ..."
	@$(PYTHON) -m venv --clear .venv
	@.venv/bin/python $(PIP_INSTALL) --require-hashes -r requirements/dev.txt
	@touch $@

$(READY): $(LOCKED) pyproject.toml
	@.venv/bin/python $(PIP_INSTALL) $(THIS_PACKAGE)
	@touch $@

$(DOCS_LOCKED): requirements/docs.txt $(LOCKED)
	@.venv/bin/python $(PIP_INSTALL) --require-hashes -r requirements/docs.txt
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
	@.venv-oldest/bin/python $(PIP_INSTALL) --require-hashes -r requirements/oldest.txt
	@touch $@

$(OLDEST_READY): $(OLDEST_LOCKED) pyproject.toml
	@.venv-oldest/bin/python $(PIP_INSTALL) $(THIS_PACKAGE)
	@touch $@

$(LOCK_READY):
	@$(PYTHON) -m venv --clear .venv-lock
	@.venv-lock/bin/python $(PIP_INSTALL) --require-hashes -r requirements/lock.txt
	@touch $@
