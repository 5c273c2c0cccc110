// Reading and writing the header of a safetensors file, and validating the data against it.
#include "runtime/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <set>

#include "mpsgraph/core/errors.h"
#include "runtime/json.h"

namespace mpsgraph::runtime {

namespace {

constexpr uint64_t largest_header = 100'000'000;  // limit in bytes, set by the safetensors format
// alignment of the start of the data, in the file and thus in the mapped memory
constexpr size_t alignment = 64;
// Tensors of at least this many bytes are read with a system call instead of through the mapping.
constexpr size_t worth_reading = 65536;
constexpr std::string_view no_description = "the description must consist of exactly dtype, shape and data_offsets";

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

std::string_view name_in_file(DType dtype) {
  switch (dtype) {
    case DType::float32: return "F32";
    case DType::float16: return "F16";
    case DType::bfloat16: return "BF16";
    case DType::float64: return "F64";
    case DType::int8: return "I8";
    case DType::int16: return "I16";
    case DType::int32: return "I32";
    case DType::int64: return "I64";
    case DType::uint8: return "U8";
    case DType::uint16: return "U16";
    case DType::uint32: return "U32";
    case DType::uint64: return "U64";
    case DType::boolean: return "BOOL";
    case DType::complex64: return "C64";
    case DType::complex128: return "C128";
  }
  throw PackageError("the dtype has no name in the safetensors format");
}

DType dtype_in_file(const std::string& text) {
  for (int i = 0; i < dtype_count; ++i)
    if (const auto dtype = static_cast<DType>(i); name_in_file(dtype) == text) return dtype;
  throw PackageError(cat("the dtype '", text, "' is not supported by mpsgraph"));
}

// Parses the header into a map from names to members. Members are moved out as they are parsed, because looking up a
// member of a Json object takes linear time. Rejects duplicate keys, which the format forbids but a JSON parser would
// accept.
std::map<std::string, Json> parse_header(std::string_view text) {
  using Event = Json::parse_event_t;
  std::map<std::string, Json> members;
  std::vector<std::set<std::string>> keys;  // keys of each object that is still open
  std::string name;                         // name of the top-level member that is being parsed
  const auto watch = [&](int depth, Event event, Json& parsed) {
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key) {
      const auto key = parsed.get<std::string>();
      if (!keys.back().insert(key).second) throw PackageError(cat("'", key, "' appears twice in the header"));
      if (depth == 1) name = key;
    }
    const bool ends = event == Event::object_end || event == Event::array_end || event == Event::value;
    if (!ends || depth != 1 || keys.empty() || name == "__metadata__") return true;
    if (event != Event::object_end) throw PackageError(cat("'", name, "' ", no_description));
    members[name] = std::move(parsed);
    return false;  // The member was moved out, so the parsed header does not keep it.
  };
  if (!parse_json(text, watch).is_object()) throw PackageError("the header must be a JSON object");
  return members;
}

struct Extent {
  uint64_t begin, end;
  std::string name;
};

uint64_t offset(const Json& value) {
  if (!value.is_number_unsigned()) throw PackageError("data_offsets must be non-negative integers");
  return value.get<uint64_t>();
}

TensorType type_of(const Json& entry) {
  Dims dims;
  const Json& shape = entry.at("shape");
  if (!shape.is_array() || shape.size() > static_cast<size_t>(max_rank))
    throw PackageError(cat("the shape must be a list of at most ", max_rank, " sizes"));
  for (const Json& size : shape) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > uint64_t{1} << 62)
      throw PackageError("the shape must consist of non-negative integers up to 2^62");
    dims.push_back(size.get<int64_t>());
  }
  return {dtype_in_file(entry.at("dtype").get<std::string>()), Shape(std::move(dims))};
}

// Number of bytes of a tensor in the file. If the product of its sizes overflows, returns 2^64 - 1, which no file has.
uint64_t bytes_in_file(const TensorType& type) {
  const Dims& dims = type.shape.dims();
  if (std::ranges::find(dims, 0) != dims.end()) return 0;
  uint64_t bytes = size_of(type.dtype);
  for (const int64_t size : dims)
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) return ~uint64_t{0};
  return bytes;
}

