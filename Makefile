# Needs Python >= 3.11, make and git. `make demo` shows what adkpg does; `make` lists the rest.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
BENCH := .venv-bench
BENCH_INSTALLED := $(BENCH)/.installed

# Without a home directory to write to, pip would warn that it cannot cache, and an ordinary user's
# embedded server would have no place for its data.
ifneq ($(shell test -n "$$HOME" && test -w "$$HOME" && echo writable),writable)
export PIP_NO_CACHE_DIR := 1
ifneq ($(shell id -u),0)
ifeq ($(ADKPG_EMBEDDED_DIR)$(XDG_DATA_HOME),)
SERVER := $(CURDIR)/.venv/server
demo: export ADKPG_EMBEDDED_DIR := $(SERVER)
endif
endif
endif
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Without, each program that a test starts would compile adkpg anew: five seconds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-all test-quickstarts test-pgbouncer test-versions test-distributed test-mysql test-browser screenshots check docs site release bench soak lock

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST)

demo: $(INSTALLED) ## an agent that remembers, on the Postgres that comes along
	@$(BIN)/adkpg demo
	@test -z "$(SERVER)" || printf '%s\n' "You have no home directory to write to; type this first:" \
	  "  export ADKPG_EMBEDDED_DIR='$(SERVER)'"

PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 8

test: $(INSTALLED) ## what runs in this process and on a real Postgres, in minutes; ARGS="tests/unit -x" for a part of all
	$(PYTEST) $(or $(ARGS),-m "not program")

test-all: $(INSTALLED) ## all of it: tests that start programs, run documentation and build packages, too; measures coverage
	HYPOTHESIS_PROFILE=thorough $(PYTEST) --cov

test-quickstarts: $(INSTALLED) ## the programs and commands of README and the quickstarts
	$(PYTEST) tests/packaging/test_programs.py tests/packaging/test_commands.py -k "README or quickstart" $(ARGS)

PGBOUNCER ?= pgbouncer
test-pgbouncer: $(INSTALLED) ## the suite through PgBouncer; PGBOUNCER=/path/to/pgbouncer
	@PATH="$$PATH:/usr/sbin" command -v $(PGBOUNCER) >/dev/null || { printf '%s\n' \
	  "PgBouncer is missing: apt-get install pgbouncer, or name one with PGBOUNCER=/path/to/pgbouncer"; exit 1; }
	ADKPG_TEST_PGBOUNCER=$$(PATH="$$PATH:/usr/sbin" command -v $(PGBOUNCER)) \
	  $(PYTEST) $(ARGS)

ON_A_CLUSTER := tests/distributed tests/conformance tests/sessions tests/memory tests/erasure tests/models \
  tests/facts tests/documents tests/audit tests/artifacts tests/operations/test_people.py \
  tests/operations/test_figures.py tests/transfer/test_export_and_import.py tests/transfer/test_leaving.py
# Without ARGS: what a cluster must keep to. ADKPG_TEST_CITUS_URL names one that runs.
test-distributed: $(INSTALLED) ## the suite on a Citus cluster: of containers, or CITUS_BIN=/folder/of/postgres that has Citus and pgvector
ifneq ($(CITUS_BIN)$(ADKPG_TEST_CITUS_URL),)
	ADKPG_TEST_CITUS_BIN="$(CITUS_BIN)" $(BIN)/python -m pytest -n 2 \
	  $(or $(ARGS),$(ON_A_CLUSTER))
else
	@docker info >/dev/null 2>&1 || { printf '%s\n' \
	  "No Docker engine answers; name a cluster: CITUS_BIN=/folder/with/initdb/and/postgres, or ADKPG_TEST_CITUS_URL=postgresql://coordinator/postgres (docs/distributed.md)"; exit 1; }
	.ci/cluster
endif

# ONLY: lowest, newest-3.12, postgres ...; POSTGRES_BIN: instead of those in /usr/lib/postgresql.
test-versions: $(INSTALLED) ## the suite at both ends of google-adk, on each Python and other Postgres; ONLY=lowest for one
	POSTGRES_BIN="$(POSTGRES_BIN)" $(BIN)/nox $(if $(ONLY),--session $(ONLY)) -- $(ARGS)

test-mysql: $(INSTALLED) ## imports from a MariaDB, which apt-get install mariadb-server brings
	@PATH="$$PATH:/usr/sbin" command -v mariadbd >/dev/null || { printf '%s\n' \
	  "MariaDB is missing: apt-get install --no-install-recommends mariadb-server"; exit 1; }
	ADKPG_TEST_MARIADB=$$(PATH="$$PATH:/usr/sbin" command -v mariadbd) \
	  $(BIN)/python -m pytest -m mysql $(ARGS)

