// What graphs may call, which executables are as well, and Exchange, whose memory a Python thread works on meanwhile.
#include "mpsgraph/runtime/exchange.h"

#include "bindings/bindings.h"

namespace mpsgraph::bindings {

using namespace runtime;

void define_exchange(py::module_& module) {
  py::class_<compiler::Callable, std::shared_ptr<compiler::Callable>>(
      module, "Callee",
      "What operations `call` by a symbol: an executable of another graph, or an end of an Exchange.");

  py::class_<Exchange, std::shared_ptr<Exchange>>(
      module, "Exchange", "Arrays that a run hands to another thread in its middle, and takes back further on.")
      .def(py::init([] { return Exchange::create(); }))
      .def(
          "add",
          [](Exchange& self, std::string name, const std::vector<py::tuple>& types) {
            std::vector<TensorType> converted;
            for (const py::tuple& type : types) converted.push_back(to_tensor_type(type));
            return self.add(std::move(name), std::move(converted));
          },
          py::arg("name"), py::arg("types"),
          "A new slot for arrays of these types, (dtype, shape) each and of one dtype; its number. `name` is what "
          "profiles call the work on it.")
      .def("giver", &Exchange::giver, py::arg("slot"), "Takes the slot's arrays and gives nothing; does not wait.")
      .def("taker", &Exchange::taker, py::arg("slot"),
           "Gives the slot's arrays when the work on them is done, for which it waits.")
      .def("through", &Exchange::through, py::arg("slot"), "The two at once: takes, waits, and gives.")
      .def(
          "next",
          [](Exchange& self, std::optional<double> timeout) {
            std::optional<size_t> slot;
            wait_released(to_timeout(timeout), [&](double seconds) {
              slot = self.next(std::min(seconds, 0.1));
              return slot.has_value() || self.failed();
            });
            return slot;
          },
          py::arg("timeout") = py::none(),
          "The slot that was given next, for the thread that works on it; None when the time is over, or after "
          "close().")
      .def("memory", &Exchange::memory, py::arg("slot"),
           "All elements of a slot, of rank 1. They are the worker's between next() and done().")
      .def("done", &Exchange::done, py::arg("slot"), "The work on it is done: whoever takes it goes on.")
      .def("fail", &Exchange::fail, py::arg("reason"),
           "Runs that give or take, now or later, raise DeviceError with this reason.")
      .def("close", &Exchange::close, "No more work: next() gives None, and runs raise DeviceError.")
      .def_property_readonly(
          "statistics",
          [](const Exchange& self) {
            const Exchange::Statistics s = self.statistics();
            py::dict result;
            result["given"] = s.given;
            result["worked"] = s.worked;
            result["waited"] = s.waited;
            result["copied"] = s.copied;
            return result;
          },
          "How many slots were given, and seconds in all: of work on them, that takers waited, of copies.");
}

}  // namespace mpsgraph::bindings
