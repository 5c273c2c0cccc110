// NDArray and its exchange with numpy and DLPack, and constant data.
//
// Memory is shared in both directions: an NDArray keeps a borrowed numpy array alive until its last use, and a numpy
// view keeps its NDArray alive. Arrays that cannot be shared are copied only if the caller allows it, and copies are
// counted.
#include <array>
#include <cstring>

#include "bindings/bindings.h"
#include "mpsgraph/core/limits.h"
#include "mpsgraph/runtime/dlpack.h"

namespace mpsgraph::bindings {

using runtime::NDArray;

namespace {

// Returns whether a conversion keeps the kind of number: an integer may become a float, but a float must not become an
// integer.
bool keeps_kind(char from, DType to) {
  switch (from) {
    case 'b': return to == DType::boolean;
    case 'i':
    case 'u': return is_integer(to) || is_inexact(to);
    case 'f': return is_inexact(to);
    case 'c': return is_complex(to);
    default: return false;
  }
}

// Converts numbers and nested lists to an array. Python values have no element type, so they take the requested dtype.
py::array array_of_values(py::handle object, std::optional<DType> dtype, const std::string& what) {
  auto numpy = py::module_::import("numpy");
  py::array plain;
  try {
    plain = numpy.attr("asarray")(object);
  } catch (py::error_already_set& error) {
    throw ShapeError(cat(what, " must be convertible to an array: ", message_of(error)));
  }
  if (!dtype) {
    // Python's int and float are wider than the usual dtypes of graphs, so they become int32 and float32.
    const char kind = plain.dtype().kind();
    if (kind == 'f') dtype = DType::float32;
    if (kind == 'i') dtype = DType::int32;
    if (kind == 'c') dtype = DType::complex64;
    if (!dtype) return plain;
  }
  if (!keeps_kind(plain.dtype().kind(), *dtype))
    throw DTypeError(cat(what, " must be ", name(*dtype), ", got ", shown(object), ": convert it first"));
  if (*dtype == DType::bfloat16) {
    auto bits = py::array(py::dtype("uint16"), std::vector<py::ssize_t>(plain.shape(), plain.shape() + plain.ndim()));
    auto floats = py::array_t<float, py::array::c_style | py::array::forcecast>(plain);
    auto* to = static_cast<uint16_t*>(bits.mutable_data());
    for (py::ssize_t i = 0; i < floats.size(); ++i) to[i] = float_to_bfloat16(floats.data()[i]);
    return bits;
  }
  try {
    return numpy.attr("asarray")(object, to_numpy_dtype(*dtype));
  } catch (py::error_already_set& error) {
    throw DTypeError(cat(what, " cannot be represented in ", name(*dtype), ": ", message_of(error)));
  }
}

DType dtype_of(const py::array& array, std::optional<DType> wanted, const std::string& what) {
  const auto found = from_numpy_dtype(array.dtype());
  // uint16 represents the bit patterns of bfloat16.
  if (wanted == DType::bfloat16 && found == DType::uint16) return DType::bfloat16;
  if (!found)
    throw DTypeError(cat(what, " must have a supported dtype, got ", py::cast<std::string>(py::str(array.dtype())),
                         ": convert it with astype"));
  if (wanted && *found != *wanted)
    throw DTypeError(cat(what, " must be ", name(*wanted), ", got ", name(*found), ": convert it with astype(\"",
                         name(*wanted), "\")"));
  return *found;
}

NDArray from_numpy(py::array array, CopyRule copy, std::optional<DType> wanted, bool contiguous,
                   const std::string& what) {
  const DType dtype = dtype_of(array, wanted, what);
  const auto item = static_cast<py::ssize_t>(size_of(dtype));
  const auto* proxy = py::detail::array_proxy(array.ptr());
  const bool row_major = proxy->flags & py::detail::npy_api::NPY_ARRAY_C_CONTIGUOUS_;
  bool whole = (proxy->flags & py::detail::npy_api::NPY_ARRAY_ALIGNED_) && array.dtype().byteorder() != '>';
  for (py::ssize_t axis = 0; axis < array.ndim(); ++axis) whole = whole && array.strides(axis) % item == 0;
  const bool shareable = whole && (row_major || !contiguous);
  if (!shareable && copy == false)
    throw ShapeError(cat(what, whole ? " is not C-contiguous" : " is not aligned or not in native byte order",
                         " and copy=False forbids a copy: pass numpy.ascontiguousarray(x), or allow copies"));
  if (!shareable || copy == true) {
    runtime::count_copy();
    auto order = array.dtype().byteorder() == '>' ? py::object(array.dtype().attr("newbyteorder")("="))
                                                  : py::object(array.dtype());
    array = py::array(
        py::module_::import("numpy").attr("array")(array, order, py::arg("order") = "C", py::arg("copy") = true));
  }
  Dims dims(array.shape(), array.shape() + array.ndim()), strides(array.ndim());
  for (py::ssize_t axis = 0; axis < array.ndim(); ++axis) strides[axis] = array.strides(axis) / item;
  void* data = const_cast<void*>(array.data());
  const bool writable = array.writeable();
  PyObject* owner = array.release().ptr();
  return NDArray::borrow(
      data, dtype, std::move(dims), std::move(strides), [owner] { release_object(owner); }, writable);
}

// --- DLPack ----------------------------------------------------------------------------------------------------------

template <class Managed>
py::capsule to_capsule(Managed* managed, const char* name) {
  auto destructor = [](PyObject* capsule) {  // A consumer that took ownership has renamed the capsule.
    const char* now = PyCapsule_GetName(capsule);
    if (!now || std::strncmp(now, "dltensor", 8) != 0) return;
    auto* unused = static_cast<Managed*>(PyCapsule_GetPointer(capsule, now));
    if (unused && unused->deleter) unused->deleter(unused);
  };
  return py::reinterpret_steal<py::capsule>(PyCapsule_New(managed, name, destructor));
}

py::capsule dlpack(const NDArray& self, const py::object& stream, const py::object& max_version,
                   const py::object& device, std::optional<bool> copy) {
  if (!stream.is_none()) throw py::value_error("stream must be None, because the CPU has no streams");
  if (!device.is_none() && py::cast<std::pair<int, int>>(device).first != runtime::dlpack_cpu)
    throw py::buffer_error("dl_device must be the CPU: an array on the CPU cannot be exported to another device");
  const NDArray array = copy == true ? runtime::counted_copy(self) : self;
  if (!max_version.is_none() && py::cast<std::pair<int, int>>(max_version).first >= 1)
    return to_capsule(runtime::to_dlpack_versioned(array, copy == true), "dltensor_versioned");
  if (!array.writable())
    throw py::buffer_error("exporting a read-only array requires DLPack 1.0: pass max_version=(1, 0)");
  return to_capsule(runtime::to_dlpack(array), "dltensor");
}

NDArray from_dlpack(const py::object& producer) {
  if (!py::hasattr(producer, "__dlpack__"))
    throw DTypeError(cat("[from_dlpack] array must have a method __dlpack__, got ", shown(py::type::of(producer))));
  py::object capsule;
  try {
    capsule = producer.attr("__dlpack__")(py::arg("max_version") = py::make_tuple(1, 0));
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError)) throw;
    capsule = producer.attr("__dlpack__")();  // A producer that predates DLPack 1.0 does not accept max_version.
  }
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
    auto* managed = static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
    return runtime::from_dlpack(managed);
  }
  if (!PyCapsule_IsValid(capsule.ptr(), "dltensor"))
    throw GraphError("[from_dlpack] __dlpack__ must return a DLPack capsule");
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  PyCapsule_SetName(capsule.ptr(), "used_dltensor");
  return runtime::from_dlpack(managed);
}

