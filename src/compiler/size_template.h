// A program that all passes have optimized, as a function of the sizes of its feeds.
//
// Compiling the same graph for two different sizes usually gives two programs of the same structure, in which only
// dimensions, integer attributes, and a few constants differ. A SizeTemplate relates each of these numbers to the
// dimensions of the specialized graph, by its pair of values in the two compilations. For a third size, the types of
// the specialized graph are inferred again (retyping.h), which gives the value of each pair, and the optimized program
// is copied with these values. No pass runs.
//
//   specialized graph           for 5, for 7, for 9           optimized program            for 5, for 7, for 9
//   %x : float32[n,8]               5,     7,    9            %y : float32[8n]                40,    56, -> 72
//
// The result must be what the passes would produce. Passes decide by the structure, by constants, and by comparing
// dimensions with each other and with constants. A template is therefore only used for sizes in whose specialized graph
// any two numbers have the same order, including equality, as in one of the compilations, and which are at most four
// times as large or small. If the order differs between the compilations, it did not matter, because their programs
// have the same structure. A few decisions compare products of dimensions, such as bytes, and may differ there; the
// results then differ by rounding. A program that assigns variables is therefore only made for sizes between those of
// the two compilations: products grow with the sizes, so a decision that is the same at both ends is the same between
// them, and training steps do not depend on the sizes that came before. A number that cannot be related, or could be
// related to numbers of different values, also prevents the use of the template, and the program is compiled
// completely.
//
// The pass schedule, which compares the bytes of many values, runs again for each size.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/flat.h"
#include "compiler/retyping.h"

namespace mpsgraph::compiler {

class SizeTemplate {
 public:
  // Relates two optimized programs to the numbers of the specialized graph for the same feeds. The first program must
  // outlive the template. Returns null, and the reason, if that is not possible.
  static std::unique_ptr<SizeTemplate> make(const Program& first, const Program& second, const Flat& first_graph,
                                            const Flat& second_graph, std::string& reason);

  // Returns the optimized program for a specialized graph of other sizes; nullopt if the template does not apply.
  std::optional<Program> instantiate(const Flat& graph) const;

  // Whether the program assigns variables, and therefore must not depend on the sizes that came before.
  bool assigns() const { return assigns_; }

 private:
  using Pair = std::pair<int64_t, int64_t>;
  // A product of neighboring dimensions of one shape in the specialized graph.
  struct Product {
    size_t begin, end;
  };
  // Where the value of a pair comes from. All sources must have the same value.
  struct Sources {
    std::optional<int64_t> of_pair;  // index in `pairs_`
    std::vector<Product> products;
  };
  // The ways in which a scalar constant can depend on a size.
  enum class Form : uint8_t { size, reciprocal };
  struct Derived {  // a constant of the optimized program that differs between the two compilations
    size_t at;
    std::optional<size_t> copied;  // the constant of the specialized graph with these elements
    std::vector<std::pair<Form, size_t>> forms;  // otherwise, the form of numbers, by index in `used_`
  };

  bool relate_numbers(const std::vector<int64_t>& first, const std::vector<int64_t>& second, std::string& reason);
  bool relate_constants(const Flat& first, const Flat& second, const Flat& first_graph, const Flat& second_graph,
                        std::string& reason);
  bool relate_indices(const Program& first, const Program& second, std::string& reason);
  void collect_pairs(const Flat& first, const Flat& second);
  std::optional<size_t> used(const Pair& pair);
  std::optional<std::vector<int64_t>> values(const Flat& graph) const;
  static ConstantPtr formed(const ConstantData& like, Form form, int64_t size);

  const Program* program_ = nullptr;
  Flat flat_;
  std::vector<uint64_t> structure_;  // of the specialized graph
  std::vector<Pair> pairs_;  // pairs of numbers in the specialized graph, in ascending order
  std::vector<uint32_t> pair_of_;  // index in `pairs_` of each number of the specialized graph
  std::map<Pair, std::vector<Product>> products_;
  std::vector<Sources> used_;  // sources of the numbers of the optimized program that vary
  std::map<Pair, size_t> used_index_;
  std::vector<std::pair<size_t, size_t>> varying_;  // position in the optimized program, and index in `used_`
  std::vector<Derived> derived_;
  std::vector<std::pair<size_t, size_t>> at_most_;  // indices in `used_`: the first number must not exceed the second
  std::vector<std::pair<size_t, ConstantPtr>> unchanged_;  // constants of the specialized graph that must stay the same
  bool assigns_ = false;
  bool interpolates_ = false;  // whether the template only applies to sizes between those of its compilations
  std::vector<bool> varies_;  // whether an operation of the optimized program has numbers or constants that vary

  SizeTemplate(const Program& program, Flat flat) : program_(&program), flat_(std::move(flat)) {}
};

}  // namespace mpsgraph::compiler
