// Bindings of Callee (the base class of everything that graphs can call, such as executables), Exchange (whose memory a
// Python thread processes during a run), and SharedSum (which sums this memory across processes).
#include "mpsgraph/runtime/exchange.h"

#include "bindings/bindings.h"
#include "mpsgraph/runtime/shared_sum.h"

namespace mpsgraph::bindings {

using namespace runtime;

void define_exchange(Module& module) {
  Class<compiler::Callable, std::shared_ptr<compiler::Callable>>(
      module, "Callee", "The target of a `call` operation: an executable of another graph, or an end of an Exchange.");

  Class<SharedSum, std::shared_ptr<SharedSum>> shared(
      module, "SharedSum", "The sum of arrays of several processes on one machine, in memory that all of them map.");
  py::enum_<SharedSum::Mark>(shared, "Mark", "A point that a member reaches in each round of a sum.")
      .value("posted", SharedSum::Mark::posted)
      .value("added", SharedSum::Mark::added)
      .value("spread", SharedSum::Mark::spread);
  shared
      .def(py::init([](int descriptor, py::handle dtype, int64_t elements, int members, int own) {
             return std::make_shared<SharedSum>(descriptor, to_dtype(dtype), elements, members, own);
           }),
           py::arg("descriptor"), py::arg("dtype"), py::arg("elements"), py::arg("members"), py::arg("own"),
           "Map a file of zeros, whose size `bytes` returns. The descriptor may be closed afterwards. `own` is "
           "the index of this process among the members.")
      .def_static(
          "bytes",
          [](py::handle dtype, int64_t elements, int members) {
            return SharedSum::bytes(to_dtype(dtype), elements, members);
          },
          py::arg("dtype"), py::arg("elements"), py::arg("members"), "Return the required size of the file.")
      .def("contribution", &SharedSum::contribution, "Return the memory of this member's contribution.")
      .def("total", &SharedSum::total, "Return the memory of the sum.")
      .def("own_part_of", &SharedSum::own_part_of, py::arg("member"),
           "Return the elements of a member's contribution that this member sums.")
      .def("own_part", &SharedSum::own_part, "Return the elements of the sum that this member computes.")
      .def("post", &SharedSum::post, "Begin a round: this member's contribution is complete.")
      .def("reach", &SharedSum::reach, py::arg("mark"), "Record how far this member has progressed in the round.")
      .def("add", &SharedSum::add, Released(),
           "Sum this member's part of the contributions, which must be float32 or float64.")
      .def(
          "wait",
          [](const SharedSum& self, SharedSum::Mark mark, std::optional<double> timeout) {
            return wait_released(to_timeout(timeout), [&](double seconds) { return self.wait(mark, seconds); });
          },
          py::arg("mark"), py::arg("timeout") = py::none(),
          "Wait until all members have progressed to `mark`. Return False on timeout.")
      .def(
          "wait_for",
          [](const SharedSum& self, int member, SharedSum::Mark mark, std::optional<double> timeout) {
            return wait_released(to_timeout(timeout),
                                 [&](double seconds) { return self.wait_for(member, mark, seconds); });
          },
          py::arg("member"), py::arg("mark"), py::arg("timeout") = py::none(),
          "Wait until one member has progressed to `mark`. Return False on timeout.");

  Class<Exchange, std::shared_ptr<Exchange>>(
      module, "Exchange", "Arrays that a run passes to another thread partway through and receives back later.")
      .def(py::init([] { return Exchange::create(); }))
      .def(
          "add",
          [](Exchange& self, std::string name, const std::vector<py::tuple>& types) {
            std::vector<TensorType> converted;
            for (const py::tuple& type : types) converted.push_back(to_tensor_type(type));
            return self.add(std::move(name), std::move(converted));
          },
          py::arg("name"), py::arg("types"),
          "Create a slot for arrays of these types, each (dtype, shape) and all of one dtype, and return "
          "its index. Profiles show the work on it as `name`.")
      .def("giver", &Exchange::giver, py::arg("slot"),
           "Return a callable that passes arrays to the slot and has no results; it does not wait.")
      .def("taker", &Exchange::taker, py::arg("slot"),
           "Return a callable without operands that waits for the work on the slot and returns its arrays.")
      .def("through", &Exchange::through, py::arg("slot"),
           "Return a callable that passes arrays to the slot, waits for the work on them, and returns them.")
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
          "Return the next slot that received arrays, for the worker thread; None on timeout or after "
          "close().")
      .def("memory", &Exchange::memory, py::arg("slot"),
           "Return all elements of a slot as an array of rank 1, which belongs to the worker between next() "
           "and done().")
      .def("share", &Exchange::share, py::arg("slot"), py::arg("sum").none(false),
           "Make future runs write their arrays to this member's contribution to `sum` and read the total, "
           "and post the current arrays. Call it between next() and done().")
      .def("done", &Exchange::done, py::arg("slot"),
           "Mark the work on a slot as done, which lets the run that waits for it continue.")
      .def("fail", &Exchange::fail, py::arg("reason"),
           "Make all current and later runs that use the exchange raise DeviceError with this reason.")
      .def("close", &Exchange::close, "Accept no more work: next() returns None, and runs raise DeviceError.")
      .def_property_readonly("failed", &Exchange::failed, "Whether `fail` was called, so that runs raise its reason.")
      .def_property_readonly("waiting", &Exchange::waiting, "Whether a run is waiting for other members of a sum.")
      .def_property_readonly(
          "statistics",
          [](const Exchange& self) {
            const Exchange::Statistics s = self.statistics();
            py::dict result;
            result["given"] = s.given;
            result["worked"] = s.worked;
            result["waited"] = s.waited;
            result["copied"] = s.copied;
            result["copied_bytes"] = s.copied_bytes;
            return result;
          },
          "Counters: the number of times slots received arrays; the total seconds spent working on slots, "
          "waiting for slots, and copying; and the number of bytes copied.");
}

}  // namespace mpsgraph::bindings
