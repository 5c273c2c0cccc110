// Builds the declarations that precede the user's kernel, packs its arguments as bytes, and encodes it.
#include "backends/metal/custom.h"

#include <algorithm>
#include <cstring>

#include "backends/metal/array_uses.h"
#include "backends/metal/guarded.h"
#include "backends/metal/lowering.h"

namespace mpsgraph::metal {
namespace {

// Builds the declarations of the arguments and their values, in the same order. Each element takes four bytes.
class Arguments {
 public:
  void declare(const std::string& type, const std::string& name, size_t count, bool is_list) {
    text_ += cat("  ", type, " ", name);
    if (is_list) text_ += cat("[", std::max<size_t>(count, 1), "]");
    text_ += ";\n";
    if (is_list && count == 0) add(int32_t{0});
  }
  template <class T>
  void add(T value) {
    static_assert(sizeof(T) == 4);
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + 4);
  }
  const std::string& text() const { return text_; }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::string text_;
  std::vector<std::byte> bytes_;
};

int32_t narrow(int64_t value, const CustomSite& site, std::string_view what) {
  if (value < INT32_MIN || value > INT32_MAX)
    throw UnsupportedError(
        cat("[", site.name, "] on the Metal device: ", what, " must fit into a 32-bit integer, got ", value));
  return static_cast<int32_t>(value);
}

Arguments arguments_of(const CustomSite& site) {
  Arguments all;
  for (const auto& [name, value] : site.attributes.items()) {
    if (const auto* flag = std::get_if<bool>(&value)) {
      all.declare("int", name, 1, false);
      all.add(int32_t{*flag});
    } else if (const auto* integer = std::get_if<int64_t>(&value)) {
      all.declare("int", name, 1, false);
      all.add(narrow(*integer, site, cat("attribute ", name)));
    } else if (const auto* real = std::get_if<double>(&value)) {
      all.declare("float", name, 1, false);
      all.add(static_cast<float>(*real));
    } else if (const auto* list = std::get_if<Ints>(&value)) {
      all.declare("int", name, list->size(), true);
      for (const int64_t one : *list) all.add(narrow(one, site, cat("attribute ", name)));
    }
  }
  const auto sizes = [&](const char* role, const std::vector<TensorType>& types) {
    for (size_t i = 0; i < types.size(); ++i) {
      const std::string name = cat(role, i, "_shape");
      all.declare("int", name, types[i].shape.dims().size(), true);
      for (const int64_t size : types[i].shape.dims()) all.add(narrow(size, site, name));
    }
  };
  sizes("operand", site.operands);
  sizes("result", site.results);
  return all;
}

std::string_view metal_name(DType dtype, const CustomSite& site) {
  switch (dtype) {
    case DType::float32: return "float";
    case DType::float16: return "half";
    case DType::bfloat16: return "bfloat";
    case DType::int8: return "char";
    case DType::int16: return "short";
    case DType::int32: return "int";
    case DType::int64: return "long";
    case DType::uint8: return "uchar";
    case DType::uint16: return "ushort";
    case DType::uint32: return "uint";
    case DType::uint64: return "ulong";
    case DType::boolean: return "bool";
    default:
      throw UnsupportedError(
          cat("[", site.name, "] on the Metal device: ", site.where, " has dtype ", dtype,
              ", which the Metal shading language does not support; cast it, or use device=\"cpu\""));
  }
}

MTLSize threads_of(const CustomOperation::MetalKernel& kernel, const CustomSite& site) {
  std::array<int64_t, 3> count{site.results.empty() ? 1 : site.results[0].shape.elements(), 1, 1};
  if (kernel.threads) count = kernel.threads(site);
  for (const int64_t one : count)
    if (one < 0 || one > INT32_MAX)
      throw ShapeError(cat("[", site.name, "] on the Metal device: ", site.where,
                           " must request from 0 to 2147483647 threads along each axis, got ", one));
  return {static_cast<NSUInteger>(count[0]), static_cast<NSUInteger>(count[1]), static_cast<NSUInteger>(count[2])};
}

}  // namespace

