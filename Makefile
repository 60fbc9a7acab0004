# Every target works from a fresh clone with nothing but make and Python 3.10 or newer: the first one
# sets up .venv (tools/setup.py), which costs nothing when it is there.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup kernels demo test test-all test-spark test-connect bench lint format docs clean

# The first Python that runs and is new enough; `make PYTHON=...` names another.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.10 python3 python; do \
	if $$p -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; \
	then echo $$p; break; fi; done)

# What a program of .venv runs with: the Java that the set-up found, the same Python for Spark's workers
# (Spark would take the first python3 of the path), and a numba cache that is never stale.
with = JAVA_HOME="$$(cat .venv/.skewless-java-home)" PYSPARK_PYTHON="$(CURDIR)/.venv/bin/python" \
	NUMBA_CACHE_DIR="$$(.venv/bin/python tools/numba_cache.py)"
python = $(with) .venv/bin/python
pytest = $(python) -m pytest
args ?=

help: ## Say what there is
	@echo "make demo      see what skewless does, on real words and Spark (a few minutes at first)"
	@echo "make test      run the tests, and the kernels' tests without and with bounds checks"
	@echo "make test-all  the same with the slow tests"
	@echo "make test-spark   run the tests of batch frames on older Sparks (versions='3.5 4.0 4.1')"
	@echo "make test-connect  run the tests of batch frames on Spark Connect"
	@echo "make bench     run the benchmarks (args='...' is handed on)"
	@echo "make lint      ruff, mypy and the import rules"
	@echo "make format    let ruff lay out the code and mend what it can"
	@echo "make docs      check the links and run the examples of README and docs"
	@echo "make setup     only set up .venv"
	@echo "make clean     remove caches and reports; .venv stays"

setup: ## Bring .venv up to date
	@if [ -z "$(PYTHON)" ]; then \
		echo "setup: skewless needs Python 3.10 or newer and found none on the path;" \
			"install one, or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; fi
	@$(PYTHON) tools/setup.py

kernels: setup
	@$(python) tools/compile_kernels.py

demo: kernels
	@$(with) .venv/bin/skewless demo $(args)

test: setup
	@$(python) tools/run_tests.py $(args)

test-all: setup
	@$(python) tools/run_tests.py --all $(args)
	@$(MAKE) test-connect test-spark

# The classic tests again, on Sparks that are still in use.
test-spark: setup
	@$(python) tools/older_sparks.py $(or $(versions),3.5 4.0 4.1) -- \
		$(or $(args),$(filter-out %/test_auto.py %/test_random_jobs.py,$(batch_tests)))

# Streams are not among them yet.
batch_tests = $(addprefix tests/spark/test_,aggregators.py apply.py auto.py batch_agg.py \
	batch_aggregate.py batch_bad_input.py batch_repartition.py cogroup.py inspect.py join.py sampling.py \
	random_jobs.py split_or_whole.py top_n.py window.py writing.py)

test-connect: setup
	SKEWLESS_SPARK=connect $(pytest) -m "not slow" $(or $(args),$(batch_tests))

bench: kernels
	$(python) -m benchmarks $(args)

lint: setup
	.venv/bin/python -m ruff check .
	.venv/bin/python -m ruff format --check .
	.venv/bin/python -m mypy
	.venv/bin/python -c "from importlinter.cli import lint_imports_command; lint_imports_command()"

format: setup
	.venv/bin/python -m ruff check --fix .
	.venv/bin/python -m ruff format .

docs: setup
	.venv/bin/python tools/check_docs.py
	$(pytest) README.md CONTRIBUTING.md docs

clean:
	rm -rf .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist \
		spark-warehouse metastore_db derby.log demo.html
	find src tests tools benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
