# The commands of this repository. Each makes what it needs: .venv, the build requirements, the package.
#
#   make demo      build, install into .venv, train the digit classifier      make test      build and run every test
#   make build     build and install                                          make bench     ours beside the peers
#   make format    clang-format and ruff                                      make stubs     python/mpsgraph/_core.pyi
#   make docs      docs/operations.md, from the operation table      make conformance  PyTorch's cases, drawn fresh
#   make sanitize  C++ tests under ThreadSanitizer and AddressSanitizer       make clean     remove all that was made
#
# The package is built without isolation in a build directory that stays, so that a rebuild compiles what changed.
PYTHON ?= python3
VENV   ?= .venv
BUILD  ?= build/release
DEMO   ?=
BENCH  ?=
PEERS  := .venv-bench
TORCH  := .venv-conformance

BIN := $(VENV)/bin
# Directories too: a file that was removed changes its directory.
SOURCES := $(shell find src python cmake -not -name '*.pyc' -not -name '__pycache__') CMakeLists.txt pyproject.toml README.md LICENSE
CXX_FILES = $(shell find src tests -name '*.cpp' -o -name '*.h')

.DELETE_ON_ERROR:
.PHONY: build demo test test-slow bench conformance format stubs docs sanitize clean

build: $(VENV)/installed

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/requirements.txt: pyproject.toml tools/requirements.py | $(BIN)/python
	$(BIN)/python tools/requirements.py dev > $@.new
	cmp -s $@.new $@ || $(BIN)/python -m pip install --quiet --disable-pip-version-check -r $@.new
	mv $@.new $@

# PATH: cmake and ninja are those of the environment.
$(VENV)/installed: $(VENV)/requirements.txt $(SOURCES)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install --disable-pip-version-check \
	  --no-build-isolation --no-deps --config-settings=build-dir=$(BUILD) --verbose .
	touch $@

demo: build
	$(BIN)/mpsgraph demo digits $(DEMO)

# The C++ tests are built where the package was.
test: build
	PATH="$(CURDIR)/$(BIN):$$PATH" cmake -S . -B $(BUILD) -DMPSGRAPH_BUILD_TESTS=ON > $(BUILD)/configure-tests.log
	PATH="$(CURDIR)/$(BIN):$$PATH" cmake --build $(BUILD)
	PATH="$(CURDIR)/$(BIN):$$PATH" MPSGRAPH_BUILD_DIR=$(BUILD) $(BIN)/python -m pytest -m "not slow"

test-slow: build
	PATH="$(CURDIR)/$(BIN):$$PATH" MPSGRAPH_BUILD_DIR=$(BUILD) $(BIN)/python -m pytest -m slow

# Peers live in environments of their own. tcmalloc is PyTorch's best allocator; without it, it is measured without it.
bench: build $(PEERS)/torch/installed
	-ldconfig -p | grep -q libtcmalloc_minimal || [ "$$(id -u)" != 0 ] || apt-get install --yes --quiet libtcmalloc-minimal4
	$(BIN)/python bench/run.py $(BENCH)

$(PEERS)/torch/installed:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --disable-pip-version-check torch==2.13.0 numpy
	touch $@

# More cases of PyTorch's than the repository holds: four samples of each operator and module, made in an environment of
# its own; then ONNX's cases and these. The stored cases run with the other tests.
CASES := build/torch-cases
conformance: build $(CASES)/torch_operators.tar.xz $(CASES)/torch_modules.tar.xz
	MPSGRAPH_TORCH_CASES=$(CASES) $(BIN)/python -m pytest tests/conformance

$(CASES)/torch_%.tar.xz: tests/conformance/make_torch_cases.py tests/conformance/data/torch_operators.txt $(TORCH)/installed
	mkdir -p $(@D)
	$(TORCH)/bin/python $< $* $@.new --per 4
	mv $@.new $@

$(TORCH)/installed:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --disable-pip-version-check --quiet \
	  torch==2.13.0 onnxscript==0.7.2 onnx==1.20.1 numpy expecttest
	touch $@

stubs: build
	$(BIN)/python tools/stubs.py $(BUILD)/stubs
	cp $(BUILD)/stubs/mpsgraph/_core.pyi python/mpsgraph/_core.pyi

docs: build
	$(BIN)/python tools/operations.py

format: $(VENV)/requirements.txt
	$(BIN)/clang-format -i $(CXX_FILES)
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

sanitize: $(VENV)/requirements.txt
	for kind in thread address; do \
	  PATH="$(CURDIR)/$(BIN):$$PATH" cmake -S . -B build/$$kind -G Ninja -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python \
	    -DMPSGRAPH_SANITIZE=$$kind -DMPSGRAPH_BUILD_TESTS=ON -DMPSGRAPH_PYTHON=OFF && \
	  $(BIN)/cmake --build build/$$kind && $(BIN)/ctest --test-dir build/$$kind --output-on-failure || exit 1; \
	done

clean:
	rm -rf build $(VENV) $(PEERS) $(TORCH) .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
