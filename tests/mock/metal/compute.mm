// Compute kernels in the Metal Shading Language.
//
// The mock does not compile them. It scans the source for kernels, their buffer parameters, and unbalanced brackets,
// and runs a C function that a test registers for each kernel.
#include "metal/resource.h"

#include <map>
#include <regex>
#include <set>
#include <string>

#pragma clang diagnostic ignored "-Wprotocol"
#pragma clang diagnostic ignored "-Wobjc-protocol-property-synthesis"

using mock::misuse;

namespace {

constexpr NSUInteger most_threads_in_a_group = 1024;

std::mutex meanings_mutex;
std::map<std::string, mock_kernel> meanings;

struct KernelBuffer {
  NSUInteger index;
  bool is_written;  // device memory that is not const
  bool is_constant;  // constant memory, which setBytes fills
};

std::string text_of_source(NSString* text) {
  const char* bytes = text.UTF8String;
  return bytes ? bytes : "";
}

// Return the parameter list of each kernel in a source, by name.
std::map<std::string, std::string> kernels_in(const std::string& source) {
  static const std::regex pattern(R"(\bkernel\s+void\s+(\w+)\s*\(([^{]*)\)\s*\{)");
  std::map<std::string, std::string> found;
  for (std::sregex_iterator one(source.begin(), source.end(), pattern), end; one != end; ++one)
    found[(*one)[1]] = (*one)[2];
  return found;
}

std::vector<KernelBuffer> buffers_in(const std::string& parameters) {
  static const std::regex pattern(R"(([^,]*)\[\[\s*buffer\s*\(\s*(\d+)\s*\)\s*\]\])");
  std::vector<KernelBuffer> found;
  for (std::sregex_iterator one(parameters.begin(), parameters.end(), pattern), end; one != end; ++one) {
    const std::string type = (*one)[1];
    const auto has = [&](const char* word) {
      return std::regex_search(type, std::regex(std::string("\\b") + word + "\\b"));
    };
    found.push_back({std::stoul((*one)[2]), has("device") && !has("const"), has("constant")});
  }
  return found;
}

// Return the first error that a compiler would report, or an empty string if this scan finds none.
std::string fault_in(const std::string& source) {
  std::string open;
  int line = 1;
  const auto fault = [&](const std::string& words) {
    return "program_source:" + std::to_string(line) + ": error: " + words;
  };
  for (size_t i = 0; i < source.size(); ++i) {
    if (source.compare(i, 7, "#line 1") == 0) line = 0;
    const char c = source[i];
    if (c == '\n') ++line;
    if (c == '(' || c == '[' || c == '{') open.push_back(c);
    if (c != ')' && c != ']' && c != '}') continue;
    const char begun = c == ')' ? '(' : c == ']' ? '[' : '{';
    if (open.empty() || open.back() != begun) return fault(std::string("extraneous '") + c + "'");
    open.pop_back();
  }
  return open.empty() ? "" : fault(std::string("expected a bracket that closes '") + open.back() + "'");
}

void report_error(NSError** error, NSString* words) {
  if (error)
    *error = [NSError errorWithDomain:@"MTLLibraryErrorDomain" code:3 userInfo:@{NSLocalizedDescriptionKey : words}];
}

}  // namespace

extern "C" void mock_define_kernel(const char* function, mock_kernel meaning) {
  std::lock_guard lock(meanings_mutex);
  if (meaning)
    meanings[function] = meaning;
  else
    meanings.erase(function);
}

// --- functions -------------------------------------------------------------------------------------------------------

@interface MockFunction : NSObject <MTLFunction> {
 @package
  MockDevice* _device;
  NSString* _name;
  std::vector<KernelBuffer> _buffers;
}
@end

@implementation MockFunction
- (id<MTLDevice>)device {
  return _device;
}
- (NSString*)name {
  return _name;
}
@end

@implementation MockLibrary {
  MockDevice* _device;
  std::map<std::string, std::string> _kernels;
}
- (instancetype)initWithDevice:(MockDevice*)device source:(NSString*)source {
  if (!(self = [super init])) return nil;
  _device = device;
  _kernels = kernels_in(text_of_source(source));
  return self;
}
- (id<MTLDevice>)device {
  return _device;
}
- (NSArray<NSString*>*)functionNames {
  NSMutableArray<NSString*>* names = [NSMutableArray array];
  for (const auto& [name, parameters] : _kernels) [names addObject:@(name.c_str())];
  return names;
}
- (id<MTLFunction>)newFunctionWithName:(NSString*)name {
  const auto found = _kernels.find(text_of_source(name));
  if (found == _kernels.end()) return nil;
  MockFunction* function = [[MockFunction alloc] init];
  function->_device = _device;
  function->_name = name;
  function->_buffers = buffers_in(found->second);
  return function;
}
@end

MockLibrary* mock_library(MockDevice* device, NSString* source, NSError** error) {
  const std::string fault = fault_in(text_of_source(source));
  if (fault.empty()) return [[MockLibrary alloc] initWithDevice:device source:source];
  report_error(error, @(fault.c_str()));
  return nil;
}

// --- pipelines -------------------------------------------------------------------------------------------------------

@implementation MockPipeline {
 @package
  MockDevice* _device;
  mock_kernel _meaning;
  std::vector<KernelBuffer> _buffers;
}
- (id<MTLDevice>)device {
  return _device;
}
- (NSUInteger)maxTotalThreadsPerThreadgroup {
  return most_threads_in_a_group;
}
- (NSUInteger)threadExecutionWidth {
  return 32;
}
@end

