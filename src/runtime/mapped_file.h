// MappedFile: a file mapped into memory rather than read, and write_file(), which writes a file completely or not at
// all.
//
// The pages of a mapped file are loaded on first access. The mapping remains valid if the file is renamed or removed.
// As with every mapping, the process is killed if it accesses a part of the file that another process has truncated.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>

namespace mpsgraph::runtime {

class MappedFile : public std::enable_shared_from_this<MappedFile> {
 public:
  // Maps the file at `path` for reading. Throws PackageError if it is missing, is not a regular file, or is larger than
  // `limit` bytes.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path, size_t limit);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // Loads all pages of a range at once where the system supports it, which is cheaper than a page fault for every few
  // pages.
  void populate(size_t offset, size_t bytes) const;
  // Reads a range of the file with system calls instead of through the mapping. This causes no page faults and leaves
  // no pages resident.
  void read(size_t offset, size_t bytes, void* destination) const;

 private:
  MappedFile() = default;
  int descriptor_ = -1;
  const std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// Writes a file atomically: `write` appends the bytes to a temporary file in the same directory, which is flushed to
// disk and then renamed to `path`. Throws PackageError on failure and leaves any existing file at `path` unchanged.
using Append = std::function<void(const void* data, size_t bytes)>;
void write_file(const std::filesystem::path& path, const std::function<void(const Append&)>& write);

// Moves the directory `made` to `place`, which may exist and is then replaced in one step: at any time, even after a
// crash, other processes find either the old or the new contents. Both paths must be in one directory. If the system
// cannot exchange two directories, there is a moment without a directory at `place`. Throws PackageError.
void replace_directory(const std::filesystem::path& made, const std::filesystem::path& place);

// Returns a number that identifies the current contents of a path and changes when they are replaced; 0 if the path
// does not exist.
uint64_t identity_of(const std::filesystem::path& path);

}  // namespace mpsgraph::runtime
