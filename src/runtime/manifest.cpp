// Manifests. A manifest's checksum is computed over its text with zeros in place of the checksum itself.
#include "runtime/manifest.h"

#include "mpsgraph/core/errors.h"
#include "runtime/checksum.h"
#include "runtime/mapped_file.h"

namespace mpsgraph::runtime {

namespace {

constexpr size_t largest_manifest = size_t{1} << 26;
constexpr std::string_view blank = "0000000000000000";

}  // namespace

void write_manifest(const std::filesystem::path& path, Json manifest) {
  // The checksum comes first, so that no earlier text can be mistaken for the checksum.
  Json sealed{{"checksum", blank}};
  sealed.update(manifest);
  std::string text;
  try {
    text = to_text(sealed, 1) + '\n';
  } catch (const Json::exception& error) {
    throw PackageError(cat("a name is not valid UTF-8: ", error.what()));
  }
  text.replace(text.find(blank), blank.size(), to_hex(checksum(text.data(), text.size())));
  write_file(path, [&](const Append& append) { append(text.data(), text.size()); });
}

Json read_manifest(const std::filesystem::path& path, const std::function<void(const Json&)>& check) {
  const auto file = MappedFile::open(path, largest_manifest);
  std::string text(reinterpret_cast<const char*>(file->data()), file->bytes());
  Json manifest = parse_json(text);
  if (!manifest.is_object()) throw PackageError("the manifest must be a JSON object");
  check(manifest);
  if (!manifest.contains("checksum") || !manifest["checksum"].is_string())
    throw PackageError("the manifest must have a member 'checksum' that is a string");
  const std::string stated = manifest["checksum"].get<std::string>();
  const size_t place = text.find(stated);
  if (stated.size() == blank.size() && place != text.npos) text.replace(place, blank.size(), blank);
  if (stated != to_hex(checksum(text.data(), text.size())))
    throw PackageError("the checksum of the manifest does not match its contents");
  return manifest;
}

}  // namespace mpsgraph::runtime
