// Storage for packed constants: a table of those in use, and blocks large enough for huge pages, each shared by several
// constants. Weights packed in a package file arrive with the constants, as constant forms.
#include "backends/cpu/prepacked_weights.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "backends/cpu/amx.h"
#include "backends/cpu/elementwise/tile_functions.h"
#include "backends/cpu/instruction_set.h"
#include "backends/cpu/lowering.h"
#include "backends/cpu/parallel.h"
#include "mpsgraph/runtime/ndarray.h"
#include "runtime/backend.h"

namespace mpsgraph::cpu {

extern const char* const engine_identity;  // cmake/engine_identity.cmake

namespace {

constexpr size_t block_bytes = size_t{8} << 20, line = 64;

struct Block {
  std::shared_ptr<runtime::Buffer> buffer;
  size_t used = 0;
};

struct Packed {
  std::weak_ptr<const std::byte> bytes;
  size_t count;
};

struct Table {
  std::mutex mutex;
  std::map<std::pair<const std::byte*, std::string>, Packed> held;
  std::weak_ptr<Block> open;  // current block with free space; expires when unused
};

Table& kept_weights() {
  static Table* const one = new Table;  // never destroyed, so that it outlives static destructors
  return *one;
}

// Allocate bytes within a block. The block lives as long as the returned pointer.
std::shared_ptr<std::byte> allocate(Table& table, size_t bytes) {
  bytes = (bytes + line - 1) / line * line;
  std::shared_ptr<Block> block = table.open.lock();
  if (!block || block->buffer->bytes() - block->used < bytes) {
    block = std::make_shared<Block>();
    block->buffer = runtime::Buffer::allocate(std::max(bytes, block_bytes), runtime::MemoryUse::packed_weights);
    table.open = block;
  }
  std::byte* const place = block->buffer->data() + block->used;
  block->used += bytes;
  return {block, place};
}

}  // namespace

ConstantPtr constant_operand(const Operation& operation, size_t i) {
  const Operation* maker = operation.input(i)->operation;
  while (is_alias(*maker)) maker = maker->input(0)->operation;
  if (!maker->is("constant")) return nullptr;
  const ConstantPtr& value = maker->attributes.data("value");
  return value->is_splat() ? nullptr : value;
}

ConstantWeights Lowering::constant(size_t i) {
  ConstantPtr value = constant_operand(operation(), i);
  const DType dtype = value ? value->dtype() : DType::float32;
  return {std::move(value), dtype, {}};
}

namespace {

void convert_into(const ConstantWeights& constant, std::byte* to) {
  const DType from = constant.value->dtype();
  const TileFunction function = cast_function(from, constant.dtype);
  parallel_for(constant.value->elements(), 32768, [&](int64_t begin, int64_t end) {
    const void* x = constant.value->bytes() + static_cast<size_t>(begin) * size_of(from);
    function(to + static_cast<size_t>(begin) * size_of(constant.dtype), &x, end - begin);
  });
}

}  // namespace

std::shared_ptr<const std::byte> ConstantWeights::elements() const {
  if (value->dtype() == dtype) return {value, value->bytes()};
  const auto buffer = runtime::Buffer::allocate(static_cast<size_t>(value->elements()) * size_of(dtype));
  convert_into(*this, buffer->data());
  return {buffer, buffer->data()};
}

PackedPtr prepacked(const ConstantWeights& constant) {
  if (constant.value->dtype() == constant.dtype) return constant.elements();
  const size_t bytes = static_cast<size_t>(constant.value->elements()) * size_of(constant.dtype);
  return prepacked(constant, "elements", bytes,
                   [&](const std::byte* from, std::byte* to) { std::memcpy(to, from, bytes); });
}

PackedPtr prepacked(const ConstantWeights& weights, const std::string& layout, size_t bytes,
                    const std::function<void(const std::byte*, std::byte*)>& pack) {
  const ConstantPtr& constant = weights.value;
  const std::string name = cat(layout, " of ", weights.dtype);
  if (const ConstantForm* before = constant->form(name); before && before->count == bytes) {
    if (weights.packed) weights.packed();
    return before->bytes;
  }
  Table& all = kept_weights();
  const std::lock_guard lock(all.mutex);
  const auto key = std::make_pair(constant->bytes(), name);
  if (const auto found = all.held.find(key); found != all.held.end())
    if (PackedPtr packed = found->second.bytes.lock()) return packed;
  std::erase_if(all.held, [](const auto& item) { return item.second.bytes.expired(); });
  const std::shared_ptr<std::byte> place = allocate(all, bytes);
  pack(weights.elements().get(), place.get());
  // The holder keeps the constant alive, so that no other constant can reuse its address, which is the key of the
  // table.
  struct Holder {
    std::shared_ptr<std::byte> place;
    ConstantPtr constant;
  };
  PackedPtr packed(std::make_shared<Holder>(Holder{place, constant}), place.get());
  all.held[key] = {packed, bytes};
  return packed;
}

std::string packed_for() { return cat(engine_identity, " ", instruction_set(), has_amx() ? " and AMX" : ""); }

std::vector<runtime::DeviceForm> packed_weights() {
  Table& all = kept_weights();
  const std::lock_guard lock(all.mutex);
  std::vector<runtime::DeviceForm> forms;
  for (const auto& [key, packed] : all.held)
    if (PackedPtr bytes = packed.bytes.lock())
      forms.push_back({key.first, key.second, {std::move(bytes), packed.count}});
  return forms;
}

}  // namespace mpsgraph::cpu
