// Contraction: replaces products whose only uses are additions or subtractions with fused multiply-adds.
#include "backends/cpu/jit/vector_code.h"

namespace mpsgraph::cpu::jit {

std::vector<int> uses_of(const std::vector<Node>& nodes) {
  std::vector<int> uses(nodes.size(), 0);
  for (size_t i = nodes.size(); i-- > 0;) {
    const bool acts = nodes[i].kind == Kind::store || nodes[i].kind == Kind::accumulate;
    if (!acts && uses[i] == 0) continue;
    for (int in : {nodes[i].a, nodes[i].b, nodes[i].c})
      if (in >= 0) uses[in]++;
    if (acts) uses[i] = 1;
  }
  return uses;
}

void contract(std::vector<Node>& nodes) {
  const std::vector<int> uses = uses_of(nodes);
  const auto product = [&](int n) { return nodes[n].kind == Kind::multiply && uses[n] == 1; };
  for (Node& node : nodes) {
    if (node.kind == Kind::add && (product(node.a) || product(node.b))) {
      const int p = product(node.a) ? node.a : node.b, other = p == node.a ? node.b : node.a;
      node = {.kind = Kind::multiply_add, .a = nodes[p].a, .b = nodes[p].b, .c = other};
    } else if (node.kind == Kind::subtract && product(node.b)) {
      node = {.kind = Kind::negated_multiply_add, .a = nodes[node.b].a, .b = nodes[node.b].b, .c = node.a};
    } else if (node.kind == Kind::subtract && product(node.a)) {
      node = {.kind = Kind::multiply_subtract, .a = nodes[node.a].a, .b = nodes[node.a].b, .c = node.b};
    }
  }
}

}  // namespace mpsgraph::cpu::jit
