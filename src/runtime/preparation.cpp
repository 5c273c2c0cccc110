// Prepared packages: after compilation, collects the forms of constants (copies that the device has rearranged for its
// kernels), and attaches these forms to the constants again when a package is read.
#include "runtime/preparation.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <thread>

#include "runtime/backend.h"
#include "runtime/checksum.h"
#include "runtime/manifest.h"
#include "runtime/safetensors.h"

namespace mpsgraph::runtime {

namespace {

namespace fs = std::filesystem;

constexpr int64_t forms_version = 1;
constexpr std::string_view folder_name = "prepared", forms_format = "mpsgraph prepared weights";
// `largest_forms` is the largest permitted size, in bytes, of a file with forms (rearranged copies of constants).
// `form_alignment`, a cache line, is the alignment of each form.
constexpr size_t largest_forms = size_t{1} << 48, form_alignment = 64;
constexpr size_t piece = size_t{8} << 20;  // The file of forms has one checksum per piece of this many bytes.

fs::path stem(const fs::path& directory, std::string_view device, const std::string& made_for) {
  return directory / folder_name / cat(device, "-", to_hex(checksum(made_for.data(), made_for.size())));
}

fs::path with(fs::path stem, std::string_view ending) { return stem += ending; }

std::string checksum_of(const std::byte* data, size_t bytes) { return to_hex(checksum(data, bytes)); }

std::string checksum_of(const ConstantData& constant) { return checksum_of(constant.bytes(), constant.stored_bytes()); }

// The checksum of everything that precedes the tensors in a safetensors file.
std::string checksum_of_header(const MappedFile& file) {
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);  // read_safetensors() has validated it
  return checksum_of(file.data(), sizeof length + length);
}

// Computes the checksum of each piece of a file on a few threads, each of which repeatedly takes the next piece.
std::vector<std::string> checksums_of_pieces(const MappedFile& file) {
  std::vector<std::string> sums((file.bytes() + piece - 1) / piece);
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < sums.size(); i = next++) {
      const size_t begin = i * piece, bytes = std::min(piece, file.bytes() - begin);
      file.populate(begin, bytes);
      sums[i] = checksum_of(file.data() + begin, bytes);
    }
  };
  std::vector<std::future<void>> others;
  for (size_t i = 1; i < std::min<size_t>({4, sums.size(), std::thread::hardware_concurrency()}); ++i)
    others.push_back(std::async(std::launch::async, work));
  work();
  return sums;  // The destructors of the futures wait for the threads.
}

// ---- writing --------------------------------------------------------------------------------------------------------

struct Gathered {
  std::string weight, form;
  ConstantForm bytes;
};

// Collects the forms (rearranged copies) that the device currently keeps for constants of this package.
std::vector<Gathered> gather(const Backend& backend, const PackageWeights& weights) {
  std::map<const std::byte*, std::string> names;
  for (const auto& [name, constant] : weights.by_name) names.emplace(constant->bytes(), name);
  std::vector<Gathered> gathered;
  for (DeviceForm& form : backend.forms())
    if (const auto found = names.find(form.of); found != names.end())
      gathered.push_back({found->second, std::move(form.name), std::move(form.form)});
  std::ranges::sort(gathered, {}, [](const Gathered& one) { return std::tie(one.weight, one.form); });
  return gathered;
}

std::vector<TensorToWrite> padded(const std::vector<Gathered>& gathered) {
  std::vector<TensorToWrite> tensors;
  for (size_t i = 0; i < gathered.size(); ++i) {
    const ConstantForm& form = gathered[i].bytes;
    const size_t padding = (form_alignment - form.count % form_alignment) % form_alignment;
    tensors.push_back({std::to_string(i),
                       {DType::uint8, Shape(Dims{static_cast<int64_t>(form.count + padding)})},
                       [form, padding](const Append& append) {
                         constexpr std::byte nothing[form_alignment] = {};
                         append(form.bytes.get(), form.count);
                         append(nothing, padding);
                       }});
  }
  return tensors;
}

// ---- reading --------------------------------------------------------------------------------------------------------

std::string text_of(const Json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_string())
    throw PackageError(cat("the manifest must have a member '", key, "' that is a string"));
  return object[key].get<std::string>();
}

void check_prepared(const Json& manifest) {
  if (!manifest.contains("format") || manifest["format"] != forms_format)
    throw PackageError("the manifest does not describe prepared weights");
}

ConstantForm form_of(const Json& entry, const std::map<std::string, ConstantPtr>& tensors) {
  const auto found = tensors.find(text_of(entry, "tensor"));
  if (found == tensors.end())
    throw PackageError(cat("the manifest names tensor '", text_of(entry, "tensor"), "', which is not in the file"));
  const ConstantPtr& tensor = found->second;
  const Json& count = entry.contains("bytes") ? entry["bytes"] : Json();
  if (!count.is_number_unsigned() || count.get<size_t>() > tensor->stored_bytes())
    throw PackageError(cat("tensor '", found->first, "' is smaller than the form that it should contain"));
  if (reinterpret_cast<uintptr_t>(tensor->bytes()) % form_alignment)
    throw PackageError(cat("tensor '", found->first, "' is not aligned to ", form_alignment, " bytes"));
  return {{tensor, tensor->bytes()}, count.get<size_t>()};
}

using FormsByWeight = std::map<std::string, ConstantForms>;

