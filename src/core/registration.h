// Tables that files register themselves in: each file registers its entries at its end, so no central list of files is
// needed.
//
//   const Registration<Kernels> pooling("pooling", [] { define_kernel("max_pooling2d", lower_max); });
//
// Nothing is registered when the library is loaded. A table runs the functions of all files when it is first used, in
// the order of the given names, then of the file names, so that the link order never matters.
#pragma once

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace mpsgraph {

template <class Table>
class Registration {
 public:
  using Say = void (*)();
  Registration(std::string_view name, Say say, std::string_view file = __builtin_FILE()) {
    all().push_back({name, file, say});
  }

  // Calls `enter(name, say)` once for each registered file, before the table is used.
  template <class Enter>
  static void for_each(Enter enter) {
    std::ranges::sort(all(), {}, [](const Entry& entry) { return std::pair(entry.name, entry.file); });
    for (const Entry& entry : all()) enter(entry.name, entry.say);
  }

 private:
  struct Entry {
    std::string_view name, file;
    Say say;
  };
  static std::vector<Entry>& all() {
    // Created by the first file that registers, whatever the order of static initialization.
    static std::vector<Entry> entries;
    return entries;
  }
};

}  // namespace mpsgraph
