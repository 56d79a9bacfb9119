# Two commands are all that a reader of README.md needs: make demo, make test.
# Every target makes its own environment in .venv from the hash-locked requirements; nothing else is touched.

.DEFAULT_GOAL := help
.PHONY: help demo test lint check lock dist clean

# Passed on:  make demo ARGS="--port 8100"   make test ARGS="-k ordinance"
ARGS ?=
# Python to make .venv with, where it is not found by itself:  make PYTHON=python3.12 demo
PYTHON ?=
export PYTHON
# Test processes at once.
JOBS ?= 2

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-6s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Run the whole of Quarterline on a simulated city; Ctrl-C ends it
	@sh tools/environment run
	@.venv/bin/quarterline demo $(ARGS)

test: ## Set up, check style, types and floors, then run the quick tests
	@sh tools/environment dev
	@sh tools/debian-parts
	@$(MAKE) --no-print-directory check
	.venv/bin/pytest -m "not slow" -n $(JOBS) --dist loadfile $(ARGS)

lint: ## Check style, types and floors only
	@sh tools/environment dev
	@$(MAKE) --no-print-directory check

check:
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

lock: ## Rewrite the hash-locked requirements from pyproject.toml; UPGRADE=1 takes the newest
	@sh tools/lock

dist: ## Build the wheel and the source distribution into dist/
	@sh tools/environment dev
	.venv/bin/python -m build --no-isolation --outdir dist .

clean: ## Remove .venv, dist/ and caches
	rm -rf .venv dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