std::string MetalKernel::declarations(const CustomSite& site) {
  std::string text = "#include <metal_stdlib>\nusing namespace metal;\n";
  for (size_t i = 0; i < site.operands.size(); ++i)
    text += cat("typedef ", metal_name(site.operands[i].dtype, site), " operand", i, "_type;\n");
  for (size_t i = 0; i < site.results.size(); ++i)
    text += cat("typedef ", metal_name(site.results[i].dtype, site), " result", i, "_type;\n");
  const std::string members = arguments_of(site).text();
  return text + "struct Arguments {\n" + (members.empty() ? "  int nothing;\n" : members) + "};\n#line 1\n";
}

MetalKernel::MetalKernel(MetalDevice& device, const CustomOperation& operation, std::shared_ptr<const CustomSite> site)
    : device_(device), site_(std::move(site)) {
  const std::string front = cat("[", operation.name, "] ");
  if (!operation.metal)
    throw UnsupportedError(cat(front, "on the Metal device: ", site_->where,
                               " has no kernel for the GPU; implement the ",
                               "operation in the Metal shading language, or use device=\"cpu\""));
  threads_ = threads_of(*operation.metal, *site_);
  std::vector<std::byte> bytes = arguments_of(*site_).bytes();
  bytes.resize(std::max<size_t>(bytes.size(), 4));
  arguments_ = [NSData dataWithBytes:bytes.data() length:bytes.size()];
  if (bytes.size() > 4096)  // limit of setBytes
    throw UnsupportedError(
        cat(front, "on the Metal device: ", site_->where, " has ", bytes.size(),
            " bytes of attributes and sizes, but the limit is 4096; pass lists as operands instead"));
  const std::string text = declarations(*site_) + operation.metal->source;
  NSError* error = nil;
  id<MTLLibrary> library = [device.device newLibraryWithSource:@(text.c_str()) options:nil error:&error];
  if (!library)
    throw GraphError(cat(front, "the Metal source does not compile: ", text_of(error.localizedDescription)));
  id<MTLFunction> function = [library newFunctionWithName:@(operation.metal->function.c_str())];
  if (!function) throw GraphError(cat(front, "the Metal source has no kernel named '", operation.metal->function, "'"));
  pipeline_ = [device.device newComputePipelineStateWithFunction:function error:&error];
  if (!pipeline_)
    throw GraphError(cat(front, "the kernel cannot run on this device: ", text_of(error.localizedDescription)));
}

void MetalKernel::encode(MetalCommands& commands, const std::vector<runtime::NDArray>& operands,
                         const std::vector<runtime::NDArray>& results) const {
  ArrayUses uses(device_);
  std::vector<BufferView> views;
  for (const auto& array : operands) views.push_back(uses.view(array, Access::reads));
  for (const auto& array : results) views.push_back(uses.view(array, Access::writes));
  uses.begin(commands);
  if (threads_.width == 0 || threads_.height == 0 || threads_.depth == 0) return;
  MPSCommandBuffer* buffer = commands.this_program();
  id<MTLComputeCommandEncoder> encoder = [buffer computeCommandEncoder];
  [encoder setComputePipelineState:pipeline_];
  for (size_t i = 0; i < views.size(); ++i) [encoder setBuffer:views[i].buffer offset:views[i].offset atIndex:i];
  [encoder setBytes:arguments_.bytes length:arguments_.length atIndex:views.size()];
  const NSUInteger most = pipeline_.maxTotalThreadsPerThreadgroup;
  const NSUInteger width = std::min<NSUInteger>(threads_.width, most);
  const NSUInteger height = std::min<NSUInteger>(threads_.height, std::max<NSUInteger>(most / width, 1));
  const NSUInteger depth = std::min<NSUInteger>(threads_.depth, std::max<NSUInteger>(most / (width * height), 1));
  const MTLSize group{width, height, depth};
  [encoder dispatchThreads:threads_ threadsPerThreadgroup:group];
  [encoder endEncoding];
}

namespace {

GraphTensors lower_custom(Lowering& l) {
  l.unsupported(cat("custom operation '", l.operation.name,
                    "' is inside a control-flow block or a call, where a program ",
                    "cannot be split to run its kernel; move it outside, or use device=\"cpu\""));
}

}  // namespace

const Lowerings custom_lowerings("custom", [] { define_lowering("custom", lower_custom); });

}  // namespace mpsgraph::metal
