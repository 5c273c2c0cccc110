// Packages written and read: the manifest, and what joins the three files.
#include "mpsgraph/runtime/package.h"

#include <algorithm>
#include <random>
#include <set>
#include <unordered_map>

#include "compiler/rewrite.h"
#include "mpsgraph/core/text.h"
#include "runtime/checksum.h"
#include "runtime/json.h"
#include "runtime/safetensors.h"

namespace mpsgraph::runtime {

namespace {

namespace fs = std::filesystem;

constexpr int64_t format_version = 1;
constexpr std::string_view manifest_name = "package.json", graph_name = "graph.txt",
                           weights_name = "weights.safetensors";
constexpr size_t largest_manifest = size_t{1} << 26, largest_graph = size_t{1} << 31, largest_weights = size_t{1} << 48;
constexpr size_t largest_inline = 256;  // bytes of a constant that stands in the text
constexpr std::string_view blank = "0000000000000000";

std::string checksum_of(const MappedFile& file) { return to_hex(checksum(file.data(), file.bytes())); }

std::string_view text_of(const MappedFile& file) { return {reinterpret_cast<const char*>(file.data()), file.bytes()}; }

// --- writing ---------------------------------------------------------------------------------------------------------

// What weights.safetensors holds: every variable, and constants that are too long to be read.
class Weights {
 public:
  Weights(const std::vector<bool>& wanted, DeviceGraph* values) : wanted_(wanted), values_(values) {}

  void gather(const Block& block) {
    for (const auto& operation : block.operations) {
      if (!block.owner && !wanted_[static_cast<size_t>(operation->id)]) continue;
      for (const auto& [key, attribute] : operation->attributes.items())
        if (const auto* data = std::get_if<ConstantPtr>(&attribute); data && *data) add(*operation, key, *data);
      for (const auto& inner : operation->blocks) gather(*inner);
    }
  }

  std::optional<std::string> place(const Operation& operation, std::string_view key) const {
    const auto found = places_.find({&operation, std::string(key)});
    if (found == places_.end()) return {};
    return found->second;
  }

  std::vector<TensorToWrite> take() { return std::move(tensors_); }

 private:
  void add(const Operation& operation, const std::string& key, const ConstantPtr& data) {
    const bool variable = operation.is("variable");
    if (!variable && (data->is_splat() || data->stored_bytes() <= largest_inline)) return;
    const std::string name = key == "value" ? operation.name : cat(operation.name, ".", key);
    places_[{&operation, key}] = name;
    std::function<void(const Append&)> write = [data](const Append& append) { elements(*data, append); };
    if (variable && values_)
      write = [tensor = operation.output(), values = values_](const Append& append) {
        const NDArray value = values->variable_value(tensor);
        append(value.data(), value.bytes());
      };
    tensors_.push_back({name, {data->dtype(), data->dims()}, std::move(write)});
  }

  static void elements(const ConstantData& data, const Append& append) {
    if (!data.is_splat()) return append(data.bytes(), data.stored_bytes());
    const size_t size = size_of(data.dtype());
    std::vector<std::byte> many(std::min<size_t>(static_cast<size_t>(data.elements()), 65536) * size);
    for (size_t i = 0; i < many.size(); ++i) many[i] = data.bytes()[i % size];
    for (size_t left = static_cast<size_t>(data.elements()) * size; left > 0;) {
      const size_t now = std::min(left, many.size());
      append(many.data(), now);
      left -= now;
    }
  }

