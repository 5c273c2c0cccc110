// The module mpsgraph._core: defines the contents of all files, and registers an orderly shutdown at exit.
#include "backends/cpu/random/philox.h"
#include "bindings/bindings.h"

#ifndef MPSGRAPH_VERSION
#define MPSGRAPH_VERSION "0.0.0"
#endif

namespace py = pybind11;

namespace {

#define MPSGRAPH_TEXT_OF(value) #value
#define MPSGRAPH_TEXT(macro) MPSGRAPH_TEXT_OF(macro)
constexpr const char* build_information =
#ifdef __clang__
    "clang " __clang_version__
#else
    "gcc " __VERSION__
#endif
#if defined(_LIBCPP_VERSION)
    ", libc++ " MPSGRAPH_TEXT(_LIBCPP_VERSION)
#elif defined(_GLIBCXX_RELEASE)
    ", libstdc++ " MPSGRAPH_TEXT(_GLIBCXX_RELEASE)
#endif
#ifdef __ENVIRONMENT_MAC_OS_X_VERSION_MIN_REQUIRED__
        ", for macOS " MPSGRAPH_TEXT(__ENVIRONMENT_MAC_OS_X_VERSION_MIN_REQUIRED__)
#endif
    ;

}  // namespace

namespace mpsgraph::bindings {
void define_programs(Module& module);  // Defined in programs.cpp.
}

PYBIND11_MODULE(_core, native) {
  using namespace mpsgraph;
  bindings::Module module(native);
  module.doc() = "The C++ core of mpsgraph. Import the package mpsgraph instead.";
  bindings::define_errors(module);
  bindings::define_types(module);
  bindings::define_ndarray(module);
  bindings::define_package_contents(module);
  bindings::define_graph(module);
  bindings::define_runtime(module);
  bindings::define_profiler(module);
  bindings::define_exchange(module);
  bindings::define_custom(module);
  bindings::define_executables(module);
  bindings::define_executable_templates(module);
  bindings::define_tensor_exchange(module);
  bindings::define_nngraph(module);
  bindings::define_probes(module);
  bindings::define_package(module);
  bindings::define_limits(module);
  bindings::define_programs(module);
  bindings::define_nngraph_recurrent(module);

  module.def("library_version", [] { return std::string(MPSGRAPH_VERSION); }, R"(Return the version of the library.

Returns:
    The version as a string, such as "0.1.0".

Example:
    >>> mg.library_version() == mg.__version__
    True
)");
  module.def(
      "build_information", [] { return std::string(build_information); },
      "Return the compiler, the C++ library, and the oldest macOS for which this module was built.");
  module.def(
      "philox",
      [](uint64_t key, uint64_t counter_low, uint64_t counter_high, py::ssize_t blocks) {
        py::array_t<uint32_t> words(std::vector<py::ssize_t>{blocks, 4});
        cpu::Philox(key, counter_low, counter_high).generate(words.mutable_data(), blocks);
        return words;
      },
      py::arg("key"), py::arg("counter_low") = 0, py::arg("counter_high") = 0, py::arg("blocks") = 1,
      "Return blocks of Philox 4x32-10, four words each. All random numbers are derived from such blocks.");
  bindings::check_arguments();

  // The runtime must shut down before the interpreter exits, because work in flight may still call Python handlers.
  py::module_::import("atexit").attr("register")(module.attr("shutdown"));
}
