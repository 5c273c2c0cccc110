// MappedFile: the bytes of a file as memory, without reading them; and files that are written whole or not at all.
//
// Pages come from the file when they are touched. The mapping stays valid when the file is renamed or removed; a file
// that somebody shortens meanwhile ends the process, as with every mapping.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>

namespace mpsgraph::runtime {

class MappedFile : public std::enable_shared_from_this<MappedFile> {
 public:
  // PackageError for what is missing, no regular file, or larger than `limit`.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path, size_t limit);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // Maps the pages of a part at once, where the system can: cheaper than a fault for each few of them.
  void populate(size_t offset, size_t bytes) const;
  // Reads a part of it past the mapping: neither a page fault for each page, nor pages that stay.
  void read(size_t offset, size_t bytes, void* destination) const;

 private:
  MappedFile() = default;
  int descriptor_ = -1;
  const std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// Writes beside the place, flushes to the disk and renames. `write` is given a function that appends bytes.
// PackageError when it cannot be done; then what was there before still is.
using Append = std::function<void(const void* data, size_t bytes)>;
void write_file(const std::filesystem::path& path, const std::function<void(const Append&)>& write);

}  // namespace mpsgraph::runtime
