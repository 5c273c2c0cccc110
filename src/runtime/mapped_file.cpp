// POSIX implementation of MappedFile and write_file(). Every error names the file and includes the system's reason.
#include "runtime/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/syscall.h>
#endif

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>

#include "mpsgraph/core/errors.h"
#include "mpsgraph/core/limits.h"

namespace mpsgraph::runtime {

namespace {

[[noreturn]] void fail(const std::filesystem::path& path, std::string_view what) {
  throw PackageError(cat(path.string(), " ", what, ": ", std::strerror(errno)));
}

// Owns a file descriptor and closes it.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

// Makes renames in a directory durable, where the file system supports that.
void sync_directory(const std::filesystem::path& path) {
  const Descriptor directory{::open(path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (directory.number >= 0) (void)::fsync(directory.number);
}

// Exchanges two paths in one step. Returns false if the system or the file system does not support that.
bool exchange([[maybe_unused]] const std::filesystem::path& a, [[maybe_unused]] const std::filesystem::path& b) {
#if defined(__linux__) && defined(SYS_renameat2)
  constexpr unsigned int exchanged = 1 << 1;  // RENAME_EXCHANGE
  return ::syscall(SYS_renameat2, AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), exchanged) == 0;
#elif defined(__APPLE__) && defined(RENAME_SWAP)
  return ::renamex_np(a.c_str(), b.c_str(), RENAME_SWAP) == 0;
#else
  return false;
#endif
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path, size_t limit) {
  std::shared_ptr<MappedFile> file(new MappedFile);
  // O_NONBLOCK prevents blocking if the path is a pipe.
  file->descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file->descriptor_ < 0) fail(path, "cannot be opened");
  struct stat status{};
  if (::fstat(file->descriptor_, &status) != 0) fail(path, "cannot be read");
  if (!S_ISREG(status.st_mode)) throw PackageError(cat(path.string(), " is not a regular file"));
  if (static_cast<uint64_t>(status.st_size) > limit)
    throw PackageError(cat(path.string(), " has ", status.st_size, " bytes, more than the limit of ", limit, " bytes"));
  file->bytes_ = static_cast<size_t>(status.st_size);
  count_bytes(file->bytes_, path.string());
  if (file->bytes_ == 0) return file;
  void* memory = ::mmap(nullptr, file->bytes_, PROT_READ, MAP_PRIVATE, file->descriptor_, 0);
  if (memory == MAP_FAILED) fail(path, "cannot be mapped into memory");
  file->data_ = static_cast<const std::byte*>(memory);
  return file;
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), bytes_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

void MappedFile::populate([[maybe_unused]] size_t offset, [[maybe_unused]] size_t bytes) const {
#ifdef MADV_POPULATE_READ
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t begin = offset / page * page;
  // System kernels without MADV_POPULATE_READ return an error, which is harmless: the pages are then loaded on first
  // access.
  (void)::madvise(const_cast<std::byte*>(data_) + begin, offset + bytes - begin, MADV_POPULATE_READ);
#endif
}

void MappedFile::read(size_t offset, size_t bytes, void* destination) const {
  auto* to = static_cast<std::byte*>(destination);
  while (bytes > 0) {
    const ssize_t count = ::pread(descriptor_, to, std::min(bytes, size_t{1} << 30), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      throw DeviceError(cat("cannot read a mapped file: ",
                            count < 0 ? std::strerror(errno) : "the file was truncated after it had been opened"));
    to += count;
    offset += static_cast<size_t>(count);
    bytes -= static_cast<size_t>(count);
  }
}

void write_file(const std::filesystem::path& path, const std::function<void(const Append&)>& write) {
  std::filesystem::path temporary = path;
  temporary += cat(".", std::random_device{}());
  const Descriptor file{::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)};
  if (file.number < 0) fail(path, "cannot be written");
  try {
    write([&](const void* data, size_t bytes) {
      const char* at = static_cast<const char*>(data);
      while (bytes > 0) {
        const ssize_t written = ::write(file.number, at, std::min(bytes, size_t{1} << 30));
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) fail(path, "cannot be written");
        at += written;
        bytes -= static_cast<size_t>(written);
      }
    });
    if (::fsync(file.number) != 0) fail(path, "cannot be written");
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail(path, "cannot be written");
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_directory(path.parent_path());
}

void replace_directory(const std::filesystem::path& made, const std::filesystem::path& place) {
  namespace fs = std::filesystem;
  sync_directory(made);
  if (::rename(made.c_str(), place.c_str()) != 0) {  // succeeds only if `place` is missing or empty
    if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) fail(place, "cannot be replaced");
    if (!exchange(made, place)) {
      fs::path aside = made;
      aside += ".old";
      if (::rename(place.c_str(), aside.c_str()) != 0) fail(place, "cannot be replaced");
      if (::rename(made.c_str(), place.c_str()) != 0) {
        const int reason = errno;
        (void)::rename(aside.c_str(), place.c_str());
        errno = reason;
        fail(place, "cannot be replaced");
      }
      (void)::rename(aside.c_str(), made.c_str());
    }
    std::error_code ignored;  // the new contents are in place even if the old ones cannot be removed
    fs::remove_all(made, ignored);
  }
  sync_directory(place.parent_path());
}

uint64_t identity_of(const std::filesystem::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return 0;
#ifdef __APPLE__
  const timespec& changed = status.st_ctimespec;
#else
  const timespec& changed = status.st_ctim;
#endif
  uint64_t hash = 1;
  for (const uint64_t part : {static_cast<uint64_t>(status.st_dev), static_cast<uint64_t>(status.st_ino),
                              static_cast<uint64_t>(changed.tv_sec), static_cast<uint64_t>(changed.tv_nsec)})
    hash = (hash ^ part) * 0x9e3779b97f4a7c15u;
  return hash | 1;
}

}  // namespace mpsgraph::runtime