// --- NDArray ---------------------------------------------------------------------------------------------------------

py::array view(const Object<NDArray>& self) { return to_numpy(*self, self); }

}  // namespace

// Avoids numpy in the most common case, the loss of a training step.
std::optional<float> to_number(const NDArray& array) {
  if (array.dtype() != DType::float32 || array.elements() != 1) return {};
  float value;
  std::memcpy(&value, array.data(), sizeof value);
  return value;
}

namespace {

py::object as_array(const Object<NDArray>& self, const py::object& dtype, std::optional<bool> copy) {
  py::array array = view(self);
  if (dtype.is_none() && copy != true) return array;
  if (!dtype.is_none() && copy == false && !array.dtype().equal(py::dtype::from_args(dtype)))
    throw py::value_error("converting to another dtype requires a copy, and copy=False forbids it");
  return array.attr("astype")(dtype.is_none() ? py::object(array.dtype()) : dtype, py::arg("copy") = copy == true);
}

std::string described(const Object<NDArray>& self) {
  std::string values = py::cast<std::string>(py::module_::import("numpy").attr("array2string")(
      view(self), py::arg("threshold") = 20, py::arg("separator") = ", "));
  return cat("NDArray(", values, ", ", name(self->dtype()), to_string(self->dims()), ")");
}

NDArray zeros(const py::object& shape, const py::object& dtype) {
  NDArray array = NDArray::allocate(to_dtype(dtype), to_dims(shape, "shape"));
  std::memset(array.data(), 0, array.bytes());
  return array;
}

ConstantPtr splat(const py::object& value, const py::object& shape, const py::object& dtype) {
  const DType type = to_dtype(dtype);
  const NDArray element = to_ndarray(value, {}, type, true, "a filled constant's value");
  if (element.elements() != 1)
    throw ShapeError(cat("value must be one number to fill a shape, got shape ", to_string(element.dims())));
  return ConstantData::splat(type, to_dims(shape, "shape"), static_cast<const void*>(element.data()));
}

// Copies an array's bytes to memory that a variable can take over.
std::shared_ptr<std::byte> own_copy(const NDArray& array) {
  const std::shared_ptr<runtime::Buffer> buffer = array.copy_contiguous().buffer();
  return {buffer, buffer->data()};
}

// Creates a constant from the result of `draw()`. A variable may take over the memory of that result. If the value is
// needed afterwards, `draw()` is called again.
ConstantPtr drawn(const py::function& draw) {
  const auto array = [](PyObject* function) {
    return to_ndarray(py::reinterpret_borrow<py::object>(function)(), {}, {}, false, "a drawn value");
  };
  const NDArray first = array(draw.ptr());
  const TensorType type = first.type();
  return ConstantData::remade(type.dtype, first.dims(), own_copy(first), [array, type, draw = keep(draw)] {
    std::shared_ptr<std::byte> memory;
    call_python([&] {
      const NDArray again = array(draw.get());
      if (again.type() != type)
        throw GraphError(
            cat("draw must return the same type on every call, got ", type, " first and then ", again.type()));
      memory = own_copy(again);
    });
    return memory;
  });
}

py::array constant_numpy(const ConstantData& self) {
  NDArray array = NDArray::allocate(self.dtype(), self.dims());
  self.expand_into(array.data());
  return to_numpy(array, py::cast(array));
}

}  // namespace

