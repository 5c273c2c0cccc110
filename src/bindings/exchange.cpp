// Callables of graphs, which executables are as well; Exchange, whose memory a Python thread processes during a run;
// and SharedSum, with which that thread sums it across processes.
#include "mpsgraph/runtime/exchange.h"

#include "bindings/bindings.h"
#include "mpsgraph/runtime/shared_sum.h"

namespace mpsgraph::bindings {

using namespace runtime;

void define_exchange(py::module_& module) {
  Class<compiler::Callable, std::shared_ptr<compiler::Callable>>(
      module, "Callee",
      "What operations `call` by a symbol: an executable of another graph, or an end of an Exchange.");

  Class<SharedSum, std::shared_ptr<SharedSum>> shared(
      module, "SharedSum",
      "The sum of the arrays of several processes of one machine, in memory that all of them map.");
  py::enum_<SharedSum::Mark>(shared, "Mark", "What a member has done in a round.")
      .value("posted", SharedSum::Mark::posted)
      .value("added", SharedSum::Mark::added)
      .value("spread", SharedSum::Mark::spread);
  shared
      .def(py::init([](int descriptor, py::handle dtype, int64_t elements, int members, int own) {
             return std::make_shared<SharedSum>(descriptor, to_dtype(dtype), elements, members, own);
           }),
           py::arg("descriptor"), py::arg("dtype"), py::arg("elements"), py::arg("members"), py::arg("own"),
           "Maps a file of `bytes` zeros, which may be closed afterwards; `own`: which member this process is.")
      .def_static(
          "bytes",
          [](py::handle dtype, int64_t elements, int members) {
            return SharedSum::bytes(to_dtype(dtype), elements, members);
          },
          py::arg("dtype"), py::arg("elements"), py::arg("members"), "How large the file must be.")
      .def("contribution", &SharedSum::contribution, "This member's memory.")
      .def("total", &SharedSum::total, "The sum's memory.")
      .def("own_part_of", &SharedSum::own_part_of, py::arg("member"),
           "Of a member's contribution, the elements that this one adds up.")
      .def("own_part", &SharedSum::own_part, "The same elements of the total.")
      .def("post", &SharedSum::post, "This member's contribution is there: a round begins.")
      .def("reach", &SharedSum::reach, py::arg("mark"), "This member has done so much of the round.")
      .def("add", &SharedSum::add, py::call_guard<WithoutGil>(), "Adds up this member's part, of float32 and float64.")
      .def(
          "wait",
          [](const SharedSum& self, SharedSum::Mark mark, std::optional<double> timeout) {
            return wait_released(to_timeout(timeout), [&](double seconds) { return self.wait(mark, seconds); });
          },
          py::arg("mark"), py::arg("timeout") = py::none(),
          "Until all members have done so much of the round; False when the time is over.")
      .def(
          "wait_for",
          [](const SharedSum& self, int member, SharedSum::Mark mark, std::optional<double> timeout) {
            return wait_released(to_timeout(timeout),
                                 [&](double seconds) { return self.wait_for(member, mark, seconds); });
          },
          py::arg("member"), py::arg("mark"), py::arg("timeout") = py::none(), "The same, of one member.");

  Class<Exchange, std::shared_ptr<Exchange>>(
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
      .def("share", &Exchange::share, py::arg("slot"), py::arg("sum").none(false),
           "From now on runs write to a contribution and read the total; what was given is posted. Between next() and "
           "done().")
      .def("done", &Exchange::done, py::arg("slot"), "The work on it is done: whoever takes it goes on.")
      .def("fail", &Exchange::fail, py::arg("reason"),
           "Runs that give or take, now or later, raise DeviceError with this reason.")
      .def("close", &Exchange::close, "No more work: next() gives None, and runs raise DeviceError.")
      .def_property_readonly("failed", &Exchange::failed, "Do runs raise what `fail` was given?")
      .def_property_readonly("waiting", &Exchange::waiting, "Does a run wait for other members of a sum?")
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
          "How many slots were given; seconds in all: of work on them, that takers waited, of copies; and what was "
          "copied.");
}

}  // namespace mpsgraph::bindings
