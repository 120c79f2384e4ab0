# The index of commands. Each sets up what it needs on a fresh Debian machine and runs what CI runs.
#
#   make demo      a private logistic regression on real patients, end to end (no R, no server)
#   make test      set up everything and pass all tests
#   make setup     .venv with the package and every extra; R from Debian's packages
#   make test-wide  what `make test` leaves out: all combinations of values, the other vignettes, R CMD check, a browser
#   make test-entropy  tests that judge randomness with the operating system's entropy; properties on new examples
#   make test-pandas2  how cells are read, with pandas 2.2
#   make lint      style, types, layers
#   make docs      the pages: docs/_build/index.html; what code prints stands in them where `make test` and `make test-wide` have run
#   make docs-serve  the pages at http://localhost:8000
#   make docs-archive  the pages as docs/_build.tar.gz
#   make validate  slow statistical studies; writes vignettes/validation/
#   make audit     searches for violations of every guarantee; writes vignettes/validation/guarantees.md
#   make bench     fits and descriptions against diffprivlib, statsmodels, scikit-learn, glum, pandas and R; timings of samplers
#   make release   wheel and source archive, the same bytes each time, tried in empty environments; a bill of materials: dist/
#   make lock      requirements of CI with hashes: tools/requirements-ci.txt
#   make clean     remove environments and caches

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
APT := flock Makefile $(if $(filter 0,$(shell id -u)),,sudo )env DEBIAN_FRONTEND=noninteractive apt-get
# R, R's survival for the reference values, what the R bridge and its tests use, a browser for JupyterLab, and a PostgreSQL
# server that tests start for themselves.
DEBS := r-base-core r-cran-survival make r-cran-bit64 r-cran-generics r-cran-irkernel r-cran-reticulate libpython3-dev r-cran-testthat \
  r-cran-car r-cran-clubsandwich r-cran-emmeans r-cran-geepack r-cran-haven r-cran-lmtest r-cran-multcomp r-cran-parameters r-cran-performance r-cran-repr r-cran-sandwich r-cran-survey r-cran-xtable \
  r-cran-ggplot2 r-cran-tibble r-cran-withr r-cran-knitr r-cran-rmarkdown pandoc chromium libatomic1 postgresql
# Packages of Debian are installed while pip installs those of Python, and loops are compiled meanwhile.
MAKEFLAGS += -j2
# One thread a process; compiled modules are kept, whatever the machine's setting, as tests start many processes.
THREADS := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=
TESTS_OF_CELLS := tests/properties/test_cells_apart.py tests/properties/test_total_maps.py tests/unit/schema
TESTS_OF_CELLS_NEED := hypothesis pytest pytest-benchmark pytest-randomly

.PHONY: demo test test-wide test-entropy test-pandas2 setup compiled debs lint style types layers docs docs-serve docs-archive validate audit bench release lock clean
.DEFAULT_GOAL := setup

demo: $(VENV)/.core
	$(BIN)/python tools/demo.py

test: compiled
	$(THREADS) $(BIN)/python -m pytest -n 2 --dist worksteal --doctest-modules hdpstats r_bridge tests --ignore tests/benchmarks --ignore tests/vignettes/test_built_pages.py -m "not validate and not wide"

# What takes long and seldom finds what no other test finds: see CONTRIBUTING.md.
test-wide: compiled
	$(THREADS) $(BIN)/python -m pytest -n 2 --dist worksteal tests --ignore tests/benchmarks --ignore tests/vignettes/test_built_pages.py -m "wide and not validate"

# Without this, tests draw seeded noise (tests/plugin.py) and properties are tried on the same examples every time.
test-entropy: setup
	$(THREADS) $(BIN)/python -m pytest --system-entropy tests --ignore tests/benchmarks -m "(entropy or hypothesis) and not validate"

# The installed pandas is the newest one; cells are read alike with the oldest one that the package takes.
test-pandas2: setup
	$(PYTHON) -m venv $(VENV)/pandas2
	$(VENV)/pandas2/bin/python -m pip install --quiet ".[scale,sites]" "pandas==2.2.*" $(TESTS_OF_CELLS_NEED)
	$(THREADS) $(VENV)/pandas2/bin/python -m pytest $(TESTS_OF_CELLS)