py::array to_numpy(const NDArray& array, py::handle owner) {
  const auto item = static_cast<py::ssize_t>(size_of(array.dtype()));
  std::vector<py::ssize_t> shape(array.dims().begin(), array.dims().end()), strides;
  for (int64_t stride : array.strides()) strides.push_back(stride * item);
  py::array result(to_numpy_dtype(array.dtype()), std::move(shape), std::move(strides), array.data(), owner);
  if (!array.writable()) py::detail::array_proxy(result.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  return result;
}

NDArray to_ndarray(py::handle object, CopyRule copy, std::optional<DType> dtype, bool contiguous,
                   const std::string& what) {
  if (py::isinstance<py::array>(object))
    return from_numpy(py::reinterpret_borrow<py::array>(object), copy, dtype, contiguous, what);
  const bool bound = py::isinstance<NDArray>(object);
  if (!bound && !py::hasattr(object, "__dlpack__")) {
    if (py::hasattr(object, "__array__") && !PyNumber_Check(object.ptr()))
      return from_numpy(py::array(py::module_::import("numpy").attr("asarray")(object)), copy, dtype, contiguous, what);
    if (copy == false)
      throw ShapeError(cat(what, " must be an array whose memory can be shared if copy=False, got ", shown(object)));
    runtime::count_copy();
    return from_numpy(array_of_values(object, dtype, what), {}, dtype, contiguous, what);
  }
  NDArray array = bound ? py::cast<NDArray&>(object) : from_dlpack(py::reinterpret_borrow<py::object>(object));
  if (dtype && array.dtype() != *dtype)
    throw DTypeError(cat(what, " must be ", name(*dtype), ", got ", name(array.dtype()), ": convert it first"));
  if (copy == true) return runtime::counted_copy(array);
  if (!contiguous || array.contiguous()) return array;
  if (copy == false)
    throw ShapeError(
        cat(what, " is not contiguous and copy=False forbids a copy: make a contiguous copy, or allow copies"));
  return runtime::counted_copy(array);
}

ConstantPtr to_constant(py::handle object) {
  if (py::isinstance<ConstantData>(object)) return py::cast<std::shared_ptr<ConstantData>>(object);
  std::optional<DType> dtype;
  auto value = py::reinterpret_borrow<py::object>(object);
  if (py::isinstance<py::tuple>(object) && py::len(object) == 2 && py::isinstance<ElementType>(py::tuple(value)[1])) {
    dtype = to_dtype(py::tuple(value)[1]);
    value = py::tuple(value)[0];
  }
  const std::string what = "the value of a constant";
  if (py::hasattr(value, "nbytes")) count_bytes(py::cast<uint64_t>(value.attr("nbytes")), what);
  if (py::isinstance<py::array>(value)) {
    const auto array = py::reinterpret_borrow<py::array>(value);
    const auto* proxy = py::detail::array_proxy(array.ptr());
    // The bytes are copied once, whatever the alignment.
    if ((proxy->flags & py::detail::npy_api::NPY_ARRAY_C_CONTIGUOUS_) && array.dtype().byteorder() != '>')
      return ConstantData::copy(dtype_of(array, dtype, what), Dims(array.shape(), array.shape() + array.ndim()),
                                array.data());
  }
  NDArray array = to_ndarray(value, {}, dtype, false, what);
  if (!array.contiguous()) array = array.copy_contiguous();
  return ConstantData::copy(array.dtype(), array.dims(), array.data());
}

void define_ndarray(Module& module) {
  using Self = Object<NDArray>;
  Class<NDArray>(module, "NDArray",
                 "An array: memory with an element type, a shape, and strides, shared with numpy and DLPack.")
      .def(py::init(&zeros), py::arg("shape"), py::arg("dtype") = "float32", "Create an array of zeros.")
      .def("numpy", &view, "Return a numpy view of the same memory, never a copy.")
      .def("__array__", &as_array, py::arg("dtype") = py::none(), py::arg("copy") = py::none())
      .def("__dlpack__", &dlpack, py::kw_only(), py::arg("stream") = py::none(), py::arg("max_version") = py::none(),
           py::arg("dl_device") = py::none(), py::arg("copy") = py::none())
      .def("__dlpack_device__", [](const NDArray&) { return py::make_tuple(runtime::dlpack_cpu, 0); })
      .def_property_readonly("shape", [](const NDArray& self) { return py::tuple(to_object(Shape(self.dims()))); })
      .def_property_readonly("dtype", [](const NDArray& self) { return to_object(self.dtype()); })
      .def_property_readonly(
          "strides",
          [](const NDArray& self) {
            py::tuple result(self.strides().size());
            for (size_t i = 0; i < self.strides().size(); ++i)
              result[i] = self.strides()[i] * static_cast<int64_t>(size_of(self.dtype()));
            return result;
          },
          "The strides in bytes, as in numpy.")
      .def_property_readonly("ndim", [](const NDArray& self) { return self.dims().size(); })
      .def_property_readonly("size", &NDArray::elements, "The number of elements.")
      .def_property_readonly("nbytes", &NDArray::bytes)
      .def_property_readonly("contiguous", &NDArray::contiguous,
                             "Whether the elements are in row-major order without gaps.")
      .def_property_readonly("writable", &NDArray::writable)
      .def(
          "copy", [](const NDArray& self) { return runtime::counted_copy(self); }, "Return a contiguous copy.")
      .def(
          "copy_from",
          [](NDArray& self, const py::object& source) {
            self.copy_from(to_ndarray(source, {}, self.dtype(), false, "source"));
          },
          py::arg("source"), R"(Copy the elements of another array into this one.

Args:
    source: Array of the same shape and dtype.)")
      .def(
          "item", [](const Self& self) { return view(self).attr("item")(); },
          "Return the only element as a Python number.")
      .def("tolist", [](const Self& self) { return view(self).attr("tolist")(); })
      .def("__float__",
           [](const Self& self) {
             const auto number = to_number(*self);
             return number ? py::float_(*number) : py::float_(view(self).attr("item")());
           })
      .def("__complex__",
           [](const Self& self) { return py::module_::import("builtins").attr("complex")(view(self).attr("item")()); })
      .def("__int__", [](const Self& self) { return py::int_(view(self).attr("item")()); })
      .def("__bool__", [](const Self& self) { return py::cast<bool>(py::bool_(view(self).attr("item")())); })
      .def("__len__",
           [](const NDArray& self) {
             if (self.dims().empty()) throw py::type_error("an NDArray of rank 0 has no len()");
             return self.dims()[0];
           })
      .def(
          "__getitem__", [](const Self& self, const py::object& key) { return view(self).attr("__getitem__")(key); },
          py::arg("key"), "Return a view or a number, as indexing numpy() does.")
      .def(
          "__setitem__",
          [](const Self& self, const py::object& key, const py::object& value) {
            view(self).attr("__setitem__")(key, value);
          },
          py::arg("key"), py::arg("value"))
      .def("__repr__", [](const Object<NDArray>& self) { return described(self); });

  Class<ConstantData, std::shared_ptr<ConstantData>>(module, "ConstantData", "The immutable value of a constant.")
      .def(py::init([](const py::object& value, const py::object& dtype) {
             auto constant =
                 to_constant(dtype.is_none() ? value : py::object(py::make_tuple(value, to_object(to_dtype(dtype)))));
             return std::const_pointer_cast<ConstantData>(constant);
           }),
           py::arg("value"), py::arg("dtype") = py::none(), "Copy an array, or the uint16 bits of bfloat16 numbers.")
      .def_static(
          "splat",
          [](const py::object& value, const py::object& shape, const py::object& dtype) {
            return std::const_pointer_cast<ConstantData>(splat(value, shape, dtype));
          },
          py::arg("value"), py::arg("shape"), py::arg("dtype"),
          "Create a constant whose elements all have the same value.")
      .def_static(
          "drawn", [](const py::function& draw) { return std::const_pointer_cast<ConstantData>(drawn(draw)); },
          py::arg("draw"),
          "Create a constant from a function that returns the same array each time. A variable takes over "
          "the array's memory, and the function is called again if the constant is needed later.")
      .def_property_readonly("dtype", [](const ConstantData& self) { return to_object(self.dtype()); })
      .def_property_readonly("shape", [](const ConstantData& self) { return py::tuple(to_object(Shape(self.dims()))); })
      .def_property_readonly("is_splat", &ConstantData::is_splat)
      .def("numpy", &constant_numpy, "Return a copy as a numpy array.")
      .def("__eq__",
           [](const ConstantData& self, const py::object& other) {
             return py::isinstance<ConstantData>(other) && self == py::cast<const ConstantData&>(other);
           })
      .def("__hash__",
           [](const ConstantData& self) { return self.elements() * dtype_count + static_cast<int>(self.dtype()); });

  module.def(
      "asarray",
      [](const py::object& array, const py::object& dtype, CopyRule copy) {
        return to_ndarray(array, copy, dtype.is_none() ? std::nullopt : std::optional(to_dtype(dtype)), false, "array");
      },
      py::arg("array"), py::arg("dtype") = py::none(), py::arg("copy") = py::none(),
      R"(Convert an object to an NDArray, sharing its memory if possible.

Args:
    array: An array of any library that numpy or DLPack can read, a number, or nested lists.
    dtype: Element type of the result. None, the default, keeps the element type of the array.
    copy: None, the default, copies only if the memory cannot be shared; False raises an error instead; True always
        copies.

Returns:
    An NDArray.

Raises:
    ShapeError: If copy is False and the memory cannot be shared, or the object is not an array.
    DTypeError: If a dtype is not supported, or the array has a different dtype and must be converted first.

Example:
    >>> x = np.float32([1, 2])
    >>> shared, own = mg.asarray(x), mg.asarray(x, copy=True)
    >>> x[0] = 5
    >>> shared.tolist(), own.tolist()
    ([5.0, 2.0], [1.0, 2.0])
)");
  module.def("from_dlpack", &from_dlpack, py::arg("array"),
             R"(Create an NDArray that shares the memory of an array through DLPack.

Args:
    array: An object with a method __dlpack__.

Returns:
    An NDArray over the same memory.

Raises:
    DTypeError: If the object does not support DLPack, or its dtype is not supported.
    GraphError: If __dlpack__ does not return a DLPack capsule.

Example:
    >>> mg.from_dlpack(np.float32([1, 2])).tolist()
    [1.0, 2.0]
)");
  module.def("copy_count", &runtime::copy_count,
             R"(Return the number of arrays that were copied because their memory could not be shared.

Returns:
    The number of copies since the process started.

Example:
    >>> before = mg.copy_count()
    >>> _ = mg.asarray([1.0, 2.0])
    >>> mg.copy_count() - before
    1
)");
}

}  // namespace mpsgraph::bindings
