// Connects C descriptions of custom operations to the registry by converting types, attributes, and messages, and loads
// shared libraries.
#include "mpsgraph/runtime/custom_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "mpsgraph/core/builder.h"
#include "mpsgraph/core/errors.h"

namespace mpsgraph::runtime {
namespace {

static_assert(MPSGRAPH_MAX_RANK >= max_rank);
static_assert(static_cast<int>(DType::complex128) == MPSGRAPH_COMPLEX128 && dtype_count == MPSGRAPH_COMPLEX128 + 1);

mpsgraph_type to_c(const TensorType& type) {
  mpsgraph_type result{static_cast<mpsgraph_dtype>(type.dtype), -1, {}};
  if (!type.shape.ranked()) return result;
  result.rank = type.shape.rank();
  for (int axis = 0; axis < result.rank; ++axis) result.dims[axis] = type.shape[axis];
  return result;
}

TensorType from_c(const mpsgraph_type& type, const std::string& front) {
  if (type.dtype < 0 || type.dtype >= dtype_count)
    throw DTypeError(
        cat(front, "the shape inference function must return dtypes of enum mpsgraph_dtype, got ", type.dtype));
  if (type.rank < -1 || type.rank > max_rank)
    throw ShapeError(cat(front, "the shape inference function must return a rank from 0 to ", max_rank,
                         ", or -1 if it is unknown, got ", type.rank));
  const auto dtype = static_cast<DType>(type.dtype);
  if (type.rank < 0) return {dtype, {}};
  return {dtype, Shape(Dims(type.dims, type.dims + type.rank))};
}

// A custom_site of the C interface, with the memory that it points to.
struct SiteInC {
  explicit SiteInC(const CustomSite& site) {
    for (const auto& type : site.operands) operands.push_back(to_c(type));
    for (const auto& type : site.results) results.push_back(to_c(type));
    for (const auto& [name, value] : site.attributes.items()) {
      mpsgraph_custom_attribute one{};
      one.name = texts.emplace_back(name).c_str();
      one.kind = static_cast<mpsgraph_custom_kind>(value.index());
      if (const auto* flag = std::get_if<bool>(&value)) one.integer = *flag ? 1 : 0;
      if (const auto* integer = std::get_if<int64_t>(&value)) one.integer = *integer;
      if (const auto* real = std::get_if<double>(&value)) one.real = *real;
      if (const auto* text = std::get_if<std::string>(&value)) one.string = texts.emplace_back(*text).c_str();
      if (const auto* list = std::get_if<Ints>(&value)) {
        one.integers = lists.emplace_back(*list).data();
        one.integer_count = static_cast<int64_t>(list->size());
      }
      attributes.push_back(one);
    }
    c = {MPSGRAPH_CUSTOM_INTERFACE_VERSION,
         static_cast<int32_t>(operands.size()),
         static_cast<int32_t>(results.size()),
         operands.data(),
         results.data(),
         attributes.data(),
         attributes.size()};
  }
  SiteInC(const SiteInC&) = delete;

