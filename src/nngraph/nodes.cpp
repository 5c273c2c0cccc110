// Creation of filters, gradient filters, and whole training graphs.
#include "nngraph/nodes.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "nngraph/definition.h"

namespace mpsgraph::nngraph {
namespace {

constexpr std::array<std::string_view, 5> format_names{"none", "unorm8", "unorm16", "float16", "float32"};

// Append `filter` and all filters that it depends on to `order`, dependencies first.
void collect(const FilterPtr& filter, std::set<const FilterNode*>& seen, std::vector<FilterPtr>& order) {
  std::vector<std::pair<FilterPtr, size_t>> stack{{filter, 0}};  // iterative because networks can be deep
  seen.insert(filter.get());
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (next == node->sources().size()) {
      order.push_back(node);
      stack.pop_back();
      continue;
    }
    FilterNode* before = node->sources()[next++]->producer;
    if (before && seen.insert(before).second) stack.emplace_back(before->shared_from_this(), 0);
  }
}

}  // namespace

std::string_view name(ChannelFormat format) { return format_names[static_cast<size_t>(format)]; }

ChannelFormat channel_format(std::string_view name) {
  const auto found = std::find(format_names.begin(), format_names.end(), name);
  if (found == format_names.end())
    throw GraphError(
        cat("unknown format '", std::string(name), "'; must be one of none, unorm8, unorm16, float16, float32"));
  return static_cast<ChannelFormat>(found - format_names.begin());
}

ImagePtr ImageNode::input(std::string handle) {
  auto node = std::make_shared<ImageNode>();
  node->handle = std::move(handle);
  return node;
}

FilterPtr FilterNode::create(std::string_view kind, std::vector<ImagePtr> sources, Attributes attributes,
                             std::shared_ptr<DataSource> parameters, std::string location) {
  const NodeDefinition& definition = node_definition(kind);
  const FilterPtr node(new FilterNode());
  node->definition_ = &definition;
  node->location_ = std::move(location);
  node->padding = padding_policy(definition.padding);
  const auto refuse = [&](const std::string& message) {
    throw GraphError(cat("[", definition.name, "] ", message, node->where()));
  };
  const auto count = static_cast<int>(sources.size());
  if (count < definition.min_sources || (definition.max_sources >= 0 && count > definition.max_sources))
    refuse(cat("must have ", definition.min_sources, definition.max_sources == definition.min_sources ? "" : " or more",
               " source image(s), got ", count));
  if (std::find(sources.begin(), sources.end(), nullptr) != sources.end())
    refuse("source images must be image nodes, got None");
  if (definition.parameters && (!parameters || parameters->kind() != *definition.parameters))
    refuse(parameters ? "data source must be the kind that this node reads (convolution or a kind of normalization), "
                        "got a different kind"
                      : "needs a data source, got None");
  if (!definition.parameters && parameters) refuse("has no parameters, so it takes no data source");
  node->attributes_ = complete_attributes(definition.name, definition.attributes, std::move(attributes), node->where());
  node->sources_ = std::move(sources);
  node->parameters_ = std::move(parameters);
  node->result_.format = node->sources_.empty() ? ChannelFormat::none : node->sources_[0]->format;
  const bool stored_as_numbers =
      node->result_.format == ChannelFormat::float16 || node->result_.format == ChannelFormat::float32;
  if (!stored_as_numbers) node->result_.format = ChannelFormat::none;  // Only inputs can have unorm formats.
  if (definition.check) definition.check(*node);
  return node;
}

StateNodePtr FilterNode::result_state() {
  return is_gradient() || !definition_->leaves_state() ? nullptr : StateNodePtr(shared_from_this(), &state_);
}

void FilterNode::set_source_state(StateNodePtr state) {
  const FilterNode* from = state ? state->producer : nullptr;
  const auto refuse = [&](const std::string& message) { throw GraphError(cat("[", title(), "] ", message, where())); };
  if (!definition_->undoes.empty() && !(from && from->kind() == definition_->undoes))
    refuse(cat("source_state must be the result_state of the ", definition_->undoes, " node that it reverses"));
  if (definition_->undoes.empty() && definition_->states.empty()) refuse("reads no source state, but one was set");
  if (definition_->undoes.empty() && from)
    refuse(cat("source_state must be a separate StateNode, got the result_state of ", from->title(),
               " in this graph; to use that state, create the gradient filter with gradient_filter"));
  source_state_ = std::move(state);
}

std::string_view FilterNode::kind() const { return definition_->name; }