CHROMIUM ?= chromium
ROOT := $(if $(filter 0,$(shell id -u)),,sudo -n)
APT := $(ROOT) apt-get
HAVE_CHROMIUM = command -v $(CHROMIUM) >/dev/null || { \
	  test "$(CHROMIUM)" = chromium && $(APT) update -qq >/dev/null && \
	  $(APT) install -y -qq --no-install-recommends chromium >/dev/null; } 2>/dev/null || { printf '%s\n' \
	  "Chromium is missing: apt-get install --no-install-recommends chromium, or name one with CHROMIUM=/path/to/chromium"; exit 1; }

test-browser: $(INSTALLED) ## the console in Chromium, which apt-get brings if it is missing
	@$(HAVE_CHROMIUM)
	ADKPG_TEST_CHROMIUM=$$(command -v $(CHROMIUM)) $(BIN)/python -m pytest -m browser $(ARGS)

screenshots: $(INSTALLED) ## write docs/console-*.png, pictures of the console in Chromium
	@$(HAVE_CHROMIUM)
	ADKPG_TEST_CHROMIUM=$$(command -v $(CHROMIUM)) ADKPG_TEST_SCREENSHOTS=docs \
	  $(BIN)/python -m pytest -q -m browser tests/browser/test_screenshots.py

check: $(INSTALLED) ## lint, format, types, import contracts, words
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python docs/words.py

docs: $(INSTALLED) ## write docs/cli.md and docs/settings.md from the code
	$(BIN)/python docs/generate.py

site: $(INSTALLED) ## the documentation as a site, in site/; opens without a server or a network
	@printf '%s\n' "Building the site takes about a minute."
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --site-dir $(or $(SITE),site)
	@printf '%s\n' "Open $(or $(SITE),site)/index.html in a browser."

DIST ?= dist
release: $(INSTALLED) ## wheel, sdist and SBOM in dist/, checked, the same bytes everywhere; publishes nothing: push the tag
	rm -rf $(DIST)/adkpg-* $(DIST)/adkpg.cdx.json
	$(BIN)/python -m hatchling build -d $(DIST)
	$(BIN)/python -m twine check --strict $(DIST)/adkpg-*.whl $(DIST)/adkpg-*.tar.gz
	$(BIN)/check-wheel-contents --ignore W002,W004 $(DIST)/adkpg-*.whl
	PYTHONWARNINGS=ignore $(BIN)/cyclonedx-py requirements constraints.txt --pyproject pyproject.toml --mc-type library \
	  --output-reproducible -o $(DIST)/adkpg.cdx.json

bench: $(BENCH_INSTALLED) ## measure next to the peers, write docs/benchmarks.*; ARGS="--quick --only sessions" for a part
	$(BENCH)/bin/python benchmarks $(ARGS)

soak: $(BENCH_INSTALLED) ## mixed load and faults, checked, reported in .soak/; MINUTES=10 for less than 30
	$(BENCH)/bin/python benchmarks/soak --minutes $(or $(MINUTES),30) $(ARGS)

LOCK := uv pip compile --quiet --universal --python-version 3.11 \
  --generate-hashes --no-emit-index-url --no-emit-find-links --no-header

lock: $(INSTALLED) ## write the three constraints from pyproject.toml; UPGRADE=--upgrade for newer versions
	$(BIN)/$(LOCK) $(UPGRADE) --all-extras --group dev --output-file constraints.txt pyproject.toml
	$(BIN)/$(LOCK) $(UPGRADE) --all-extras --group bench --overrides benchmarks/overrides.txt \
	  --output-file benchmarks/constraints.txt pyproject.toml
	printf 'hatchling\nhatch-fancy-pypi-readme\n' | $(BIN)/$(LOCK) $(UPGRADE) --extra local --extra console --no-annotate \
	  --constraint constraints.txt --output-file constraints-image.txt pyproject.toml -

# --no-deps: the file is complete, and pip would look for the newest release of what a package asks for with an extra.
$(INSTALLED): constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("adkpg needs Python 3.11 or newer: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	@echo "Installing into .venv what constraints.txt pins; the first time takes about a minute."
	@$(BIN)/python -m pip install -qq --no-deps --require-hashes -r constraints.txt
	@$(BIN)/python -m pip install -qq --no-deps --no-build-isolation -e .
	@touch $(INSTALLED)

# --no-deps: the file is complete, and one peer's bound on pgvector is overridden (benchmarks/overrides.txt).
$(BENCH_INSTALLED): benchmarks/constraints.txt
	$(PYTHON) -m venv $(BENCH)
	@echo "Installing into $(BENCH) what benchmarks/constraints.txt pins: adkpg's peers and matplotlib."
	@$(BENCH)/bin/python -m pip install -qq --no-deps --require-hashes -r benchmarks/constraints.txt
	@$(BENCH)/bin/python -m pip install -qq --no-deps --no-build-isolation -e .
	@touch $(BENCH_INSTALLED)
