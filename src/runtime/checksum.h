// XXH64, a checksum that detects damage at the speed of memory. It does not protect against forgery.
//
// The algorithm is Yann Collet's, implemented from its specification; `xxhsum -H1` computes the same value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/mapped_file.h"

namespace mpsgraph::runtime {

uint64_t checksum(const void* data, size_t bytes);
std::string to_hex(uint64_t value);  // returns 16 hexadecimal digits
uint64_t from_hex(const std::string& digits);  // throws PackageError for malformed digits
std::string checksum_of(const MappedFile& file);  // returns the checksum as hexadecimal digits

}  // namespace mpsgraph::runtime