  const std::vector<bool>& wanted_;
  DeviceGraph* const values_;
  std::map<std::pair<const Operation*, std::string>, std::string> places_;
  std::vector<TensorToWrite> tensors_;
};

Json named(const NamedTensors& tensors) {
  Json result = Json::array();
  for (const auto& [name, tensor] : tensors)
    result.push_back({{"name", name}, {"operation", tensor->operation->name}, {"result", tensor->index}});
  return result;
}

void check(const PackageContents& contents) {
  if (!contents.graph) throw GraphError("[save] there is no graph");
  const auto check_list = [&](const NamedTensors& tensors, std::string_view what, std::string_view kind) {
    std::set<std::string> names;
    for (const auto& [name, tensor] : tensors) {
      const std::string called = cat(what, " '", name, "'");
      if (!tensor || &tensor->graph() != contents.graph.get())
        throw GraphError(cat("[save] ", called, " is not a tensor of the graph"));
      if (tensor->operation->parent != &contents.graph->root())
        throw GraphError(cat("[save] ", called, " lies within a block of control flow"));
      if (!kind.empty() && !tensor->operation->is(kind))
        throw GraphError(
            cat("[save] ", called, " must be a ", kind, ", it is the result of ", tensor->operation->kind()));
      if (!names.insert(name).second) throw GraphError(cat("[save] there are two of ", called));
    }
  };
  check_list(contents.inputs, "input", "placeholder");
  check_list(contents.outputs, "output", "");
  check_list(contents.parameters, "parameter", "variable");
  if (contents.outputs.empty()) throw GraphError("[save] a package needs an output");
}

// A directory of ours, or nothing at all.
void require_replaceable(const fs::path& directory) {
  if (!fs::exists(fs::symlink_status(directory))) return;
  if (fs::is_directory(directory) && fs::exists(directory / manifest_name)) return;
  if (fs::is_directory(directory) && fs::is_empty(directory)) return;
  throw PackageError(cat(directory.string(), " exists and is no package; it is left as it is"));
}

void write_text(const fs::path& path, const std::string& text) {
  write_file(path, [&](const Append& append) { append(text.data(), text.size()); });
}

void write_manifest(const fs::path& directory, const PackageContents& contents) {
  Json trainable = Json::array();
  for (const Tensor* variable : contents.trainable) trainable.push_back(variable->operation->name);
  const auto file = [&](std::string_view name, size_t limit) {
    return Json{{"checksum", checksum_of(*MappedFile::open(directory / name, limit))}};
  };
  const Json manifest{{"checksum", blank},
                      {"format", "mpsgraph"},
                      {"format_version", format_version},
                      {"graph", file(graph_name, largest_graph)},
                      {"weights", file(weights_name, largest_weights)},
                      {"inputs", named(contents.inputs)},
                      {"outputs", named(contents.outputs)},
                      {"parameters", named(contents.parameters)},
                      {"trainable", trainable}};
  std::string text;
  try {
    text = to_text(manifest, 1) + '\n';
  } catch (const Json::exception& error) {
    throw PackageError(cat("a name is no UTF-8: ", error.what()));
  }
  text.replace(text.find(blank), blank.size(), to_hex(checksum(text.data(), text.size())));
  write_text(directory / manifest_name, text);
}

void write_contents(const fs::path& directory, const PackageContents& contents, DeviceGraph* values,
                    const SaveOptions& how) {
  std::vector<const Operation*> roots;
  for (const auto* list : {&contents.inputs, &contents.outputs, &contents.parameters})
    for (const auto& [name, tensor] : *list) roots.push_back(tensor->operation);
  const std::vector<bool> wanted = compiler::needed_by(*contents.graph, roots);
  Weights weights(wanted, values);
  weights.gather(contents.graph->root());
  PrintOptions options;
  options.locations = how.locations;
  options.only = [&](const Operation& operation) { return wanted[static_cast<size_t>(operation.id)]; };
  options.elsewhere = [&](const Operation& operation, std::string_view key) { return weights.place(operation, key); };
  write_text(directory / graph_name, print(*contents.graph, options));
  write_safetensors(directory / weights_name, weights.take());
  write_manifest(directory, contents);
}

// --- reading ---------------------------------------------------------------------------------------------------------

const Json& member(const Json& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) throw PackageError(cat("it has no '", key, "'"));
  return object[key];
}

std::string text_member(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_string()) throw PackageError(cat("'", key, "' is no text"));
  return value.get<std::string>();
}

