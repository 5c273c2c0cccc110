// XXH64: four accumulators of eight bytes each consume the bulk of the data and are combined. Then the remaining bytes
// are added, and a final step mixes all bits.
#include "runtime/checksum.h"

#include <array>
#include <bit>
#include <charconv>
#include <cstring>

#include "mpsgraph/core/errors.h"

namespace mpsgraph::runtime {

namespace {

constexpr uint64_t prime1 = 0x9E3779B185EBCA87, prime2 = 0xC2B2AE3D27D4EB4F, prime3 = 0x165667B19E3779F9,
                   prime4 = 0x85EBCA77C2B2AE63, prime5 = 0x27D4EB2F165667C5;

static_assert(std::endian::native == std::endian::little, "words are read in memory order");

template <class Word>
uint64_t read(const std::byte*& at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  at += sizeof word;
  return word;
}

uint64_t round(uint64_t lane, uint64_t word) { return std::rotl(lane + word * prime2, 31) * prime1; }

}  // namespace

uint64_t checksum(const void* data, size_t bytes) {
  const auto* at = static_cast<const std::byte*>(data);
  const std::byte* const end = at + bytes;
  uint64_t hash = prime5;
  if (bytes >= 32) {
    std::array<uint64_t, 4> lanes{prime1 + prime2, prime2, 0, 0 - prime1};
    while (end - at >= 32)
      for (uint64_t& lane : lanes) lane = round(lane, read<uint64_t>(at));
    hash = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) + std::rotl(lanes[3], 18);
    for (uint64_t lane : lanes) hash = (hash ^ round(0, lane)) * prime1 + prime4;
  }
  hash += bytes;
  while (end - at >= 8) hash = std::rotl(hash ^ round(0, read<uint64_t>(at)), 27) * prime1 + prime4;
  if (end - at >= 4) hash = std::rotl(hash ^ read<uint32_t>(at) * prime1, 23) * prime2 + prime3;
  while (at != end) hash = std::rotl(hash ^ read<uint8_t>(at) * prime5, 11) * prime1;
  hash = (hash ^ hash >> 33) * prime2;
  hash = (hash ^ hash >> 29) * prime3;
  return hash ^ hash >> 32;
}

std::string to_hex(uint64_t value) {
  std::string digits(16, '0');
  for (size_t i = 16; i-- > 0; value >>= 4) digits[i] = "0123456789abcdef"[value & 15];
  return digits;
}

uint64_t from_hex(const std::string& digits) {
  uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, value, 16);
  if (digits.size() != 16 || at != end || error != std::errc())
    throw PackageError(cat("a checksum must be 16 hexadecimal digits, got '", digits, "'"));
  return value;
}

std::string checksum_of(const MappedFile& file) { return to_hex(checksum(file.data(), file.bytes())); }

}  // namespace mpsgraph::runtime
