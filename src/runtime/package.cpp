// Packages written and read: the manifest, and what joins the three files.
#include "mpsgraph/runtime/package.h"

#include <algorithm>
#include <random>
#include <set>
#include <unordered_map>

#include "compiler/rewrite.h"
#include "mpsgraph/core/custom.h"
#include "mpsgraph/core/text.h"
#include "runtime/checksum.h"
#include "runtime/json.h"
#include "runtime/safetensors.h"

namespace mpsgraph::runtime {

namespace {

namespace fs = std::filesystem;

constexpr int64_t plain_version = 1, functions_version = 2;  // of inputs and outputs alone; with more functions
constexpr std::string_view manifest_name = "package.json", graph_name = "graph.txt",
                           weights_name = "weights.safetensors";
constexpr size_t largest_manifest = size_t{1} << 26, largest_graph = size_t{1} << 31, largest_weights = size_t{1} << 48;
constexpr size_t largest_inline = 256;  // bytes of a constant that stands in the text
constexpr std::string_view blank = "0000000000000000";

std::string checksum_of(const MappedFile& file) { return to_hex(checksum(file.data(), file.bytes())); }

std::string_view text_of(const MappedFile& file) { return {reinterpret_cast<const char*>(file.data()), file.bytes()}; }

// --- writing ---------------------------------------------------------------------------------------------------------

// A training step's parts fit one another, as both a writer and a reader want them.
void check_training(const PackageContents& contents) {
  if (!contents.training) return;
  const PackageTraining& training = *contents.training;
  const auto require = [](bool holds, std::string_view what) {
    if (!holds) throw PackageError(cat("its training step ", what));
  };
  for (const Tensor* counter : {training.step, training.first_update, training.last_row})
    require(counter && counter->operation->is("variable") && counter->type == TensorType{DType::int32, Shape(Dims{})},
            "counts in variables of int32 of rank 0");
  require(training.every >= 1, "has no batch to an update");
  const PackageFunction *step = contents.function("train_step"), *rates = contents.function("rates"),
                        *accumulate = contents.function("accumulate");
  require(step && rates && (accumulate || training.every == 1), "lacks one of its functions");
  const auto has = [](const NamedTensors& tensors, const std::string& name) {
    return std::ranges::find(tensors, name, &std::pair<std::string, Tensor*>::first) != tensors.end();
  };
  require(!training.results.empty(), "has no loss");
  require(!training.rates.empty(), "has no rate");
  for (const std::string& name : training.results) require(has(step->outputs, name), cat("has no result '", name, "'"));
  for (const std::string& name : training.rates)
    require(has(step->inputs, name) && has(rates->outputs, name), cat("has no rate '", name, "'"));
  require(rates->inputs.empty(), "has rates that wait for inputs");
  require(!accumulate || accumulate->inputs == step->inputs, "adds up other inputs than it trains on");
}

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

Json names_of(const std::vector<Tensor*>& variables) {
  Json names = Json::array();
  for (const Tensor* variable : variables) names.push_back(variable->operation->name);
  return names;
}

Json described(const std::vector<PackageFunction>& functions) {
  Json result = Json::array();
  for (const PackageFunction& function : functions) {
    Json operations = Json::array();
    for (const Operation* operation : function.operations) operations.push_back(operation->name);
    result.push_back({{"name", function.name},
                      {"inputs", named(function.inputs)},
                      {"outputs", named(function.outputs)},
                      {"operations", operations}});
  }
  return result;
}

Json described(const PackageTraining& training) {
  return {{"step", training.step->operation->name},
          {"first_update", training.first_update->operation->name},
          {"last_row", training.last_row->operation->name},
          {"tables", names_of(training.tables)},
          {"every", training.every},
          {"rates", training.rates},
          {"results", training.results},
          {"description", training.description}};
}

void check_tensors(const Graph& graph, const NamedTensors& tensors, std::string_view what, std::string_view kind) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    const std::string called = cat(what, " '", name, "'");
    if (!tensor || &tensor->graph() != &graph)
      throw GraphError(cat("[save] ", called, " is not a tensor of the graph"));
    if (tensor->operation->parent != &graph.root())
      throw GraphError(cat("[save] ", called, " lies within a block of control flow"));
    if (!kind.empty() && !tensor->operation->is(kind))
      throw GraphError(
          cat("[save] ", called, " must be a ", kind, ", it is the result of ", tensor->operation->kind()));
    if (!names.insert(name).second) throw GraphError(cat("[save] there are two of ", called));
  }
}

