// Writing and reading packages: the manifest, and the code that connects the graph, the weights, and the manifest.
#include "mpsgraph/runtime/package.h"

#include <algorithm>
#include <random>
#include <set>
#include <unordered_map>

#include "compiler/rewrite.h"
#include "mpsgraph/core/custom.h"
#include "mpsgraph/core/text.h"
#include "runtime/checksum.h"
#include "runtime/manifest.h"
#include "runtime/preparation.h"
#include "runtime/safetensors.h"

namespace mpsgraph::runtime {

namespace {

namespace fs = std::filesystem;

// Version numbers of the package format: version 1 has only inputs and outputs; version 2 adds functions.
constexpr int64_t plain_version = 1, functions_version = 2;
constexpr std::string_view manifest_name = "package.json", graph_name = "graph.txt",
                           weights_name = "weights.safetensors";
constexpr size_t largest_graph = size_t{1} << 31, largest_weights = size_t{1} << 48;
// Constants of at most this many bytes are written into the graph's text instead of the weights file.
constexpr size_t largest_inline = 256;

std::string_view text_of(const MappedFile& file) { return {reinterpret_cast<const char*>(file.data()), file.bytes()}; }

// ---- writing --------------------------------------------------------------------------------------------------------

// Checks that the parts of a training step are consistent. Both writing and reading a package require this.
void check_training(const PackageContents& contents) {
  if (!contents.training) return;
  const PackageTraining& training = *contents.training;
  const auto require = [](bool holds, std::string_view what) {
    if (!holds) throw PackageError(cat("the package's training step ", what));
  };
  for (const Tensor* counter : {training.step, training.first_update, training.last_row})
    require(counter && counter->operation->is("variable") && counter->type == TensorType{DType::int32, Shape(Dims{})},
            "must use int32 variables of rank 0 as its counters");
  require(training.every >= 1, "must process at least 1 batch per update");
  const PackageFunction *step = contents.function("train_step"), *rates = contents.function("rates"),
                        *accumulate = contents.function("accumulate");
  require(step && rates && (accumulate || training.every == 1),
          "must have the functions 'train_step', 'rates' and, with more than 1 batch per update, 'accumulate'");
  const auto has = [](const NamedTensors& tensors, const std::string& name) {
    return std::ranges::find(tensors, name, &std::pair<std::string, Tensor*>::first) != tensors.end();
  };
  require(!training.results.empty(), "must have at least one result, the loss");
  require(!training.rates.empty(), "must have at least one learning rate");
  for (const std::string& name : training.results)
    require(has(step->outputs, name), cat("must have '", name, "' among the outputs of 'train_step'"));
  for (const std::string& name : training.rates)
    require(has(step->inputs, name) && has(rates->outputs, name),
            cat("must have the rate '", name, "' among the inputs of 'train_step' and the outputs of 'rates'"));
  require(rates->inputs.empty(), "must have a function 'rates' without inputs");
  require(!accumulate || accumulate->inputs == step->inputs,
          "must have the same inputs for 'accumulate' as for 'train_step'");
}

// Reads variables in groups, because each access to variables on a device has a cost, while all values together could
// exceed the memory of the host.
class GroupedValues {
 public:
  explicit GroupedValues(DeviceGraph& graph) : graph_(graph) {}

  size_t add(Tensor* variable) {
    variables_.push_back(variable);
    return variables_.size() - 1;
  }
  // The value of the variable for which add() returned `place`. Calls in ascending order read each variable once.
  const NDArray& value(size_t place) {
    if (place < first_ || place >= first_ + values_.size()) {
      std::vector<Tensor*> group;
      size_t bytes = 0;
      for (size_t i = place; i < variables_.size() && (group.empty() || bytes < group_bytes); ++i) {
        group.push_back(variables_[i]);
        bytes += static_cast<size_t>(group.back()->shape().elements()) * size_of(group.back()->dtype());
      }
      values_.clear();  // before the next group is allocated
      values_ = graph_.variable_values(group);
      first_ = place;
    }
    return values_[place - first_];
  }