FormsByWeight forms_in(const Json& manifest, const fs::path& path, bool verify) {
  const auto file = MappedFile::open(path, largest_forms);
  if (verify && Json(checksums_of_pieces(*file)) != manifest.value("forms", Json()))
    throw PackageError("the checksums of the prepared weights do not match");
  const auto tensors = read_safetensors(file, path);
  if (!manifest.contains("of") || !manifest["of"].is_array()) throw PackageError("the manifest must have a list 'of'");
  FormsByWeight forms;
  for (const Json& entry : manifest["of"])
    forms[text_of(entry, "weight")][text_of(entry, "form")] = form_of(entry, tensors);
  return forms;
}

[[noreturn]] void refuse_weight(const std::string& name, const fs::path& path) {
  throw PackageError(cat(path.string(), " is truncated or altered: the checksum of '", name, "' does not match"));
}

// A constant with the elements of `tensor`. Its checksum is verified when the elements are first accessed.
ConstantPtr checked_later(const ConstantPtr& tensor, const std::string& name, const std::string& stated,
                          const fs::path& path) {
  const uint64_t sum = from_hex(stated);
  return ConstantData::deferred(tensor->dtype(), tensor->dims(), sum, [=] {
    if (checksum(tensor->bytes(), tensor->stored_bytes()) != sum) refuse_weight(name, path);
    return std::shared_ptr<std::byte>(std::const_pointer_cast<ConstantData>(tensor),
                                      const_cast<std::byte*>(tensor->bytes()));
  });
}

void give(PackageWeights& weights, FormsByWeight forms, const Json& manifest, bool verify) {
  weights.by_name = read_safetensors(weights.file, weights.path);
  if (verify && checksum_of_header(*weights.file) != text_of(manifest, "header"))
    throw PackageError(
        cat(weights.path.string(), " is truncated or altered: the checksum of its header does not match"));
  const auto sums = manifest.at("weights_of").get<std::map<std::string, std::string>>();
  for (auto& [name, tensor] : weights.by_name) {
    const auto found = forms.find(name);
    if (verify) {
      const std::string& stated = sums.at(name);
      if (found != forms.end())
        tensor = checked_later(tensor, name, stated, weights.path);
      else if (checksum_of(*tensor) != stated)
        refuse_weight(name, weights.path);
    }
    if (found != forms.end()) tensor = tensor->with(std::move(found->second));
  }
}

}  // namespace

bool add_prepared_forms(const fs::path& directory, PackageWeights& weights, bool verify) {
  std::error_code ignored;
  if (!fs::is_directory(directory / folder_name, ignored)) return false;
  for (const std::string& device : Device::names()) {
    const std::string made_for = Device::get(device).backend().takes_forms();
    const fs::path place = stem(directory, device, made_for);
    if (made_for.empty() || !fs::exists(with(place, ".json"))) continue;
    try {
      const Json manifest = read_manifest(with(place, ".json"), check_prepared);
      if (manifest.value("version", Json()) != forms_version || text_of(manifest, "for") != made_for ||
          text_of(manifest, "weights") != weights.checksum)
        continue;
      give(weights, forms_in(manifest, with(place, ".safetensors"), verify), manifest, verify);
      return true;
    } catch (const std::exception& error) {
      if (std::string(error.what()).starts_with(weights.path.string())) throw;
      throw PackageError(cat(place.string(), ".json, which holds the weights prepared for device ", device,
                             ", is damaged: ", error.what(), "; remove it or prepare the package again"));
    }
  }
  return false;
}

Preparation prepare_package(const fs::path& directory, const std::vector<std::map<std::string, TensorType>>& types,
                            Device& device) {
  device.check_usable();
  const std::string made_for = device.backend().takes_forms();
  if (made_for.empty())
    throw UnsupportedError(cat("[prepare] device ", device.name(), " cannot prepare constants ahead of a run"));
  PackageWeights weights;
  const PackageContents contents = load_package(directory, {.verify = true, .prepared = false}, &weights);
  std::map<std::string, std::string> sums;
  for (const auto& [name, tensor] : weights.by_name) sums[name] = checksum_of(*tensor);
  DeviceGraph graph(contents.graph, device);
  std::vector<std::shared_ptr<Executable>> executables;  // keeps the forms alive
  for (const auto& of_inputs : types) executables.push_back(compile(contents, graph, of_inputs));
  const std::vector<Gathered> gathered = gather(device.backend(), weights);
  if (gathered.empty())
    throw UnsupportedError(cat("[prepare] device ", device.name(), " uses all constants of ", directory.string(),
                               " unchanged, so there is nothing to prepare; weights are constants only in a model "
                               "that was optimized for inference"));
  const fs::path place = stem(directory, device.name(), made_for);
  Preparation made{with(place, ".safetensors"), made_for, gathered.size(), 0};
  Json of = Json::array();
  for (size_t i = 0; i < gathered.size(); ++i) {
    of.push_back({{"weight", gathered[i].weight},
                  {"form", gathered[i].form},
                  {"tensor", std::to_string(i)},
                  {"bytes", gathered[i].bytes.count}});
    made.bytes += gathered[i].bytes.count;
  }
  try {
    fs::create_directories(directory / folder_name);
    fs::remove(with(place, ".json"));  // Remove the manifest first; without it, readers ignore the forms.
    write_safetensors(made.file, padded(gathered));
  } catch (const fs::filesystem_error& error) {
    throw PackageError(cat(place.string(), " cannot be written: ", error.code().message()));
  }
  write_manifest(with(place, ".json"), {{"format", forms_format},
                                        {"version", forms_version},
                                        {"device", device.name()},
                                        {"for", made_for},
                                        {"weights", weights.checksum},
                                        {"header", checksum_of_header(*weights.file)},
                                        {"weights_of", Json(sums)},
                                        {"forms", checksums_of_pieces(*MappedFile::open(made.file, largest_forms))},
                                        {"of", std::move(of)}});
  return made;
}

}  // namespace mpsgraph::runtime