setup: $(VENV)/.everything

# On a fresh clone most loops are compiled before processes start that would all compile them at once.
compiled: setup
	@$(THREADS) $(BIN)/python -m tests.compiled

lint: style types layers

style: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check hdpstats r_bridge tests benchmarks tools

types: setup
	$(BIN)/mypy

layers: setup
	$(BIN)/lint-imports

docs: setup
	$(BIN)/sphinx-build -W --keep-going -q -b html -c docs -d docs/_doctrees . docs/_build

docs-serve: docs
	$(BIN)/python -m http.server --directory docs/_build --bind 127.0.0.1 8000

docs-archive: docs
	tar -czf docs/_build.tar.gz -C docs/_build .

validate: setup $(VENV)/flare/.installed
	$(THREADS) $(BIN)/python -m pytest tests/statistical -m validate -p no:randomly

audit: setup
	$(THREADS) $(BIN)/python -m tools.audit

bench: setup
	sh benchmarks/make_environment.sh
	$(BIN)/python -m benchmarks.logistic
	$(BIN)/python -m benchmarks.hazard
	$(BIN)/python -m benchmarks.public_rows
	$(BIN)/python -m benchmarks.private_passes
	$(BIN)/python -m benchmarks.partitions
	$(BIN)/python -m benchmarks.descriptions
	$(BIN)/python -m benchmarks.cost
	$(BIN)/python -m benchmarks.neighbours
	$(BIN)/python -m benchmarks.r_frames
	$(BIN)/python -m benchmarks.reference_fits
	$(BIN)/python -m benchmarks.service
	$(BIN)/python -m pytest tests/benchmarks --benchmark-only

# What builds and checks a release is in an environment of its own, from the locked requirements.
release: debs $(VENV)/release/.ready
	$(VENV)/release/bin/python tools/release.py

lock: $(VENV)/.core debs
	$(BIN)/python tools/lock.py

$(VENV)/release/.ready: pyproject.toml tools/requirements-release.txt
	$(PYTHON) -m venv $(VENV)/release
	$(VENV)/release/bin/python -m pip install --quiet --require-hashes --requirement tools/requirements-release.txt
	@touch $@

# NVIDIA FLARE brings 22 packages that nothing else needs, some of them pinned: its study has an environment of its own.
$(VENV)/flare/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)/flare
	$(VENV)/flare/bin/python -m pip install --quiet --editable ".[flare]"
	@touch $@

# A virtual environment with the package alone: all that the demo needs.
$(VENV)/.core: pyproject.toml
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { $(APT) update -q && $(APT) install -yq python3-venv && $(PYTHON) -m venv $(VENV); }
	$(BIN)/python -m pip install --quiet --upgrade pip
ifndef LOCKED
	$(BIN)/python -m pip install --quiet --editable .
endif
	@touch $@

debs:
	@dpkg -s $(DEBS) >/dev/null 2>&1 || { $(APT) update -q && $(APT) install -yq --no-install-recommends $(DEBS); }

# Every extra and the development tools; with LOCKED=1 in the versions, and from the files, that `make lock` wrote for
# Python 3.11. R comes before rpy2, which looks for it when it is installed.
$(VENV)/.everything: $(VENV)/.core | debs
ifdef LOCKED
	RPY2_CFFI_MODE=ABI $(BIN)/python -m pip install --quiet --require-hashes --requirement tools/requirements-ci.txt || \
		{ echo "tools/requirements-ci.txt cannot be installed here: run make lock, or make without LOCKED=1" >&2; false; }
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
else
	RPY2_CFFI_MODE=ABI $(BIN)/python -m pip install --quiet --editable ".[all,r-cells,dev]"
endif
	@touch $@

clean:
	rm -rf $(VENV) docs/_build docs/_build.tar.gz docs/_doctrees docs/_printed docs/_thumbnails docs/jupyter_execute docs/reference/generated docs/reference/r docs/reference/from_code .bench-venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