// Reads the tensor that `entry` of the header describes. The file's data begins at byte `start`. `extent` receives the
// tensor's range of bytes.
ConstantPtr tensor(const std::shared_ptr<const MappedFile>& file, size_t start, const Json& entry, Extent& extent) {
  if (entry.size() != 3) throw PackageError(std::string(no_description));
  const TensorType type = type_of(entry);
  const Json& place = entry.at("data_offsets");
  if (!place.is_array() || place.size() != 2) throw PackageError("data_offsets must be a list of two integers");
  extent.begin = offset(place[0]);
  extent.end = offset(place[1]);
  const uint64_t bytes = bytes_in_file(type);
  if (extent.begin > extent.end || extent.end > file->bytes() - start || extent.end - extent.begin != bytes)
    throw PackageError(cat("data_offsets must cover ", bytes, " bytes within the ", file->bytes() - start,
                           " bytes of data, got ", extent.begin, " to ", extent.end));
  if ((start + extent.begin) % size_of(type.dtype) != 0)
    throw PackageError(cat("the data must be aligned to the element size of ", size_of(type.dtype), " bytes"));
  const std::byte* first = file->data() + start + extent.begin;
  if (type.dtype == DType::boolean && std::any_of(first, first + bytes, [](std::byte b) { return b > std::byte{1}; }))
    throw PackageError("the data of a BOOL tensor must contain only the bytes 0 and 1");
  ConstantData::Read read;
  if (bytes >= worth_reading) read = [file, at = start + extent.begin, bytes](void* to) { file->read(at, bytes, to); };
  return ConstantData::borrow(type.dtype, type.shape.dims(), first, std::const_pointer_cast<MappedFile>(file),
                              std::move(read));
}

void require_no_overlap(std::vector<Extent> extents) {
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
  for (size_t i = 1; i < extents.size(); ++i)
    if (extents[i].begin < extents[i - 1].end)
      throw PackageError(cat("the data of '", extents[i - 1].name, "' and '", extents[i].name, "' overlaps"));
}

std::map<std::string, ConstantPtr> read(const std::shared_ptr<const MappedFile>& file) {
  uint64_t length = 0;
  if (file->bytes() < sizeof length)
    throw PackageError(cat("the file must have at least ", sizeof length, " bytes, got ", file->bytes()));
  std::memcpy(&length, file->data(), sizeof length);
  if (length > largest_header || length > file->bytes() - sizeof length)
    throw PackageError(cat("the header should have ", length, " bytes, which is more than ",
                           length > largest_header ? "the format allows" : "the file has"));
  const char* text = reinterpret_cast<const char*>(file->data()) + sizeof length;
  std::map<std::string, ConstantPtr> tensors;
  std::vector<Extent> extents;
  for (const auto& [name, entry] : parse_header({text, length})) {
    Extent extent{0, 0, name};
    try {
      tensors[name] = tensor(file, sizeof length + length, entry, extent);
    } catch (const Error& error) {
      throw PackageError(cat("tensor '", name, "': ", error.what()));
    }
    if (extent.begin < extent.end) extents.push_back(std::move(extent));
  }
  require_no_overlap(std::move(extents));
  return tensors;
}

}  // namespace

std::map<std::string, ConstantPtr> read_safetensors(const std::shared_ptr<const MappedFile>& file,
                                                    const std::filesystem::path& path) {
  try {
    return read(file);
  } catch (const PackageError& error) {
    throw PackageError(cat(path.string(), " is damaged: ", error.what()));
  } catch (const Json::exception& error) {
    throw PackageError(cat(path.string(), " is damaged; its header cannot be read: ", error.what()));
  }
}

void write_safetensors(const std::filesystem::path& path, std::vector<TensorToWrite> tensors) {
  // The format allows no gaps between tensors. Tensors with larger elements are written first, so that all are aligned.
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorToWrite& a, const TensorToWrite& b) {
    return size_of(a.type.dtype) > size_of(b.type.dtype);
  });
  Json header = Json::object();
  uint64_t at = 0;
  for (const TensorToWrite& tensor : tensors) {
    const uint64_t end = at + static_cast<uint64_t>(tensor.type.shape.elements()) * size_of(tensor.type.dtype);
    header[tensor.name] = {
        {"dtype", name_in_file(tensor.type.dtype)}, {"shape", tensor.type.shape.dims()}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text;
  try {
    text = to_text(header);
  } catch (const Json::exception& error) {
    throw PackageError(cat(path.string(), " cannot be written: a name is not valid UTF-8: ", error.what()));
  }
  text.append((alignment - (sizeof(uint64_t) + text.size()) % alignment) % alignment, ' ');
  const uint64_t length = text.size();
  if (length > largest_header)
    throw PackageError(cat(path.string(), " cannot be written: its header would have ", length,
                           " bytes, but the format allows at most ", largest_header));
  write_file(path, [&](const Append& append) {
    append(&length, sizeof length);
    append(text.data(), text.size());
    for (const TensorToWrite& tensor : tensors) tensor.write(append);
  });
}

}  // namespace mpsgraph::runtime
