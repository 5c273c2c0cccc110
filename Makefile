# The commands of this repository. Each one sets up what it needs: .venv, the build requirements, the package.
#
#   make demo      build, install into .venv, and train the digit classifier
#   make test      build and run every test
#   make build     build and install
#   make bench     benchmarks against other libraries
#   make lint      formatting, types, line lengths, and the order of arguments, in seconds
#   make format    clang-format and ruff
#   make stubs     regenerate python/mpsgraph/_core.pyi, ops/derived.pyi, and the C++ and Swift functions of operations
#   make tools     install what tests and lint need
#   make docs      regenerate the tables in docs/operations.md and docs/nngraph.md
#   make site      build the documentation, build/site/html/index.html; a broken link fails it
#   make sanitize  C++ tests under ThreadSanitizer and AddressSanitizer
#   make fuzz      libFuzzer under AddressSanitizer, and mutated files for the importers; TARGET=json SECONDS=600
#   make coverage  line coverage of the Metal backend
#   make conformance  PyTorch's and ONNX's cases, newly drawn at random
#   make arm       cross-compile the wheel and the C++ tests for 64-bit Arm, and test both under qemu
#   make apple     compile and link the build for macOS, arm64 and x86_64, on any machine; APPLE="--only metal"
#   make clean     remove everything that was built
#
# `make test` runs these parts one after the other; each can be run alone and builds what it needs:
#
#   make test-project  layout of the source tree, prose, tables in docs/, the benchmark harness (tests/project)
#   make test-cpp      the C++ tests (tests/cpp)
#   make test-mock     the mock of Apple's frameworks, and the Metal backend from C++ (tests/mock, tests/metal)
#   make test-cpu      all other folders of tests/, on device cpu
#   make test-metal    tests marked `both_devices`, and tests/metal, on device metal over the mock
#
# These are not part of `make test`, since they need large packages, which they install in environments of their own:
#
#   make test-torch    PyTorch programs on this engine (tests/pytorch)
#   make test-jax      JAX programs, with some of JAX's own test harnesses (tests/jax_and_xla)
#   make test-onnxruntime  exported ONNX files in ONNX Runtime (tests/onnx_runtime)
#   make test-coreml   Core ML models compared with PyTorch (tests/coreml)
#   make test-lm       language models compared with transformers (tests/lm)
#   make test-array-api  data-apis/array-api-tests over mpsgraph.numpy; SUITE=its folder (tests/array_api/README.md)
#   make test-distributed  several processes that train together (tests/distributed)
#   make test-swift    the Swift package and its tests; needs Swift 6
#
# `make test FOLDER=nn` runs one folder of tests/ on the CPU, and `make test-metal FOLDER=nn` its tests for Metal.
# `make test-slow` runs tests that take minutes; `make test-systems` runs test-metal as macOS 13.3, 14.0, 15.0, and
# 27.0.
# Tests run in as many processes as there are processors, or in WORKERS=2.
#
# The package is built without isolation in a build directory that is kept, so a rebuild compiles only what changed.
# --no-builtin-rules: otherwise make would build a folder `x` from a file `x.sh`. PYTHONDONTWRITEBYTECODE is unset, or
# each process would compile numpy, pytest, and the tests again.
export PYTHONDONTWRITEBYTECODE :=
MAKEFLAGS += --no-builtin-rules

PYTHON  ?= python3
VENV    ?= .venv
BUILD   ?= build/release
DEMO    ?=
BENCH   ?=
APPLE   ?=
ARM     ?=
FOLDER    ?=
WORKERS ?= logical
PEERS   := .venv-bench
TORCH   := .venv-conformance
SITE    := .venv-docs
JAX     := .venv-jax
MPI     := .venv-distributed
ORT     := .venv-onnxruntime
COREML  := .venv-coreml
LM      := .venv-lm
ARRAYS  := .venv-array-api
RANDOM  ?=

