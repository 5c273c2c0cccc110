// Convolution and its gradients with oneDNN.
//
// Data with channels last keeps the user's layout. With channels first, only 1x1 convolutions are fast in the user's
// layout, because they are matmuls; for all others, the data is reordered into the layout that oneDNN chooses, and
// back. Weights are reordered into the layout of the primitive: once if they are a variable stored in that layout,
// otherwise before each run.
#include "backends/cpu/convolution/onednn_convolution.h"

#include "backends/cpu/convolution/convolution.h"
#include "backends/cpu/convolution/convolution_depthwise.h"
#include "backends/cpu/onednn_kernel.h"
#include "backends/cpu/variable_layouts.h"
#include "backends/cpu/wide_kernels.h"

namespace mpsgraph::cpu {
namespace {

using dnnl::memory;
using Forward = dnnl::convolution_forward::primitive_desc;
using DataGradient = dnnl::convolution_backward_data::primitive_desc;
using WeightsGradient = dnnl::convolution_backward_weights::primitive_desc;

constexpr const char* no_implementation = "oneDNN has no fast implementation";

struct Geometry {
  ops::Convolution c;
  memory::data_type type;
  memory::desc source, weights, any_weights, result;
  memory::desc asked_source, asked_result;  // layouts requested from primitives
  memory::dims strides, dilations, begin, end;

  Geometry(const Attributes& attributes, memory::data_type t, const Dims& s, const Dims& w, const Dims& r,
           bool as_it_lies = false)
      : c(attributes), type(t) {
    asked_source = source = data(s);
    asked_result = result = data(r);
    const ops::GroupedWeights g(c, ops::size_at(s, c.channel), w);
    const Dims ws = contiguous_strides(w);
    memory::dims dims{g.outputs, g.inputs}, steps{g.output_stride, g.input_stride};
    if (g.groups > 1) {
      dims.insert(dims.begin(), g.groups);
      steps.insert(steps.begin(), g.group_stride);
    }
    for (int i = 0; i < c.count; ++i) {
      const auto axis = static_cast<size_t>(c.weights_spatial[i]);
      dims.push_back(w[axis]);
      steps.push_back(ws[axis]);
      const auto window = *c.window(i, ops::size_at(s, c.spatial[i]), w[axis]);
      strides.push_back(window.stride);
      dilations.push_back(window.dilation - 1);
      begin.push_back(window.begin);
      end.push_back(window.end);
    }
    weights = memory::desc(dims, type, steps);
    any_weights = memory::desc(dims, type, memory::format_tag::any);
    bool product = g.groups == 1;
    for (int i = 0; i < c.count; ++i) product = product && w[c.weights_spatial[i]] == 1 && c.strides[i] == 1;
    if (as_it_lies || c.channel == -1 || product) return;
    asked_source = memory::desc(source.get_dims(), type, memory::format_tag::any);
    asked_result = memory::desc(result.get_dims(), type, memory::format_tag::any);
  }
  memory::desc data(const Dims& d) const {
    const Dims s = contiguous_strides(d);
    memory::dims dims{1, ops::size_at(d, c.channel)}, steps{1, ops::size_at(s, c.channel)};
    for (int i = 0; i < c.count; ++i) {
      dims.push_back(ops::size_at(d, c.spatial[i]));
      steps.push_back(ops::size_at(s, c.spatial[i]));
    }
    for (size_t i = 1; i < dims.size(); ++i) steps[0] *= dims[i];  // all axes before an image are batch axes
    dims[0] = element_count(d) / steps[0];
    return memory::desc(dims, type, steps);
  }
};

// Return the number of threads. Small convolutions run on one thread without synchronization; oneDNN divides larger
// ones among its own threads.
int threads_for(const Geometry& g) {
  constexpr int64_t least_products = 4 << 20;  // about 100 microseconds, twice the cost of waking a thread
  int64_t products = 1;
  for (const int64_t size : g.result.get_dims()) products *= size;
  const memory::dims weights = g.weights.get_dims();
  for (size_t i = weights.size() - 1; i + g.c.count + 1 >= weights.size(); --i) products *= weights[i];
  return products < least_products ? 1 : thread_count();
}

class WeightsLayout final : public Layout {
 public:
  WeightsLayout(memory::desc row_major, memory::desc home) : row_major_(std::move(row_major)), home_(std::move(home)) {}
  bool equals(const Layout& other) const override { return home_ == static_cast<const WeightsLayout&>(other).home_; }
  void from_row_major(const void* from, void* to) const override { reorder(row_major_, from, home_, to); }
  void to_row_major(const void* from, void* to) const override { reorder(home_, from, row_major_, to); }
  const memory::desc& home() const { return home_; }