Json read_manifest(const fs::path& path) {
  std::string text(text_of(*MappedFile::open(path, largest_manifest)));
  const Json manifest = parse_json(text);
  if (!manifest.is_object() || !manifest.contains("format") || manifest["format"] != "mpsgraph")
    throw PackageError("it describes no package");
  if (const Json& version = member(manifest, "format_version"); version != format_version)
    throw PackageError(
        cat("it has format version ", to_text(version), ", this mpsgraph reads ", format_version, ": update it"));
  const std::string stated = text_member(manifest, "checksum");
  const size_t place = text.find(stated);
  if (stated.size() == blank.size() && place != text.npos) text.replace(place, blank.size(), blank);
  if (stated != to_hex(checksum(text.data(), text.size()))) throw PackageError("its checksum does not match");
  return manifest;
}

Tensor* find_tensor(const Graph& graph, const std::string& operation_name, size_t result, std::string_view kind) {
  Operation* operation = graph.find(operation_name);
  if (!operation || result >= operation->outputs.size() || operation->parent->owner)
    throw PackageError(cat("'", operation_name, ":", result, "' is no tensor of the graph"));
  if (!kind.empty() && !operation->is(kind)) throw PackageError(cat("'", operation_name, "' is no ", kind));
  return operation->output(result);
}

NamedTensors find_all(const Graph& graph, const Json& manifest, const char* key, std::string_view kind) {
  const Json& list = member(manifest, key);
  if (!list.is_array()) throw PackageError(cat("'", key, "' is no list"));
  NamedTensors tensors;
  std::set<std::string> names;
  for (const Json& item : list) {
    const Json& result = member(item, "result");
    if (!result.is_number_unsigned()) throw PackageError(cat("'", key, "' has a result that is no number"));
    std::string name = text_member(item, "name");
    if (!names.insert(name).second) throw PackageError(cat("'", key, "' has '", name, "' twice"));
    tensors.emplace_back(std::move(name),
                         find_tensor(graph, text_member(item, "operation"), result.get<size_t>(), kind));
  }
  return tensors;
}

std::shared_ptr<const MappedFile> open_part(const fs::path& path, size_t limit, const Json& described, bool verify) {
  auto file = MappedFile::open(path, limit);
  const std::string stated = text_member(described, "checksum");
  if (verify && checksum_of(*file) != stated)
    throw PackageError(cat(path.string(), " is truncated or altered: its checksum does not match"));
  return file;
}

PackageContents read_contents(const fs::path& directory, const Json& manifest, bool verify) {
  const auto text = open_part(directory / graph_name, largest_graph, member(manifest, "graph"), verify);
  const auto weights = open_part(directory / weights_name, largest_weights, member(manifest, "weights"), verify);
  const std::map<std::string, ConstantPtr> tensors = read_safetensors(weights, directory / weights_name);
  const auto elsewhere = [&](const std::string& name, const TensorType&) {
    const auto found = tensors.find(name);
    return found == tensors.end() ? nullptr : found->second;
  };
  PackageContents contents;
  try {
    contents.graph = parse(text_of(*text), Verification::on, elsewhere);
  } catch (const Error& error) {
    throw PackageError(cat((directory / graph_name).string(), " is damaged: ", error.what()));
  }
  contents.inputs = find_all(*contents.graph, manifest, "inputs", "placeholder");
  contents.outputs = find_all(*contents.graph, manifest, "outputs", "");
  contents.parameters = find_all(*contents.graph, manifest, "parameters", "variable");
  const Json& trainable = member(manifest, "trainable");
  if (!trainable.is_array()) throw PackageError("'trainable' is no list");
  for (const Json& name : trainable) {
    if (!name.is_string()) throw PackageError("'trainable' has an entry that is no name");
    contents.trainable.push_back(find_tensor(*contents.graph, name.get<std::string>(), 0, "variable"));
  }
  return contents;
}