void check(const PackageContents& contents) {
  if (!contents.graph) throw GraphError("[save] there is no graph");
  const Graph& graph = *contents.graph;
  check_tensors(graph, contents.inputs, "input", "placeholder");
  check_tensors(graph, contents.outputs, "output", "");
  check_tensors(graph, contents.parameters, "parameter", "variable");
  if (contents.outputs.empty()) throw GraphError("[save] a package needs an output");
  std::set<std::string> names;
  for (const PackageFunction& function : contents.functions) {
    if (!names.insert(function.name).second)
      throw GraphError(cat("[save] there are two functions '", function.name, "'"));
    check_tensors(graph, function.inputs, cat(function.name, "'s input"), "placeholder");
    check_tensors(graph, function.outputs, cat(function.name, "'s output"), "");
    for (const Operation* operation : function.operations)
      if (!operation || operation->parent != &graph.root())
        throw GraphError(cat("[save] an operation of ", function.name, " is none of the graph itself"));
  }
  try {
    check_training(contents);
  } catch (const PackageError& error) {
    throw GraphError(cat("[save] ", error.what()));
  }
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

// The names and keys of the custom operations among those that are written.
void gather_custom(const Block& block, const std::vector<bool>* wanted,
                   std::set<std::pair<std::string, std::string>>& all) {
  for (const auto& operation : block.operations) {
    if (wanted && !(*wanted)[static_cast<size_t>(operation->id)]) continue;
    if (operation->is("custom"))
      all.emplace(operation->attributes.string("operation"), operation->attributes.string("key"));
    for (const auto& inner : operation->blocks) gather_custom(*inner, nullptr, all);
  }
}

Json custom_used(const Graph& graph, const std::vector<bool>& wanted) {
  std::set<std::pair<std::string, std::string>> all;
  gather_custom(graph.root(), &wanted, all);
  Json result = Json::array();
  for (const auto& [name, key] : all) result.push_back({{"name", name}, {"key", key}});
  return result;
}

void write_manifest(const fs::path& directory, const PackageContents& contents, const Json& custom) {
  const auto file = [&](std::string_view name, size_t limit) {
    return Json{{"checksum", checksum_of(*MappedFile::open(directory / name, limit))}};
  };
  const bool plain = contents.functions.empty() && !contents.training;
  Json manifest{{"checksum", blank},
                {"format", "mpsgraph"},
                {"format_version", plain ? plain_version : functions_version},
                {"graph", file(graph_name, largest_graph)},
                {"weights", file(weights_name, largest_weights)},
                {"inputs", named(contents.inputs)},
                {"outputs", named(contents.outputs)},
                {"parameters", named(contents.parameters)},
                {"trainable", names_of(contents.trainable)}};
  if (!custom.empty()) manifest["custom_operations"] = custom;
  if (!plain) manifest["functions"] = described(contents.functions);
  if (contents.training) manifest["training"] = described(*contents.training);
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
  for (const PackageFunction& function : contents.functions) {
    for (const auto* list : {&function.inputs, &function.outputs})
      for (const auto& [name, tensor] : *list) roots.push_back(tensor->operation);
    roots.insert(roots.end(), function.operations.begin(), function.operations.end());
  }
  if (const auto& training = contents.training) {
    for (const Tensor* variable : {training->step, training->first_update, training->last_row})
      roots.push_back(variable->operation);
    for (const Tensor* table : training->tables) roots.push_back(table->operation);
  }
  const std::vector<bool> wanted = compiler::needed_by(*contents.graph, roots);
  Weights weights(wanted, values);
  weights.gather(contents.graph->root());
  PrintOptions options;
  options.locations = how.locations;
  options.only = [&](const Operation& operation) { return wanted[static_cast<size_t>(operation.id)]; };
  options.elsewhere = [&](const Operation& operation, std::string_view key) { return weights.place(operation, key); };
  write_text(directory / graph_name, print(*contents.graph, options));
  write_safetensors(directory / weights_name, weights.take());
  write_manifest(directory, contents, custom_used(*contents.graph, wanted));
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

const Json& list_member(const Json& object, const char* key) {
  const Json& list = member(object, key);
  if (!list.is_array()) throw PackageError(cat("'", key, "' is no list"));
  return list;
}

Json read_manifest(const fs::path& path) {
  std::string text(text_of(*MappedFile::open(path, largest_manifest)));
  const Json manifest = parse_json(text);
  if (!manifest.is_object() || !manifest.contains("format") || manifest["format"] != "mpsgraph")
    throw PackageError("it describes no package");
  if (const Json& version = member(manifest, "format_version");
      version != plain_version && version != functions_version)
    throw PackageError(cat("it has format version ", to_text(version), ", this mpsgraph reads ", plain_version, " and ",
                           functions_version, ": update it"));
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
  NamedTensors tensors;
  std::set<std::string> names;
  for (const Json& item : list_member(manifest, key)) {
    const Json& result = member(item, "result");
    if (!result.is_number_unsigned()) throw PackageError(cat("'", key, "' has a result that is no number"));
    std::string name = text_member(item, "name");
    if (!names.insert(name).second) throw PackageError(cat("'", key, "' has '", name, "' twice"));
    tensors.emplace_back(std::move(name),
                         find_tensor(graph, text_member(item, "operation"), result.get<size_t>(), kind));
  }
  return tensors;
}

std::vector<std::string> names_in(const Json& object, const char* key) {
  std::vector<std::string> names;
  for (const Json& name : list_member(object, key)) {
    if (!name.is_string()) throw PackageError(cat("'", key, "' has an entry that is no name"));
    names.push_back(name.get<std::string>());
  }
  return names;
}

std::vector<Tensor*> variables_in(const Graph& graph, const Json& object, const char* key) {
  std::vector<Tensor*> variables;
  for (const std::string& name : names_in(object, key)) variables.push_back(find_tensor(graph, name, 0, "variable"));
  return variables;
}

std::vector<PackageFunction> functions_in(const Graph& graph, const Json& manifest) {
  std::vector<PackageFunction> functions;
  std::set<std::string> names;
  for (const Json& described : list_member(manifest, "functions")) {
    PackageFunction function{text_member(described, "name"),
                             find_all(graph, described, "inputs", "placeholder"),
                             find_all(graph, described, "outputs", ""),
                             {}};
    if (!names.insert(function.name).second) throw PackageError(cat("it has function '", function.name, "' twice"));
    for (const std::string& name : names_in(described, "operations")) {
      Operation* operation = graph.find(name);
      if (!operation || operation->parent->owner) throw PackageError(cat("'", name, "' is no operation of the graph"));
      function.operations.push_back(operation);
    }
    functions.push_back(std::move(function));
  }
  return functions;
}

PackageTraining training_in(const Graph& graph, const Json& described) {
  PackageTraining training;
  training.step = find_tensor(graph, text_member(described, "step"), 0, "variable");
  training.first_update = find_tensor(graph, text_member(described, "first_update"), 0, "variable");
  training.last_row = find_tensor(graph, text_member(described, "last_row"), 0, "variable");
  training.tables = variables_in(graph, described, "tables");
  const Json& every = member(described, "every");
  if (!every.is_number_integer()) throw PackageError("'every' is no number");
  training.every = every.get<int64_t>();
  training.rates = names_in(described, "rates");
  training.results = names_in(described, "results");
  training.description = text_member(described, "description");
  return training;
}

std::shared_ptr<const MappedFile> open_part(const fs::path& path, size_t limit, const Json& described, bool verify) {
  auto file = MappedFile::open(path, limit);
  const std::string stated = text_member(described, "checksum");
  if (verify && checksum_of(*file) != stated)
    throw PackageError(cat(path.string(), " is truncated or altered: its checksum does not match"));
  return file;
}

// Says which code is missing, before a graph is read that would only be refused.
void require_custom(const fs::path& directory, const Json& manifest) {
  if (!manifest.contains("custom_operations")) return;
  std::string missing;
  for (const Json& used : list_member(manifest, "custom_operations")) {
    const std::string name = text_member(used, "name"), key = text_member(used, "key");
    if (find_custom_operation(name, key)) continue;
    const bool other = find_custom_operation(name, "") != nullptr;
    missing += cat(missing.empty() ? "'" : ", '", name, "' with the code '", key, "'",
                   other ? " (other code has that name)" : "");
  }
  if (!missing.empty())
    throw PackageError(cat(directory.string(), " needs custom operations that this process does not have: ", missing,
                           "; define them from the same source, or load their library, before it is opened"));
}

PackageContents read_contents(const fs::path& directory, const Json& manifest, bool verify) {
  require_custom(directory, manifest);
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
  contents.trainable = variables_in(*contents.graph, manifest, "trainable");
  if (manifest["format_version"] == plain_version) return contents;
  contents.functions = functions_in(*contents.graph, manifest);
  if (manifest.contains("training")) contents.training = training_in(*contents.graph, manifest["training"]);
  check_training(contents);
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

const PackageFunction* PackageContents::function(const std::string& name) const {
  const auto found = std::ranges::find(functions, name, &PackageFunction::name);
  return found == functions.end() ? nullptr : &*found;
}

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