 private:
  static constexpr size_t group_bytes = size_t{256} << 20;
  DeviceGraph& graph_;
  std::vector<Tensor*> variables_;
  std::vector<NDArray> values_;  // the values of the last group, whose first variable is variables_[first_]
  size_t first_ = 0;
};

// The contents of weights.safetensors: all variables, and the constants that are too large for the graph's text.
class Weights {
 public:
  Weights(const std::vector<bool>& wanted, DeviceGraph* values)
      : wanted_(wanted), values_(values ? std::make_shared<GroupedValues>(*values) : nullptr) {}

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
      write = [place = values_->add(operation.output()), values = values_](const Append& append) {
        const NDArray& value = values->value(place);
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
  const std::shared_ptr<GroupedValues> values_;  // null if the variables have their initial values
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

void check_tensors(const Graph& graph, const NamedTensors& tensors, std::string_view what, Kind kind) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    const std::string called = cat(what, " '", name, "'");
    if (!tensor || &tensor->graph() != &graph)
      throw GraphError(cat("[save] ", called, " must be a tensor of the graph that is saved"));
    if (tensor->operation->parent != &graph.root())
      throw GraphError(cat("[save] ", called, " must not be inside a block of a control-flow operation"));
    if (kind && !tensor->operation->is(kind))
      throw GraphError(
          cat("[save] ", called, " must be a ", kind, ", but it is the result of ", tensor->operation->kind()));
    if (!names.insert(name).second) throw GraphError(cat("[save] names must be unique, got ", called, " twice"));
  }
}

void check(const PackageContents& contents) {
  if (!contents.graph) throw GraphError("[save] the package must contain a graph");
  const Graph& graph = *contents.graph;
  check_tensors(graph, contents.inputs, "input", "placeholder");
  check_tensors(graph, contents.outputs, "output", Kind());
  check_tensors(graph, contents.parameters, "parameter", "variable");
  if (contents.outputs.empty()) throw GraphError("[save] the package needs at least one output");
  std::set<std::string> names;
  for (const PackageFunction& function : contents.functions) {
    if (!names.insert(function.name).second)
      throw GraphError(cat("[save] names of functions must be unique, got function '", function.name, "' twice"));
    check_tensors(graph, function.inputs, cat(function.name, "'s input"), "placeholder");
    check_tensors(graph, function.outputs, cat(function.name, "'s output"), Kind());
    for (const Operation* operation : function.operations)
      if (!operation || operation->parent != &graph.root())
        throw GraphError(cat("[save] the operations of function '", function.name,
                             "' must belong to the graph and be outside the blocks of control-flow operations"));
  }
  try {
    check_training(contents);
  } catch (const PackageError& error) {
    throw GraphError(cat("[save] ", error.what()));
  }
}

// Throws PackageError if `directory` exists and is not a package. An existing package may be replaced.
void require_replaceable(const fs::path& directory) {
  if (!fs::exists(fs::symlink_status(directory))) return;
  if (fs::is_directory(directory) && fs::exists(directory / manifest_name)) return;
  if (fs::is_directory(directory) && fs::is_empty(directory)) return;
  throw PackageError(cat(directory.string(), " exists and is not a package; it was left unchanged"));
}

void write_text(const fs::path& path, const std::string& text) {
  write_file(path, [&](const Append& append) { append(text.data(), text.size()); });
}

// Adds to `all` the name and key of each custom operation in the block that is to be written to the package.
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

Json manifest_of(const fs::path& directory, const PackageContents& contents, const Json& custom) {
  const auto file = [&](std::string_view name, size_t limit) {
    return Json{{"checksum", checksum_of(*MappedFile::open(directory / name, limit))}};
  };
  const bool plain = contents.functions.empty() && !contents.training;
  Json manifest{{"format", "mpsgraph"},
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
  return manifest;
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
  write_manifest(directory / manifest_name, manifest_of(directory, contents, custom_used(*contents.graph, wanted)));
}

// ---- reading --------------------------------------------------------------------------------------------------------

const Json& member(const Json& object, const char* key) {
  if (!object.is_object() || !object.contains(key))
    throw PackageError(cat("the manifest must have a member '", key, "'"));
  return object[key];
}

std::string text_member(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_string()) throw PackageError(cat("'", key, "' in the manifest must be a string"));
  return value.get<std::string>();
}

const Json& list_member(const Json& object, const char* key) {
  const Json& list = member(object, key);
  if (!list.is_array()) throw PackageError(cat("'", key, "' in the manifest must be a list"));
  return list;
}

// Thrown for a package that is intact, but in a format that this version does not read.
struct UnknownVersion : PackageError {
  using PackageError::PackageError;
};

void check_format(const Json& manifest) {
  if (!manifest.contains("format") || manifest["format"] != "mpsgraph")
    throw PackageError("the manifest does not describe a package: its 'format' must be \"mpsgraph\"");
  if (const Json& version = member(manifest, "format_version");
      version != plain_version && version != functions_version)
    throw UnknownVersion(cat("the package has format version ", to_text(version), ", but this mpsgraph reads versions ",
                             plain_version, " and ", functions_version, "; update mpsgraph"));
}

Tensor* find_tensor(const Graph& graph, const std::string& operation_name, size_t result, Kind kind) {
  Operation* operation = graph.find(operation_name);
  if (!operation || result >= operation->outputs.size() || operation->parent->owner)
    throw PackageError(
        cat("the manifest names '", operation_name, ":", result, "', which is not a tensor of the graph"));
  if (kind && !operation->is(kind))
    throw PackageError(
        cat("the manifest names '", operation_name, "' as a ", kind, ", but it is the result of ", operation->kind()));
  return operation->output(result);
}

NamedTensors find_all(const Graph& graph, const Json& manifest, const char* key, Kind kind) {
  NamedTensors tensors;
  std::set<std::string> names;
  for (const Json& item : list_member(manifest, key)) {
    const Json& result = member(item, "result");
    if (!result.is_number_unsigned())
      throw PackageError(cat("'result' in the manifest's list '", key, "' must be a non-negative integer"));
    std::string name = text_member(item, "name");
    if (!names.insert(name).second)
      throw PackageError(cat("the manifest's list '", key, "' contains '", name, "' twice"));
    tensors.emplace_back(std::move(name),
                         find_tensor(graph, text_member(item, "operation"), result.get<size_t>(), kind));
  }
  return tensors;
}

std::vector<std::string> names_in(const Json& object, const char* key) {
  std::vector<std::string> names;
  for (const Json& name : list_member(object, key)) {
    if (!name.is_string()) throw PackageError(cat("the manifest's list '", key, "' must contain only strings"));
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
                             find_all(graph, described, "outputs", Kind()),
                             {}};
    if (!names.insert(function.name).second)
      throw PackageError(cat("the manifest lists the function '", function.name, "' twice"));
    for (const std::string& name : names_in(described, "operations")) {
      Operation* operation = graph.find(name);
      if (!operation || operation->parent->owner)
        throw PackageError(cat("the manifest names '", name, "', which is not an operation of the graph"));
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
  if (!every.is_number_integer()) throw PackageError("'every' in the manifest must be an integer");
  training.every = every.get<int64_t>();
  training.rates = names_in(described, "rates");
  training.results = names_in(described, "results");
  training.description = text_member(described, "description");
  return training;
}

void require_checksum(const MappedFile& file, const fs::path& path, const std::string& stated, bool verify) {
  if (verify && checksum_of(file) != stated)
    throw PackageError(cat(path.string(), " is truncated or altered: its checksum does not match"));
}

// Throws an error that names the missing custom operations before the graph is read, because parsing the graph would
// fail with a less helpful error.
void require_custom(const fs::path& directory, const Json& manifest) {
  if (!manifest.contains("custom_operations")) return;
  std::string missing;
  for (const Json& used : list_member(manifest, "custom_operations")) {
    const std::string name = text_member(used, "name"), key = text_member(used, "key");
    if (find_custom_operation(name, key)) continue;
    const bool other = find_custom_operation(name, "") != nullptr;
    missing += cat(missing.empty() ? "'" : ", '", name, "' with the key '", key, "'",
                   other ? " (an operation with this name but other code is defined)" : "");
  }
  if (!missing.empty())
    throw PackageError(cat(directory.string(),
                           " needs custom operations that are not defined in this process: ", missing,
                           "; define them from the same source, or load their library, before you open the package"));
}

PackageContents read_contents(const fs::path& directory, const Json& manifest, const LoadOptions& options,
                              PackageWeights* kept) {
  require_custom(directory, manifest);
  const bool verify = options.verify;
  const Json &of_graph = member(manifest, "graph"), &of_weights = member(manifest, "weights");
  const auto text = MappedFile::open(directory / graph_name, largest_graph);
  require_checksum(*text, directory / graph_name, text_member(of_graph, "checksum"), verify);
  const fs::path place = directory / weights_name;
  PackageWeights weights{place, MappedFile::open(place, largest_weights), text_member(of_weights, "checksum")};
  if (!options.prepared || !add_prepared_forms(directory, weights, verify)) {
    require_checksum(*weights.file, place, weights.checksum, verify);
    weights.by_name = read_safetensors(weights.file, place);
  }
  const std::map<std::string, ConstantPtr>& tensors = weights.by_name;
  if (kept) *kept = weights;
  const auto elsewhere = [&](const std::string& name, const TensorType&) {
    const auto found = tensors.find(name);
    return found == tensors.end() ? nullptr : found->second;
  };
  PackageContents contents;
  try {
    contents.graph = parse(text_of(*text), Verification::on, elsewhere);
  } catch (const LimitError&) {
    throw;
  } catch (const OutOfMemoryError&) {
    throw;
  } catch (const Error& error) {
    throw PackageError(cat((directory / graph_name).string(), " is damaged: ", error.what()));
  }
  contents.inputs = find_all(*contents.graph, manifest, "inputs", "placeholder");
  contents.outputs = find_all(*contents.graph, manifest, "outputs", Kind());
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
  const fs::path place = directory.has_filename() ? directory : directory.parent_path();
  fs::path made = place;
  made += cat(".", std::random_device{}());
  try {
    require_replaceable(place);
    fs::create_directories(made);
    write_contents(made, contents, values, options);
    replace_directory(made, place);
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
  return load_package(directory, options, nullptr);
}

namespace {

PackageContents load_once(const fs::path& directory, const LoadOptions& options, PackageWeights* weights) {
  try {
    return read_contents(directory, read_manifest(directory / manifest_name, check_format), options, weights);
  } catch (const UnknownVersion& error) {
    throw PackageError(cat(directory.string(), " cannot be read: ", error.what()));
  } catch (const Json::exception& error) {
    throw PackageError(cat((directory / manifest_name).string(), " is damaged: ", error.what()));
  } catch (const PackageError& error) {
    const std::string message = error.what();
    if (message.find(directory.string()) == 0) throw;
    throw PackageError(cat((directory / manifest_name).string(), " is damaged: ", message));
  }
}

}  // namespace

// If another process replaces the package while it is read, the files that were read may belong to different packages.
// The package is then read again.
PackageContents load_package(const fs::path& directory, const LoadOptions& options, PackageWeights* weights) {
  constexpr int most_attempts = 1000;
  for (int attempt = 1;; ++attempt) {
    const uint64_t before = identity_of(directory);
    try {
      PackageContents contents = load_once(directory, options, weights);
      if (attempt == most_attempts || identity_of(directory) == before) return contents;
    } catch (const PackageError&) {
      if (attempt == most_attempts || identity_of(directory) == before) throw;
    }
  }
}

// ---- packages on a device -------------------------------------------------------------------------------------------

Package::Package(PackageContents contents, Device& device)
    : contents_(std::move(contents)), graph_(std::make_shared<DeviceGraph>(contents_.graph, device)) {}

Package Package::load(const fs::path& directory, Device& device, const LoadOptions& options) {
  return Package(load_package(directory, options), device);
}

Tensor* Package::input(const std::string& name) const { return required(contents_.inputs, name, "input"); }
Tensor* Package::output(const std::string& name) const { return required(contents_.outputs, name, "output"); }

std::shared_ptr<Executable> compile(const PackageContents& contents, DeviceGraph& graph,
                                    const std::map<std::string, TensorType>& types) {
  for (const auto& [name, type] : types) required(contents.inputs, name, "input");
  std::vector<Feed> feeds;
  for (const auto& [name, tensor] : contents.inputs) {
    const auto given = types.find(name);
    feeds.emplace_back(tensor, given == types.end() ? tensor->type : given->second);
  }
  std::vector<Tensor*> targets;
  for (const auto& [name, tensor] : contents.outputs) targets.push_back(tensor);
  return graph.compile(feeds, targets);
}

std::shared_ptr<Executable> Package::compile(const std::map<std::string, TensorType>& types) const {
  return runtime::compile(contents_, *graph_, types);
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