const std::pair<std::string, Tensor*>* find_named(const NamedTensors& tensors, const std::string& name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto& item) { return item.first == name; });
  return found == tensors.end() ? nullptr : &*found;
}

Tensor* required(const NamedTensors& tensors, const std::string& name, std::string_view what) {
  if (const auto* found = find_named(tensors, name)) return found->second;
  std::string known;
  for (const auto& item : tensors) known += cat(known.empty() ? "'" : ", '", item.first, "'");
  throw GraphError(cat("the package has no ", what, " '", name, "'; it has ", known.empty() ? "none" : known));
}

}  // namespace

void save_package(const fs::path& directory, const PackageContents& contents, DeviceGraph* values,
                  const SaveOptions& options) {
  check(contents);
  fs::path aside = directory;
  if (!aside.has_filename()) aside = aside.parent_path();
  const fs::path place = aside;
  const std::string unique = cat(".", std::random_device{}());
  aside += unique + ".old";
  fs::path made = place;
  made += unique;
  try {
    require_replaceable(place);
    fs::create_directories(made);
    write_contents(made, contents, values, options);
    if (fs::exists(place)) fs::rename(place, aside);
    fs::rename(made, place);
    fs::remove_all(aside);
  } catch (const fs::filesystem_error& error) {
    std::error_code ignored;
    fs::remove_all(made, ignored);
    throw PackageError(cat(place.string(), " cannot be written: ", error.code().message()));
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(made, ignored);
    throw;
  }
}

PackageContents load_package(const fs::path& directory, const LoadOptions& options) {
  try {
    return read_contents(directory, read_manifest(directory / manifest_name), options.verify);
  } catch (const Json::exception& error) {
    throw PackageError(cat((directory / manifest_name).string(), " is damaged: ", error.what()));
  } catch (const PackageError& error) {
    const std::string message = error.what();
    if (message.find(directory.string()) == 0) throw;
    throw PackageError(cat((directory / manifest_name).string(), " is damaged: ", message));
  }
}

// --- on a device
// -------------------------------------------------------------------------------------------------------

Package::Package(PackageContents contents, Device& device)
    : contents_(std::move(contents)), graph_(std::make_shared<DeviceGraph>(contents_.graph, device)) {}

Package Package::load(const fs::path& directory, Device& device, const LoadOptions& options) {
  return Package(load_package(directory, options), device);
}

Tensor* Package::input(const std::string& name) const { return required(contents_.inputs, name, "input"); }
Tensor* Package::output(const std::string& name) const { return required(contents_.outputs, name, "output"); }

std::shared_ptr<Executable> Package::compile(const std::map<std::string, TensorType>& types) const {
  for (const auto& [name, type] : types) input(name);
  std::vector<Feed> feeds;
  for (const auto& [name, tensor] : contents_.inputs) {
    const auto given = types.find(name);
    feeds.emplace_back(tensor, given == types.end() ? tensor->type : given->second);
  }
  std::vector<Tensor*> targets;
  for (const auto& [name, tensor] : contents_.outputs) targets.push_back(tensor);
  return graph_->compile(feeds, targets);
}

std::map<std::string, NDArray> Package::run(const std::map<std::string, NDArray>& inputs) const {
  std::vector<std::pair<Tensor*, NDArray>> feeds;
  for (const auto& [name, array] : inputs) feeds.emplace_back(input(name), array);
  std::vector<Tensor*> targets;
  for (const auto& [name, tensor] : contents_.outputs) targets.push_back(tensor);
  const std::vector<NDArray> results = graph_->run(feeds, targets);
  std::map<std::string, NDArray> outputs;
  for (size_t i = 0; i < results.size(); ++i) outputs.emplace(contents_.outputs[i].first, results[i]);
  return outputs;
}

}  // namespace mpsgraph::runtime
