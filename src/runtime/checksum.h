// XXH64, a checksum that finds damage and keeps pace with memory; it is no protection against forgery.
//
// The algorithm is Yann Collet's, from its specification; `xxhsum -H1` computes the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/mapped_file.h"

namespace mpsgraph::runtime {

uint64_t checksum(const void* data, size_t bytes);
std::string to_hex(uint64_t value);  // 16 digits
uint64_t from_hex(const std::string& digits);  // PackageError for what is none
std::string checksum_of(const MappedFile& file);  // its digits

}  // namespace mpsgraph::runtime