MockPipeline* mock_pipeline(id<MTLFunction> function, NSError** error) {
  MockFunction* compiled = static_cast<MockFunction*>(function);
  std::lock_guard lock(meanings_mutex);
  const auto found = meanings.find(text_of_source(compiled->_name));
  if (found == meanings.end()) {
    report_error(error,
                 [NSString stringWithFormat:@"kernel %@ has no implementation in the mock; a test must register one "
                                             "with mock_define_kernel()",
                                            compiled->_name]);
    return nil;
  }
  MockPipeline* pipeline = [[MockPipeline alloc] init];
  pipeline->_device = compiled->_device;
  pipeline->_meaning = found->second;
  pipeline->_buffers = compiled->_buffers;
  return pipeline;
}

// --- encoder ---------------------------------------------------------------------------------------------------------

@implementation MockComputeEncoder {
  struct Bound {
    MockBuffer* buffer = nil;  // nil for setBytes
    NSUInteger offset = 0;
    std::vector<char> bytes;
  };
  MockCommandBuffer* _buffer;
  std::vector<std::function<void()>>* _commands;  // the command buffer's commands; null after endEncoding
  MockPipeline* _pipeline;
  std::map<NSUInteger, Bound> _bound;
}
@synthesize label = _label;

- (instancetype)initWithCommandBuffer:(MockCommandBuffer*)buffer
                             commands:(std::vector<std::function<void()>>*)commands {
  if (!(self = [super init])) return nil;
  _buffer = buffer;
  _commands = commands;
  return self;
}
- (id<MTLDevice>)device {
  return _buffer.device;
}
- (void)setComputePipelineState:(id<MTLComputePipelineState>)state {
  _pipeline = static_cast<MockPipeline*>(state);
}
- (void)setBuffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index {
  if (index >= 31) misuse(@"setBuffer: index must be below 31, got %lu", index);
  if (buffer && offset > buffer.length)
    misuse(@"setBuffer: offset %lu is beyond the end of a buffer of %lu bytes", offset, buffer.length);
  _bound[index] = {static_cast<MockBuffer*>(buffer), offset, {}};
}
- (void)setBytes:(const void*)bytes length:(NSUInteger)length atIndex:(NSUInteger)index {
  if (index >= 31 || length == 0 || length > 4096)
    misuse(@"setBytes: expected 1 to 4096 bytes and an index below 31, got %lu bytes at index %lu", length, index);
  const char* begin = static_cast<const char*>(bytes);
  _bound[index] = {nil, 0, std::vector<char>(begin, begin + length)};
}

- (void)dispatchThreads:(MTLSize)grid threadsPerThreadgroup:(MTLSize)group {
  if (!_commands) misuse(@"dispatchThreads: was called after endEncoding");
  if (!_pipeline) misuse(@"dispatchThreads: was called without a pipeline state");
  if (grid.width * grid.height * grid.depth == 0) misuse(@"dispatchThreads: the grid must have at least one thread");
  const NSUInteger together = group.width * group.height * group.depth;
  if (together == 0 || together > most_threads_in_a_group)
    misuse(@"dispatchThreads: a threadgroup of %lu threads is not supported", together);
  std::set<NSUInteger> taken;
  for (const KernelBuffer& one : _pipeline->_buffers) {
    taken.insert(one.index);
    const auto bound = _bound.find(one.index);
    if (bound == _bound.end()) misuse(@"the kernel takes a buffer at index %lu, but none is bound", one.index);
    if (one.is_constant != (bound->second.buffer == nil))
      misuse(@"the kernel expects %s at index %lu", one.is_constant ? "constants" : "a device buffer", one.index);
  }
  for (const auto& [index, bound] : _bound)
    if (!taken.contains(index) && bound.buffer)
      misuse(@"a buffer is bound at index %lu, but the kernel does not take one there", index);
  const auto bound = std::make_shared<std::map<NSUInteger, Bound>>(_bound);
  MockPipeline* pipeline = _pipeline;
  _commands->push_back([=] {
    std::vector<void*> memory;
    std::vector<size_t> lengths;
    for (auto& [index, one] : *bound) {
      memory.push_back(one.buffer ? [one.buffer deviceBytes] + one.offset : one.bytes.data());
      lengths.push_back(one.buffer ? one.buffer.length - one.offset : one.bytes.size());
    }
    const uint32_t size[3] = {static_cast<uint32_t>(grid.width), static_cast<uint32_t>(grid.height),
                              static_cast<uint32_t>(grid.depth)};
    uint32_t at[3];
    for (at[2] = 0; at[2] < size[2]; ++at[2])
      for (at[1] = 0; at[1] < size[1]; ++at[1])
        for (at[0] = 0; at[0] < size[0]; ++at[0])
          pipeline->_meaning(memory.data(), lengths.data(), memory.size(), at, size);
    for (const KernelBuffer& one : pipeline->_buffers) {
      const Bound& written = bound->at(one.index);
      if (one.is_written && written.buffer)
        [written.buffer deviceChanged:NSMakeRange(written.offset, written.buffer.length - written.offset)];
    }
  });
}

- (void)endEncoding {
  if (!_commands) misuse(@"endEncoding was called twice");
  _commands = nullptr;
  [_buffer encoderEnded];
}
@end
