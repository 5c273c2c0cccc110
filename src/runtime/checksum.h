// XXH64, a checksum that finds damage and keeps pace with memory; it is no protection against forgery.
//
// The algorithm is Yann Collet's, from its specification; `xxhsum -H1` computes the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace mpsgraph::runtime {

uint64_t checksum(const void* data, size_t bytes);
std::string to_hex(uint64_t value);  // 16 digits

}  // namespace mpsgraph::runtime