BIN := $(VENV)/bin
# Where the package is installed, for other environments to import it from.
PURELIB = $$($(abspath $(BIN))/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# Includes directories: removing a file changes its directory.
SOURCES := $(shell find include src python cmake -not -name '*.pyc' -not -name '__pycache__') \
           CMakeLists.txt pyproject.toml README.md LICENSE
CXX_FILES = $(shell find include src tests -name '*.cpp' -o -name '*.h' -o -name '*.mm' -o -name '*.inc')

# The parts of `make test`. Each uses all processors, so they run one after the other.
PARTS := test-project test-cpp test-mock test-cpu test-metal
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: build tools demo test $(PARTS) test-torch test-jax test-onnxruntime test-coreml test-lm test-array-api \
        test-distributed test-swift test-slow test-systems bench conformance lint format stubs docs site sanitize \
        fuzz fuzz-build coverage apple mock clean arm

build: $(VENV)/installed

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Requirements that pyproject.toml lists for a purpose: first for the build, later half a gigabyte of tools for tests
# and lint. Only a little of numpy and cmake is imported, so pip need not precompile them.
$(VENV)/%-requirements.txt: pyproject.toml tools/requirements.py | $(BIN)/python
	$(BIN)/python tools/requirements.py $* > $@.new
	cmp -s $@.new $@ || $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  $(if $(filter build,$*),--no-compile) -r $@.new
	mv $@.new $@
TOOLS := $(VENV)/dev-requirements.txt

tools: $(TOOLS)

# PATH: use the environment's cmake and ninja. One compiler per processor: ninja's default of two more compete for
# caches and were slower on two cores.
$(VENV)/installed: $(VENV)/build-requirements.txt $(SOURCES)
	PATH="$(CURDIR)/$(BIN):$$PATH" \
	  CMAKE_BUILD_PARALLEL_LEVEL=$${CMAKE_BUILD_PARALLEL_LEVEL:-$$(getconf _NPROCESSORS_ONLN)} \
	  $(BIN)/python -m pip install --disable-pip-version-check \
	  --no-build-isolation --no-deps --config-settings=build-dir=$(BUILD) --verbose .
	touch $@

demo: build $(VENV)/demo-requirements.txt
	$(BIN)/mpsgraph demo digits $(DEMO)

test: $(if $(FOLDER),test-cpu,$(PARTS))

PYTEST = $(BIN)/python -m pytest -m "not slow"

# Tests run in as many processes as there are processors, one file per process. Each process uses two threads whatever
# the machine has, so that parallel loops are really shared. The folders in ALONE measure times, wait, and count
# threads; they run afterwards in a single process. $(call folders,ENVIRONMENT,LEFT OUT) runs both, or only $(FOLDER).
# numpy's matmul gets one thread, because a second one would spin on a processor that has other work. A crashed process
# ends the run with a message; if it were replaced, pytest-xdist (3.8) could wait forever.
ALONE    := runtime
TOGETHER := OMP_NUM_THREADS=2 OPENBLAS_NUM_THREADS=1
SHARED   := -n $(WORKERS) --max-worker-restart=0 --dist loadfile --no-loadscope-reorder
define folders
$(if $(filter $(ALONE),$(FOLDER)),,$(1) $(TOGETHER) $(PYTEST) $(SHARED) \
  $(if $(FOLDER),tests/$(FOLDER),$(addprefix --ignore=tests/,$(2) $(ALONE))))
$(if $(filter-out $(ALONE),$(FOLDER)),,$(1) $(PYTEST) $(addprefix tests/,$(or $(FOLDER),$(ALONE))))
endef

# Tests that build packages find the environment's cmake and ninja.
test-project test-cpu: PYTEST := PATH="$(CURDIR)/$(BIN):$$PATH" MPSGRAPH_BUILD_DIR=$(BUILD) $(PYTEST)

test-project: mock $(TOOLS)
	@echo "== $@: the source tree, its pages, the benchmarks' harness"
	$(TOGETHER) $(PYTEST) $(SHARED) tests/project

# The C++ tests build in the package's build directory.
test-cpp: build $(TOOLS)
	@echo "== $@: the C++ tests"
	PATH="$(CURDIR)/$(BIN):$$PATH" cmake -S . -B $(BUILD) -DMPSGRAPH_BUILD_TESTS=ON > $(BUILD)/configure-tests.log
	PATH="$(CURDIR)/$(BIN):$$PATH" cmake --build $(BUILD)
	MPSGRAPH_BUILD_DIR=$(BUILD) $(PYTEST) tests/cpp

test-mock: mock
	@echo "== $@: the mock of Apple's frameworks, and the Metal backend from C++"
	$(BIN)/ctest --test-dir build/mock --output-on-failure

test-cpu: build $(TOOLS)
	@echo "== $@: $(if $(FOLDER),tests/$(FOLDER),tests) on device cpu"
	$(call folders,,project cpp)

test-metal: mock $(TOOLS)
	@echo "== $@: $(if $(FOLDER),tests/$(FOLDER),tests) on device metal"
	$(call folders,MPSGRAPH_TEST_DEVICE=metal)

# The Metal backend over the mock, compiled by clang, which tools/clang.py installs or asks for.
mock: build
	clang=$$($(PYTHON) tools/clang.py) && PATH="$(CURDIR)/$(BIN):$$PATH" cmake -S tests/mock -B build/mock -G Ninja \
	  -DCMAKE_CXX_COMPILER="$$clang" -DMPSGRAPH_BUILD=$(CURDIR)/$(BUILD)
	$(BIN)/cmake --build build/mock

# The tests on the mock of other systems: older ones, where newer interfaces must raise an error, and the newest, which
# has faults of its own. The mock is macOS 26.4 on M5 by default. On one of the systems, executables do not share
# variables, so that programs with variables run through MPSGraph's cache.
SYSTEMS := 13.3 14.0 15.0 27.0
test-systems: mock $(TOOLS)
	@for system in $(SYSTEMS); do \
	  echo "== $@: tests on device metal as macOS $$system"; \
	  MPSGRAPH_MOCK_MACOS=$$system MPSGRAPH_MOCK_VARIABLES=$$([ $$system = 15.0 ] && echo separate || echo shared) \
	  MPSGRAPH_TEST_DEVICE=metal $(TOGETHER) $(PYTEST) $(SHARED) \
	    $(if $(FOLDER),tests/$(FOLDER),$(addprefix --ignore=tests/,$(ALONE))) || exit 1; \
	done

test-swift: build
	LIBRARY=$$($(BIN)/python -c "import mpsgraph, pathlib; print(pathlib.Path(mpsgraph.__file__).parent / 'lib')") && \
	  PKG_CONFIG_PATH=$$LIBRARY/pkgconfig LD_LIBRARY_PATH=$$LIBRARY \
	  swift test --package-path swift -Xswiftc -warnings-as-errors

test-slow: mock $(TOOLS)
	PATH="$(CURDIR)/$(BIN):$$PATH" MPSGRAPH_BUILD_DIR=$(BUILD) $(BIN)/python -m pytest -m slow
	PATH="$(CURDIR)/$(BIN):$$PATH" MPSGRAPH_BUILD_DIR=$(BUILD) MPSGRAPH_TEST_DEVICE=metal $(BIN)/python -m pytest \
	  -m slow tests/metal

# Other libraries are in environments of their own. PyTorch is fastest with tcmalloc, if that can be installed.
PEER_torch := torch==2.13.0 numpy transformers==5.24.0 peft==0.21.2
PEER_jax   := jax==0.10.2
PEER_mlx   := mlx==0.32.4 mlx-cpu==0.32.4 numpy
PEER_onnx  := onnxruntime==1.32.0 openvino==2026.4.1 onnx==1.23.2
PEER_numpy := numpy==2.4.6 scipy==1.17.1
bench: build $(TOOLS) $(foreach peer,torch jax mlx onnx numpy,$(PEERS)/$(peer)/installed)
	-ldconfig -p | grep -q libtcmalloc_minimal || [ "$$(id -u)" != 0 ] || \
	  apt-get install --yes --quiet libtcmalloc-minimal4
	$(BIN)/python bench/run.py $(BENCH)

$(PEERS)/%/installed:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --disable-pip-version-check $(PEER_$*)
	touch $@

# More PyTorch cases than the repository stores: four samples of each operator and module, generated in a separate
# environment; then ONNX's cases. The stored cases run with the other tests. Last, the newest ONNX cases, which onnx's
# wheel generates in memory.
CASES := build/torch-cases
ONNX  := build/onnx-1.23.2
conformance: build $(TOOLS) $(CASES)/torch_operators.tar.xz $(CASES)/torch_modules.tar.xz $(TORCH)/installed \
             $(ONNX)/installed
	for kind in onnx torch; do \
	  $(TORCH)/bin/python tests/conformance/make_random_cases.py $$kind $(CASES)/random_$$kind.npz $(RANDOM) || exit 1; \
	done
	MPSGRAPH_TORCH_CASES=$(CASES) MPSGRAPH_RANDOM_CASES=$(CASES) $(BIN)/python -m pytest tests/conformance
	MPSGRAPH_TORCH_CASES=$(CASES) PYTHONPATH=$(ONNX) $(BIN)/python -m pytest tests/conformance/test_onnx_backend.py

$(ONNX)/installed: | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --target $(@D) onnx==1.23.2
	touch $@

$(CASES)/torch_%.tar.xz: tests/conformance/make_torch_cases.py tests/conformance/data/torch_operators.txt \
                         $(TORCH)/installed
	mkdir -p $(@D)
	$(TORCH)/bin/python $< $* $@.new --per 4
	mv $@.new $@

$(TORCH)/installed:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --disable-pip-version-check --quiet \
	  torch==2.13.0 onnxscript==0.7.2 onnx==1.20.1 onnxruntime==1.32.0 keras==3.15.1 numpy expecttest safetensors scipy \
	  transformers==5.24.0 pillow
	$(@D)/bin/python -m pip install --disable-pip-version-check --quiet --no-deps torchvision==0.28.0
	touch $@

# The PyTorch frontend, in an environment with PyTorch (a gigabyte, so `make test` skips these tests).
# `make test-torch OPERATORS=all` runs all samples of PyTorch's operators instead, `MODELS=all` all models.
OPERATORS ?=
MODELS    ?=
test-torch: build $(TOOLS) $(TORCH)/installed
	PYTHONPATH=$(PURELIB) $(TOGETHER) \
	  $(TORCH)/bin/python $(if $(OPERATORS),tests/pytorch/operators.py,$(if $(MODELS),tests/pytorch/models.py,\
	  -m pytest -m "not slow" tests/pytorch))

# The JAX frontend, with libraries built on JAX. `make test-jax HARNESSES=all` runs all of JAX's harnesses instead.
HARNESSES ?=
test-jax: build $(TOOLS) $(JAX)/installed
	PYTHONPATH=$(PURELIB) $(TOGETHER) \
	  $(JAX)/bin/python $(if $(HARNESSES),tests/jax_and_xla/harnesses.py,-m pytest -m "not slow" tests/jax_and_xla)

$(JAX)/installed:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --disable-pip-version-check --quiet \
	  $(PEER_jax) numpy ml_dtypes absl-py optax equinox flax flatbuffers
	touch $@

# Exported files in ONNX Runtime, in an environment that has it.
test-onnxruntime: build $(TOOLS) $(ORT)/installed
	PYTHONPATH=$(PURELIB) $(TOGETHER) \
	  $(ORT)/bin/python -m pytest -m "not slow" tests/onnx_runtime

$(ORT)/installed:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --disable-pip-version-check --quiet onnxruntime==1.32.0
	touch $@

# Core ML models, in an environment with coremltools, whose numpy (it needs one older than 2.4) takes precedence.
test-coreml: build $(TOOLS) $(COREML)/installed
	own=$$($(COREML)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && \
	  PYTHONPATH=$$own:$(PURELIB) $(TOGETHER) $(COREML)/bin/python -m pytest -m "not slow" tests/coreml

$(COREML)/installed:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --disable-pip-version-check --quiet \
	  coremltools==9.0 torch==2.13.0 "numpy<2.4" scikit-learn
	touch $@

# Language models, in an environment with PyTorch and transformers.
test-lm: build $(TOOLS) $(LM)/installed
	PYTHONPATH=$(PURELIB) $(TOGETHER) $(LM)/bin/python -m pytest -m "not slow" tests/lm

$(LM)/installed:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --disable-pip-version-check --quiet \
	  torch==2.13.0 transformers==5.24.0 tokenizers safetensors gguf==0.19.0 jinja2 openai numpy peft==0.21.2
	touch $@

# The test suite of the Python array API standard, whose folder SUITE names; the repository has no copy. It runs
# EXAMPLES examples of each test, from another seed each time. SUITE_OPTIONS are options of pytest, such as -k fft.
SUITE         ?=
EXAMPLES      ?= 100
SUITE_OPTIONS ?=
test-array-api: build $(ARRAYS)/installed
	@test -d "$(SUITE)/array_api_tests" || { echo "SUITE must be a folder of data-apis/array-api-tests with its \
	submodule: make $@ SUITE=../array-api-tests (see tests/array_api/README.md)"; exit 2; }
	cd "$(SUITE)" && PYTHONPATH=$(PURELIB) ARRAY_API_TESTS_MODULE=mpsgraph.numpy $(TOGETHER) \
	  $(CURDIR)/$(ARRAYS)/bin/python -m pytest array_api_tests -n $(WORKERS) -W ignore --disable-deadline \
	  --max-examples $(EXAMPLES) --skips-file $(CURDIR)/tests/array_api/skips.txt $(SUITE_OPTIONS)

$(ARRAYS)/installed:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --disable-pip-version-check --quiet \
	  numpy pytest pytest-json-report pytest-xdist psutil "hypothesis>=6.151" "ndindex>=1.8"
	touch $@

# Several processes that train together, in an environment with MPI. Each computes with one thread.
$(MPI)/installed:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --disable-pip-version-check --quiet mpi4py==4.1.2 mpich==5.0.2
	touch $@

test-distributed: build $(TOOLS) $(MPI)/installed
	PYTHONPATH=$(PURELIB) OMP_NUM_THREADS=1 \
	  $(MPI)/bin/python -m pytest -m "not slow" tests/distributed

stubs: build $(TOOLS)
	$(BIN)/python tools/stubs.py $(BUILD)/stubs
	cp $(BUILD)/stubs/mpsgraph/_core.pyi python/mpsgraph/_core.pyi
	cp $(BUILD)/stubs/mpsgraph/ops/derived.pyi python/mpsgraph/ops/derived.pyi
	$(BIN)/python tools/native

docs: mock $(TOOLS)
	$(BIN)/python tools/operations.py
	$(BIN)/python tools/nngraph.py

# The documentation, built by Sphinx in a separate environment that sees the built package. Every warning is an error.
# Sphinx needs its source folder to exist before conf.py writes the pages there.
site: build $(SITE)/installed
	mkdir -p build/site/source
	PYTHONPATH=$(PURELIB) $(SITE)/bin/python -m sphinx --fail-on-warning --keep-going --quiet -E -a -b html -c tools/site \
	  -d build/site/doctrees build/site/source build/site/html
	@echo "build/site/html/index.html"

$(SITE)/installed: pyproject.toml tools/requirements.py | $(BIN)/python
	$(PYTHON) -m venv $(@D)
	$(BIN)/python tools/requirements.py docs > $(@D)/requirements.txt
	$(@D)/bin/python -m pip install --disable-pip-version-check --quiet -r $(@D)/requirements.txt
	touch $@

# Builds nothing. The package is checked strictly (pyproject.toml), the programs next to it less strictly.
lint: $(TOOLS)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	@echo clang-format --dry-run --Werror; $(BIN)/clang-format --dry-run --Werror $(CXX_FILES)
	$(BIN)/python tools/line_lengths.py
	$(BIN)/python tools/argument_order.py
	$(BIN)/mypy
	$(BIN)/mypy --config-file tools/mypy_programs.ini

format: $(TOOLS)
	$(BIN)/clang-format -i $(CXX_FILES)
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# Run the C++ tests with sanitizers, then the Metal backend over the mock, compiled by clang and without the CPU device.
sanitize: $(VENV)/build-requirements.txt
	for kind in thread address; do \
	  PATH="$(CURDIR)/$(BIN):$$PATH" cmake -S . -B build/$$kind -G Ninja -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python \
	    -DMPSGRAPH_SANITIZE=$$kind -DMPSGRAPH_BUILD_TESTS=ON -DMPSGRAPH_PYTHON=OFF && \
	  $(BIN)/cmake --build build/$$kind && $(BIN)/ctest --test-dir build/$$kind --output-on-failure || exit 1; \
	done
	clang=$$($(PYTHON) tools/clang.py) && export PATH="$(CURDIR)/$(BIN):$$PATH" && for kind in thread address; do \
	  cmake -S . -B build/clang-$$kind -G Ninja -DCMAKE_CXX_COMPILER="$$clang" -DMPSGRAPH_SANITIZE=$$kind \
	    -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python -DMPSGRAPH_PYTHON=OFF -DMPSGRAPH_CPU=OFF && \
	  cmake --build build/clang-$$kind && \
	  cmake -S tests/mock -B build/mock-$$kind -G Ninja -DCMAKE_CXX_COMPILER="$$clang" -DMPSGRAPH_SANITIZE=$$kind \
	    -DMPSGRAPH_BUILD=$(CURDIR)/build/clang-$$kind && \
	  cmake --build build/mock-$$kind && ctest --test-dir build/mock-$$kind --output-on-failure || exit 1; \
	done

# Fuzzing (tests/fuzzing). The targets in C++ are one file each and run in libFuzzer; TARGET=importers selects all
# targets in Python. Inputs that reach new code are kept in build/fuzz-corpora, and findings in build/fuzz-findings.
FUZZ_CXX  := $(filter-out fuzz libfuzzer,$(basename $(notdir $(wildcard tests/fuzzing/*.cpp))))
IMPORTERS := onnx coreml coreml_manifest checkpoint weights idx cifar10 manifest
TARGET    ?= $(FUZZ_CXX) importers
SECONDS   ?= 60
FUZZ_OPTIONS := -timeout=10 -rss_limit_mb=4096 -malloc_limit_mb=2048 -max_len=8192 -print_final_stats=1
fuzz: $(if $(filter $(FUZZ_CXX),$(TARGET)),fuzz-build) $(if $(filter importers $(IMPORTERS),$(TARGET)),build $(TOOLS))
	mkdir -p build/fuzz-findings
	for target in $(filter $(FUZZ_CXX),$(TARGET)); do \
	  echo "== $@: $$target for $(SECONDS) s"; mkdir -p build/fuzz-corpora/$$target; \
	  MPSGRAPH_FUZZ_TARGET=$$target build/fuzz/mpsgraph_fuzz $(FUZZ_OPTIONS) -max_total_time=$(SECONDS) \
	    -dict=tests/fuzzing/dictionary.txt -artifact_prefix=build/fuzz-findings/$$target- \
	    build/fuzz-corpora/$$target tests/fuzzing/corpora/$$target || exit 1; \
	done
	for target in $(subst importers,$(IMPORTERS),$(filter importers $(IMPORTERS),$(TARGET))); do \
	  echo "== $@: $$target for $(SECONDS) s"; \
	  $(BIN)/python tests/fuzzing/importers.py $$target --seconds $(SECONDS) --seed $$$$ || exit 1; \
	done

fuzz-build: $(VENV)/build-requirements.txt
	clang=$$($(PYTHON) tools/clang.py 16) && PATH="$(CURDIR)/$(BIN):$$PATH" cmake -S . -B build/fuzz -G Ninja \
	  -DCMAKE_CXX_COMPILER="$$clang" -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python -DMPSGRAPH_PYTHON=OFF -DMPSGRAPH_FUZZ=ON
	$(BIN)/cmake --build build/fuzz --target mpsgraph_fuzz

# Line coverage of the Metal backend; tests/metal/uncovered.md lists what is not covered. The second run takes the other
# branch of checks of the system's version.
PROFILE := LLVM_PROFILE_FILE=$(CURDIR)/build/coverage/profiles/%p.profraw MPSGRAPH_TEST_DEVICE=metal \
           MPSGRAPH_MOCK=$(CURDIR)/build/coverage/libmpsgraph.so
coverage: build $(TOOLS)
	clang=$$($(PYTHON) tools/clang.py) && PATH="$(CURDIR)/$(BIN):$$PATH" cmake -S tests/mock -B build/coverage \
	  -G Ninja \
	  -DCMAKE_CXX_COMPILER="$$clang" -DMPSGRAPH_BUILD=$(CURDIR)/$(BUILD) -DMPSGRAPH_COVERAGE=ON
	$(BIN)/cmake --build build/coverage --target mpsgraph
	rm -rf build/coverage/profiles
	$(PROFILE) $(BIN)/python -m pytest -q -m "not slow"
	$(PROFILE) MPSGRAPH_MOCK_MACOS=13.3 $(BIN)/python -m pytest -q tests/operations/test_values.py \
	  -k "test_values and float32 and not fft and not fourier and not cast and not bfloat16 and not complex"
	$(BIN)/python tests/metal/line_coverage.py build/coverage --at-least 95

# Checks what Apple's compiler and linker would refuse; nothing built here runs.
apple: $(TOOLS)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tests/apple/apple_target.py $(APPLE)

# Needs qemu-user-static, and a Python of the version that tests/arm/arm_target.py names. ARM="--only cpp test_gemm",
# for example, runs one file of the C++ tests.
arm: $(TOOLS)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tests/arm/arm_target.py $(ARM)

clean:
	rm -rf build $(VENV) $(PEERS) $(TORCH) $(SITE) $(JAX) $(MPI) $(ORT) $(COREML) $(LM) $(ARRAYS)
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
