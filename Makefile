# Each target does its own set-up; nothing here leaves a trace in `git status`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
# Modules are compiled when they are first used and kept, whatever the machine's default is: much here starts processes.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test quick slow check dev docs clean lock

demo: $(READY)
	$(BIN)/eval-pipeline demo

test: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	# A worker per processor: every further one would import everything once more.
	$(BIN)/pytest -n $$(getconf _NPROCESSORS_ONLN) --dist worksteal

# What needs no process, browser, Dagster or document: some minutes, before a commit.
quick: $(READY)
	$(BIN)/pytest -n $$(getconf _NPROCESSORS_ONLN) --dist worksteal -m quick

# What takes minutes: documents followed through Dagster, its daemon, kills by the dozen, and what needs services.
# A part whose program cannot be had says so and is skipped; that nothing is left to run (5) is no failure.
slow: $(READY)
	$(BIN)/pytest -n $$(getconf _NPROCESSORS_ONLN) --dist worksteal -m slow -rs || [ $$? = 5 ]

# What a merge needs: the tests, and every formula's version raised where its meaning moved.
check: test
	$(BIN)/eval-pipeline metrics --check-lock

dev: $(READY)
	$(BIN)/eval-pipeline ui

# The generated pages under docs/, from what the product says of itself.
docs: $(READY)
	$(BIN)/python -m docs.build.commands

lock:
	uv pip compile pyproject.toml --extra dev --generate-hashes --no-emit-index-url --no-header --no-annotate \
	    --python-version 3.11 --universal -o requirements.lock
	# Apart: it wants an older SQLAlchemy. Only what differs from the other.
	printf 'dagster-postgres>=0.29.27,<0.30\npsycopg2-binary>=2.9.10\nsqlalchemy<2.1\n' | uv pip compile - --no-deps --generate-hashes \
	    --no-emit-index-url --no-header --no-annotate --python-version 3.11 --universal -o deploy/postgres.lock

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-compile --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --no-compile --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $(READY)

clean:
	rm -rf $(VENV) data