 private:
  static void reorder(const memory::desc& from, const void* source, const memory::desc& to, void* target) {
    memory a(from, onednn_engine(), const_cast<void*>(source)), b(to, onednn_engine(), target);
    const OnednnThreads one(1);
    dnnl::reorder(a, b).execute(onednn_stream(), a, b);
  }
  memory::desc row_major_, home_;
};

// Return the layout in which an operand that holds weights is stored.
memory::desc described(const Operand& weights, const memory::desc& row_major) {
  return weights.layout ? static_cast<const WeightsLayout*>(weights.layout)->home() : row_major;
}

// The reason why oneDNN cannot compute with these operands, or an empty string.
std::string unusable(const std::vector<Operand>& operands) {
  const DType dtype = operands[0].dtype;
  if (!onednn_type(dtype) || multiplies_in_float32(dtype))
    return cat("does not multiply ", dtype, " on this processor");
  for (const Operand& operand : operands)
    if (operand.elements() == 0) return "an operand is empty";
  return "";
}

// Return the slot of an operand in the layout of the primitive: the slot of the operand itself, or of a copy made
// before the primitive runs.
Slot brought(OnednnKernel& kernel, Lowering& lowering, const memory::desc& have, Slot slot, const memory::desc& want) {
  if (have == want) return slot;
  const Slot copy = lowering.scratch(want.get_size());
  kernel.add_reorder(lowering, have, slot, want, copy);
  return copy;
}

// Add a primitive that writes its result in layout `made`. If layout `wanted` is different, also add a reorder from
// `made` to `wanted`.
void add_with_result(OnednnKernel& kernel, Lowering& lowering, const dnnl::primitive& primitive,
                     std::vector<OnednnKernel::Argument> arguments, int id, const memory::desc& made,
                     const memory::desc& wanted, Slot result) {
  const Slot target = made == wanted ? result : lowering.scratch(made.get_size());
  arguments.push_back({id, made, target});
  kernel.add(lowering, primitive, std::move(arguments));
  if (made != wanted) kernel.add_reorder(lowering, made, target, wanted, result);
}

Offer forward(Lowering& lowering) {
  const Operand source = lowering.input(0), weights = lowering.input(1), result = lowering.output();
  if (const std::string reason = unusable({source, weights, result}); !reason.empty()) return decline(reason);
  const Epilogue epilogue(lowering.operation());
  const Geometry g(lowering.attributes(), *onednn_type(source.dtype), source.dims, weights.dims, result.dims,
                   epilogue.has_residual);
  const OnednnThreads threads(threads_for(g));
  const dnnl::primitive_attr attributes = epilogue.attributes(g.result);
  const memory::desc bias({ops::size_at(result.dims, g.c.channel)}, g.type, memory::format_tag::x);
  const auto kind = dnnl::prop_kind::forward_training;
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const bool take_reference = weights.layout != nullptr;
  const auto description =
      epilogue.has_bias ? try_primitive<Forward>(take_reference, kind, algorithm, g.asked_source, g.any_weights, bias,
                                                 g.asked_result, g.strides, g.dilations, g.begin, g.end, attributes)
                        : try_primitive<Forward>(take_reference, kind, algorithm, g.asked_source, g.any_weights,
                                                 g.asked_result, g.strides, g.dilations, g.begin, g.end, attributes);
  if (!description) return decline(no_implementation);
  auto kernel = std::make_unique<OnednnKernel>();
  kernel->use_threads(threads_for(g));
  const memory::desc from = description->src_desc(), by = description->weights_desc();
  std::vector<OnednnKernel::Argument> arguments{
      {DNNL_ARG_SRC, from, brought(*kernel, lowering, g.source, source.slot, from)},
      {DNNL_ARG_WEIGHTS, by, brought(*kernel, lowering, described(weights, g.weights), weights.slot, by)}};
  if (epilogue.has_bias) arguments.push_back({DNNL_ARG_BIAS, bias, epilogue.bias(lowering).slot});
  if (epilogue.has_residual) {
    arguments.push_back(
        {DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, g.result, epilogue.residual(lowering).slot});
  }
  add_with_result(*kernel, lowering, dnnl::convolution_forward(*description), std::move(arguments), DNNL_ARG_DST,
                  description->dst_desc(), g.result, result.slot);
  if (epilogue.relu) kernel->add_relu(result);
  return kernel;
}

// Return the forward primitive that oneDNN's gradient primitives need as a hint.
std::optional<Forward> forward_hint(const Geometry& g, bool take_reference = false) {
  return try_primitive<Forward>(take_reference, dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct,
                                g.asked_source, g.any_weights, g.asked_result, g.strides, g.dilations, g.begin, g.end,
                                scratchpad_attributes());
}

// Return a gradient primitive. oneDNN's slow reference implementation is accepted only if the weights have a layout
// that the plain kernels cannot read.
template <class Description>
std::optional<Description> try_gradient(const Geometry& g, bool take_reference) {
  const auto hint = forward_hint(g, take_reference);
  if (!hint) return std::nullopt;
  return try_primitive<Description>(take_reference, dnnl::algorithm::convolution_direct, g.asked_source, g.any_weights,
                                    g.asked_result, g.strides, g.dilations, g.begin, g.end, *hint,
                                    scratchpad_attributes());
}

template <class Description>
std::optional<Description> gradient_description(const Geometry& g, const Operand& weights) {
  auto description = try_gradient<Description>(g, false);
  return description || !weights.layout ? description : try_gradient<Description>(g, true);
}

Offer data_gradient(Lowering& lowering) {
  const Operand incoming = lowering.input(0), weights = lowering.input(1), result = lowering.output();
  if (const std::string reason = unusable({incoming, weights, result}); !reason.empty()) return decline(reason);
  const Geometry g(lowering.attributes(), *onednn_type(incoming.dtype), result.dims, weights.dims, incoming.dims);
  const OnednnThreads threads(threads_for(g));
  const auto description = gradient_description<DataGradient>(g, weights);
  if (!description) return decline(no_implementation);
  auto kernel = std::make_unique<OnednnKernel>();
  kernel->use_threads(threads_for(g));
  const memory::desc from = description->diff_dst_desc(), by = description->weights_desc();
  std::vector<OnednnKernel::Argument> arguments{
      {DNNL_ARG_DIFF_DST, from, brought(*kernel, lowering, g.result, incoming.slot, from)},
      {DNNL_ARG_WEIGHTS, by, brought(*kernel, lowering, described(weights, g.weights), weights.slot, by)}};
  add_with_result(*kernel, lowering, dnnl::convolution_backward_data(*description), std::move(arguments),
                  DNNL_ARG_DIFF_SRC, description->diff_src_desc(), g.source, result.slot);
  return kernel;
}

// Return whether oneDNN's implementation is specialized for depthwise convolutions.
bool is_for_depthwise(std::string_view implementation) { return implementation.find("dw") != implementation.npos; }

Offer weights_gradient(Lowering& lowering) {
  const Operand incoming = lowering.input(0), source = lowering.input(1), result = lowering.output();
  if (const std::string reason = unusable({incoming, source, result}); !reason.empty()) return decline(reason);
  const Geometry g(lowering.attributes(), *onednn_type(incoming.dtype), source.dims, result.dims, incoming.dims);
  const OnednnThreads threads(threads_for(g));
  const auto description = gradient_description<WeightsGradient>(g, result);
  if (!description) return decline(no_implementation);
  const bool general = g.type == memory::data_type::f32 && !is_for_depthwise(description->impl_info_str());
  if (general && is_depthwise(ConvolutionPlan(g.c, source.dims, result.dims, incoming.dims)))
    return decline("has no implementation for depthwise convolutions of this size");
  auto kernel = std::make_unique<OnednnKernel>();
  kernel->use_threads(threads_for(g));
  const memory::desc from = description->src_desc(), by = description->diff_dst_desc();
  std::vector<OnednnKernel::Argument> arguments{
      {DNNL_ARG_SRC, from, brought(*kernel, lowering, g.source, source.slot, from)},
      {DNNL_ARG_DIFF_DST, by, brought(*kernel, lowering, g.result, incoming.slot, by)}};
  add_with_result(*kernel, lowering, dnnl::convolution_backward_weights(*description), std::move(arguments),
                  DNNL_ARG_DIFF_WEIGHTS, description->diff_weights_desc(), described(result, g.weights), result.slot);
  return kernel;
}

}  // namespace

LayoutPtr wanted_weights_layout(const Operation& convolution) {
  const bool forward = !convolution.kind().ends_with("_data_gradient");
  const Dims& image = convolution.input(0)->type.shape.dims();
  const Dims& weights = convolution.input(1)->type.shape.dims();
  const Dims& result = convolution.output()->type.shape.dims();
  const Dims &source = forward ? image : result, &made = forward ? result : image;
  if (is_depthwise(ConvolutionPlan(ops::Convolution(convolution.attributes), source, weights, made))) return nullptr;
  const Geometry g(convolution.attributes, memory::data_type::f32, source, weights, made);
  const OnednnThreads threads(threads_for(g));
  const auto description = forward_hint(g);
  if (!description || !try_gradient<DataGradient>(g, false) || !try_gradient<WeightsGradient>(g, false)) return nullptr;
  const memory::desc home = description->weights_desc();
  // return null for a padded layout, because element-wise kernels would write to the padding
  const bool padded = home.get_size() != g.weights.get_size();
  return home == g.weights || padded ? nullptr : std::make_shared<WeightsLayout>(g.weights, home);
}

Offer onednn_convolution(Lowering& lowering) {
  const std::string_view kind = lowering.operation().kind();
  return kind.ends_with("_data_gradient")      ? data_gradient(lowering)
         : kind.ends_with("_weights_gradient") ? weights_gradient(lowering)
                                               : forward(lowering);
}

}  // namespace mpsgraph::cpu