  std::vector<mpsgraph_type> operands, results;
  std::vector<mpsgraph_custom_attribute> attributes;
  std::deque<std::string> texts;
  std::deque<Ints> lists;
  mpsgraph_custom_site c{};
};
static_assert(static_cast<int>(AttributeKind::boolean) == MPSGRAPH_CUSTOM_BOOLEAN);
static_assert(static_cast<int>(AttributeKind::integer) == MPSGRAPH_CUSTOM_INTEGER);
static_assert(static_cast<int>(AttributeKind::real) == MPSGRAPH_CUSTOM_REAL);
static_assert(static_cast<int>(AttributeKind::string) == MPSGRAPH_CUSTOM_STRING);
static_assert(static_cast<int>(AttributeKind::integers) == MPSGRAPH_CUSTOM_INTEGERS);

// Runs user code, which may return an error status or throw. Returns the error message, or an empty string on success.
template <class Function>
std::string failure_of(const Function& function, const std::string& said) {
  try {
    if (function() == 0) return {};
    return said.empty() ? "no reason given" : said;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "the function threw an object that is not a std::exception";
  }
}

struct Engine {  // the target of mpsgraph_custom_call::engine
  const CustomLoop& loop;
  std::string message;
};

void run_loop(const mpsgraph_custom_call* call, int64_t items, int64_t grain, mpsgraph_custom_body body,
              void* context) {
  if (items <= 0) return;
  static_cast<Engine*>(call->engine)->loop(items, std::max<int64_t>(grain, 1), [&](int64_t begin, int64_t end) {
    body(context, begin, end);
  });
}

CustomRun run_of(mpsgraph_custom_kernel kernel, const std::shared_ptr<const CustomSite>& site) {
  const auto in_c = std::make_shared<const SiteInC>(*site);
  return [=](const std::byte* const* operands, std::byte* const* results, const CustomLoop& loop) {
    Engine engine{loop, {}};
    const mpsgraph_custom_call call{&in_c->c,
                                    reinterpret_cast<const void* const*>(operands),
                                    reinterpret_cast<void* const*>(results),
                                    run_loop,
                                    [](const mpsgraph_custom_call* failed, const char* message) {
                                      static_cast<Engine*>(failed->engine)->message = message ? message : "";
                                    },
                                    &engine};
    const std::string failure = failure_of([&] { return kernel(&call); }, engine.message);
    if (!failure.empty())
      throw DeviceError(cat("[", site->name, "] the kernel of ", site->where, " failed: ", failure));
  };
}

std::vector<TensorType> inferred(mpsgraph_custom_infer infer, const CustomSite& site) {
  const std::string front = cat("[", site.name, "] ");
  const SiteInC in_c(site);
  mpsgraph_type results[MPSGRAPH_CUSTOM_MAX_RESULTS] = {};
  for (mpsgraph_type& result : results)
    result = in_c.operands.empty() ? mpsgraph_type{MPSGRAPH_FLOAT32, 0, {}} : in_c.operands.front();
  std::string message;
  mpsgraph_custom_inference inference{&in_c.c, results, 1,
                                      [](const mpsgraph_custom_inference* failed, const char* words) {
                                        *static_cast<std::string*>(failed->engine) = words ? words : "";
                                      },
                                      &message};
  const std::string failure = failure_of([&] { return infer(&inference); }, message);
  if (!failure.empty())
    throw ShapeError(cat(front, "the shape inference function rejected the operands: ", failure, site.where));
  if (inference.result_count < 0 || inference.result_count > MPSGRAPH_CUSTOM_MAX_RESULTS)
    throw GraphError(cat(front, "the shape inference function must return between 0 and ", MPSGRAPH_CUSTOM_MAX_RESULTS,
                         " results, got ", inference.result_count));
  std::vector<TensorType> types;
  for (int32_t i = 0; i < inference.result_count; ++i) types.push_back(from_c(results[i], front));
  return types;
}

// Builds the gradient as another custom operation, which takes the incoming gradients and the operands, and returns a
// gradient for each operand.
std::vector<Tensor*> gradient_by(const std::string& name, const std::string& key, const CustomGradient& g) {
  Graph& graph = g.operation.graph();
  const CustomOperationPtr same_code = find_custom_operation(name, key);
  const CustomOperationPtr other = same_code ? same_code : custom_operation(name, "", g.operation.where());
  std::vector<Tensor*> operands;
  for (size_t i = 0; i < g.incoming.size(); ++i)
    operands.push_back(g.incoming[i] ? g.incoming[i] : Builder(graph).zeros_like(g.operation.output(i)));
  operands.insert(operands.end(), g.operation.inputs.begin(), g.operation.inputs.end());
  Attributes attributes{{"operation", name}, {"key", other->key}};
  for (const auto& spec : other->attributes)
    if (const Attribute* value = g.operation.attributes.find(spec.name)) attributes.set(spec.name, *value);
  const Operation* made = graph.create("custom", std::move(operands), std::move(attributes), name);
  std::vector<Tensor*> results;
  for (const auto& output : made->outputs) results.push_back(output.get());
  return results;
}

std::string text(const char* value, const char* what) {
  if (!value) throw GraphError(cat("[custom] ", what, " in the description of an operation must not be NULL"));
  return value;
}

CustomOperation::AttributeOf attribute_of(const mpsgraph_custom_attribute& given) {
  CustomOperation::AttributeOf made{text(given.name, "attribute name"), {}, {}};
  if (given.kind < MPSGRAPH_CUSTOM_BOOLEAN || given.kind > MPSGRAPH_CUSTOM_INTEGERS)
    throw GraphError(cat("[custom] the kind of attribute '", made.name, "' must be a value from ",
                         MPSGRAPH_CUSTOM_BOOLEAN, " (boolean) to ", MPSGRAPH_CUSTOM_INTEGERS,
                         " (list of integers), got ", given.kind));
  made.kind = static_cast<AttributeKind>(given.kind);
  if (given.required) return made;
  if (made.kind == AttributeKind::boolean) made.default_value = given.integer != 0;
  if (made.kind == AttributeKind::integer) made.default_value = given.integer;
  if (made.kind == AttributeKind::real) made.default_value = given.real;
  if (made.kind == AttributeKind::string) made.default_value = std::string(given.string ? given.string : "");
  if (made.kind == AttributeKind::integers)
    made.default_value = given.integers ? Ints(given.integers, given.integers + given.integer_count) : Ints{};
  return made;
}

}  // namespace

CustomOperation described(const mpsgraph_custom_operation& operation) {
  CustomOperation made;
  made.name = text(operation.name, "name");
  made.key = text(operation.key, "key");
  for (size_t i = 0; i < operation.attribute_count; ++i)
    made.attributes.push_back(attribute_of(operation.attributes[i]));
  made.operand_count = operation.operand_count;
  for (size_t i = 0; operation.dtypes && i < operation.dtype_count; ++i) {
    std::vector<DType>& taken = made.dtypes.emplace_back();
    for (int dtype = 0; dtype < dtype_count; ++dtype)
      if (operation.dtypes[i] & MPSGRAPH_CUSTOM_TAKES(dtype)) taken.push_back(static_cast<DType>(dtype));
  }
  if (made.dtypes.empty()) made.dtypes = {{DType::float32}};
  made.has_effect = operation.has_effect != 0;
  made.infers_elsewhere = operation.infers_elsewhere != 0;
  if (const auto infer = operation.infer)
    made.infer = [infer](const CustomSite& site) { return inferred(infer, site); };
  if (const auto kernel = operation.kernel)
    made.kernel = [kernel](const std::shared_ptr<const CustomSite>& site) { return run_of(kernel, site); };
  if (operation.gradient)
    made.gradient = [name = std::string(operation.gradient), key = made.key](const CustomGradient& g) {
      return gradient_by(name, key, g);
    };
  if (operation.metal_source) {
    made.metal = {operation.metal_source, text(operation.metal_function, "metal_function"), {}};
    if (const auto threads = operation.threads)
      made.metal->threads = [threads, name = made.name](const CustomSite& site) {
        const SiteInC in_c(site);
        std::array<int64_t, 3> count{1, 1, 1};
        const std::string failure = failure_of([&] { return threads(&in_c.c, count.data()); }, "");
        if (!failure.empty()) throw GraphError(cat("[", name, "] the operation's threads function failed: ", failure));
        return count;
      };
  }
  return made;
}

std::vector<std::pair<std::string, std::string>> load_custom_library(const std::filesystem::path& path) {
  const std::string shown = path.string();
  // dlopen searches for a plain file name in the system's library directories, so pass an absolute path.
  void* handle = dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) throw GraphError(cat("[custom] cannot load the library ", shown, ": ", dlerror()));
  using Describe = const mpsgraph_custom_library* (*)();
  const auto describe = reinterpret_cast<Describe>(dlsym(handle, "mpsgraph_custom_operations"));
  const auto refuse = [&](const auto&... words) {
    // Build the message before dlclose(), because parts of it may be strings in the library's memory.
    const std::string message = cat("[custom] ", shown, " ", words...);
    dlclose(handle);
    throw GraphError(message);
  };
  if (!describe) refuse("exports no mpsgraph_custom_operations(): see mpsgraph/custom_operation.h");
  const mpsgraph_custom_library* library = describe();
  if (!library || (library->operation_count > 0 && !library->operations))
    refuse("returns no operations from mpsgraph_custom_operations()");
  if (library->interface_version > MPSGRAPH_CUSTOM_INTERFACE_VERSION)
    refuse("was built for version ", library->interface_version, " of custom_operation.h, but this mpsgraph supports ",
           "versions up to ", MPSGRAPH_CUSTOM_INTERFACE_VERSION, ": update mpsgraph");
  if (library->operation_size != sizeof(mpsgraph_custom_operation))
    refuse("describes an operation in ", library->operation_size, " bytes, expected ",
           sizeof(mpsgraph_custom_operation), ": rebuild it with this mpsgraph's custom_operation.h");
  std::vector<CustomOperation> made;
  for (size_t i = 0; i < library->operation_count; ++i) made.push_back(described(library->operations[i]));
  std::vector<std::pair<std::string, std::string>> names;
  for (CustomOperation& operation : made) {
    names.emplace_back(operation.name, operation.key);
    register_custom_operation(std::move(operation));
  }
  return names;
}

}  // namespace mpsgraph::runtime
