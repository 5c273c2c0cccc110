// Serialized executables: the file that describes their interface, and runs through the device's queue.
#include "mpsgraph/runtime/serialized_executable.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "runtime/backend.h"
#include "runtime/json.h"

namespace mpsgraph::runtime {

namespace {

namespace fs = std::filesystem;

constexpr int64_t archive_version = 1;

fs::path interface_path(fs::path path) {
  if (path.filename().empty()) path = path.parent_path();  // the path of a directory may end in a slash
  path += ".json";
  return path;
}

Json to_json(const std::vector<SerializedTensor>& tensors) {
  Json list = Json::array();
  for (const auto& [tensor, type, position] : tensors) {
    Json item{{"name", tensor}, {"dtype", name(type.dtype)}, {"shape", type.shape.dims()}, {"position", nullptr}};
    if (position) item["position"] = *position;
    list.push_back(std::move(item));
  }
  return list;
}

std::vector<SerializedTensor> from_json(const Json& list) {
  std::vector<SerializedTensor> tensors;
  for (const Json& item : list) {
    const auto dtype = dtype_from_name(item.at("dtype").get<std::string>());
    // get() would convert real numbers to integers without an error.
    const auto is_integer = [](const Json& value) { return value.is_number_integer(); };
    const Json &shape = item.at("shape"), &position = item.at("position");
    if (!dtype || !shape.is_array() || shape.size() > max_rank || !std::ranges::all_of(shape, is_integer))
      throw PackageError("a tensor has an invalid dtype or shape");
    Dims dims = shape.get<Dims>();
    element_count(dims);  // throws if a dimension is negative, or if the number of elements overflows
    if (!position.is_null() && !position.is_number_unsigned())
      throw PackageError("a position must be null or a non-negative integer");
    tensors.push_back({item.at("name").get<std::string>(), {*dtype, Shape(std::move(dims))}, {}});
    if (!position.is_null()) tensors.back().position = position.get<size_t>();
  }
  return tensors;
}

// Returns the indices of the tensors in the order in which the serialized program stores them, without the tensors that
// it does not contain. Throws PackageError unless their positions are unique and contiguous.
std::vector<size_t> written_order(const std::vector<SerializedTensor>& tensors) {
  std::vector<std::optional<size_t>> places(tensors.size());
  size_t count = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto position = tensors[i].position;
    if (!position) continue;
    if (*position >= places.size() || places[*position])
      throw PackageError(cat("position ", *position, " is out of range or used twice"));
    places[*position] = i;
    ++count;
  }
  std::vector<size_t> order;
  for (size_t place = 0; place < count; ++place) {
    if (!places[place]) throw PackageError(cat("no tensor has position ", place));
    order.push_back(*places[place]);
  }
  return order;
}

}  // namespace

void write_interface(const fs::path& path, const std::vector<SerializedTensor>& feeds,
                     const std::vector<SerializedTensor>& targets) {
  const fs::path file = interface_path(path);
  std::ofstream out(file);
  out << to_text({{"format", archive_version}, {"feeds", to_json(feeds)}, {"targets", to_json(targets)}}, 2) << "\n";
  if (!out.flush()) throw PackageError(cat("[serialize] ", file.string(), " cannot be written"));
}

std::shared_ptr<SerializedExecutable> SerializedExecutable::load(const fs::path& path, Device& device) {
  device.check_usable();
  std::shared_ptr<SerializedExecutable> self(new SerializedExecutable(device));
  const fs::path file = interface_path(path);
  if (!fs::exists(path)) throw PackageError(cat("[load] ", path.string(), " does not exist"));
  try {
    std::ifstream in(file);
    if (!in) throw PackageError("the file cannot be opened");
    const Json json = parse_json(std::string(std::istreambuf_iterator<char>(in), {}));
    if (json.at("format") != archive_version)
      throw PackageError(cat("the format version must be ", archive_version, ", got ", to_text(json.at("format"))));
    self->feeds_ = from_json(json.at("feeds"));
    self->targets_ = from_json(json.at("targets"));
    self->feed_order_ = written_order(self->feeds_);
    self->target_order_ = written_order(self->targets_);
    if (self->target_order_.size() != self->targets_.size()) throw PackageError("a target has no position");
  } catch (const std::exception& error) {
    throw PackageError(cat("[load] ", file.string(), ", which describes the inputs and outputs of ", path.string(),
                           ", is missing or damaged: ", error.what(), "; keep both files that serialize() writes"));
  }
  self->program_ = device.backend().load(path);
  return self;
}

std::vector<NDArray> SerializedExecutable::run(std::vector<NDArray> inputs,
                                               const std::shared_ptr<CommandQueue>& queue) {
  if (inputs.size() != feeds_.size())
    throw GraphError(cat("[run] the number of inputs must be ", feeds_.size(), " (one per feed), got ", inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].valid()) throw GraphError(cat("[run] no array was given for feed ", feeds_[i].name));
    const TensorType& type = feeds_[i].type;
    if (inputs[i].dtype() != type.dtype)
      throw DTypeError(cat("[run] feed ", feeds_[i].name, " must be ", type.dtype, ", got ", inputs[i].dtype()));
    if (inputs[i].dims() != type.shape.dims() || !inputs[i].contiguous())
      throw ShapeError(cat("[run] feed ", feeds_[i].name, " must be contiguous with shape ", type.shape, ", got ",
                           inputs[i].contiguous() ? "" : "a non-contiguous array with ", "shape ",
                           to_string(inputs[i].dims())));
  }
  std::vector<NDArray> written;
  for (const size_t i : feed_order_) written.push_back(std::move(inputs[i]));
  auto results = std::make_shared<std::vector<NDArray>>();
  for (const size_t i : target_order_)
    results->push_back(device_.backend().allocate(targets_[i].type.dtype, targets_[i].type.shape.dims()));
  auto buffer = (queue ? queue : device_.default_queue())->command_buffer();
  if (&buffer->queue().device() != &device_)
    throw DeviceError(cat("[run] the queue must belong to the executable's device ", device_.name(),
                          ", got a queue of device ", buffer->queue().device().name()));
  buffer->encode_device_work(
      [program = program_, inputs = std::move(written), results](DeviceCommands* commands) {
        if (commands && program->encode(*commands, inputs, *results)) return commands->keep(program);
        if (commands) commands->finish();
        program->run(inputs, *results);
      },
      "serialized executable");
  buffer->commit();
  buffer->wait_until_completed();
  std::vector<NDArray> ordered(results->size());
  for (size_t place = 0; place < ordered.size(); ++place) ordered[target_order_[place]] = (*results)[place];
  return ordered;
}

}  // namespace mpsgraph::runtime