std::string FilterNode::title() const {
  const FilterNode& named = forward_ ? *forward_ : *this;
  std::string called = label.empty() ? named.label : label;
  if (called.empty() && named.parameters_) called = named.parameters_->label();
  return cat(kind(), is_gradient() ? " gradient" : "", called.empty() ? "" : " '", called, called.empty() ? "" : "'");
}

std::string FilterNode::where() const { return location_.empty() ? "" : cat("; made at ", location_); }

std::vector<FilterPtr> FilterNode::gradient_filters(const ImagePtr& source) {
  if (!source)
    throw GraphError(
        cat("[", title(), "] gradient_filter needs an image with the gradient of the result, got None", where()));
  if (is_gradient())
    throw UnsupportedError(
        cat("[", title(), "] is a gradient filter, and gradient filters have no gradient filters", where()));
  if (definition_->apple_gradient.empty())
    throw UnsupportedError(cat("[", title(), "] has no gradient filter: ", definition_->without, where()));
  std::vector<FilterPtr> result;
  for (size_t i = 0; i < sources_.size(); ++i) {
    const FilterPtr gradient(new FilterNode());
    gradient->definition_ = definition_;
    gradient->forward_ = shared_from_this();
    gradient->forward_source_ = i;
    gradient->sources_ = {source};
    gradient->attributes_ = attributes_;
    gradient->parameters_ = i == 0 ? parameters_ : nullptr;
    gradient->padding = padding;
    gradient->location_ = location_;
    gradient->label = label;
    gradient->result_.format = source->format;
    result.push_back(gradient);
  }
  return result;
}

FilterPtr FilterNode::gradient_filter(const ImagePtr& source) {
  std::vector<FilterPtr> all = gradient_filters(source);
  if (all.size() != 1)
    throw GraphError(cat("[", title(), "] has ", all.size(),
                         " sources with one gradient each; use gradient_filters instead of gradient_filter", where()));
  return all[0];
}

std::vector<FilterPtr> FilterNode::training_graph(const ImagePtr& source_gradient, const Handler& handler) {
  std::set<const FilterNode*> seen;
  std::vector<FilterPtr> order;
  collect(shared_from_this(), seen, order);
  std::map<const ImageNode*, ImagePtr> gradients;  // gradient of each image, summed over the users visited so far
  std::map<const ImageNode*, FilterPtr> made_by;
  const bool starts_behind = !source_gradient && definition_->result_is_gradient;
  ImagePtr first = source_gradient ? source_gradient : result_image();
  if (starts_behind)
    gradients[sources_[0].get()] = first;  // the result of a loss is the gradient of its source
  else
    gradients[&result_] = first;

  std::vector<FilterPtr> ends;
  const auto pass_on = [&](const ImagePtr& image, const FilterPtr& gradient, const FilterPtr& forward) {
    if (!image->handle.empty() && gradient->result().handle.empty() && !handler)
      gradient->result_image()->handle = image->handle;
    if (handler) handler(gradient, forward, image, gradient->sources()[0]);
    ImagePtr& known = gradients[image.get()];
    if (!known) {
      known = gradient->result_image();
      made_by[image.get()] = gradient;
      return;
    }
    // Several filters read this image, so its gradient is the sum of the gradients that these filters propagate.
    const FilterPtr sum = create("addition", {known, gradient->result_image()}, {}, nullptr, gradient->location());
    known = sum->result_image();
    if (!handler) known->handle = image->handle;
    made_by[image.get()] = sum;
    if (handler) handler(sum, nullptr, image, sum->sources()[0]);
  };
  for (size_t i = order.size(); i-- > 0;) {
    const FilterPtr& node = order[i];
    if (starts_behind && node.get() == this) continue;
    const auto found = gradients.find(&node->result_);
    if (found == gradients.end() || !found->second) continue;
    const bool on = std::any_of(node->sources_.begin(), node->sources_.end(),
                                [](const ImagePtr& image) { return !image->stop_gradient; }) ||
                    node->parameters_;
    if (!on) continue;
    std::vector<FilterPtr> backward = node->gradient_filters(found->second);
    for (size_t s = 0; s < backward.size(); ++s) {
      const ImagePtr& image = node->sources_[s];
      if (image->stop_gradient && !backward[s]->parameters_) continue;
      pass_on(image, backward[s], node);
      if (image->stop_gradient) {
        ends.push_back(backward[s]);
        gradients.erase(image.get());
      }
    }
  }
  for (const FilterPtr& node : order)
    for (const ImagePtr& image : node->sources_) {
      const auto end = made_by.find(image.get());
      if (image->producer || image->stop_gradient || end == made_by.end() || !end->second) continue;
      ends.push_back(end->second);
      made_by.erase(end);
    }
  return ends;
}

}  // namespace mpsgraph::nngraph
