// Tables that files fill by themselves: what a file brings it says at its end, so that nobody keeps a list of files.
//
//   const Registration<Kernels> pooling("pooling", [] { define_kernel("max_pooling2d", lower_max); });
//
// Nothing is said when the library is loaded; a table asks all files when it is first looked at, in the order of these
// names, then of the files', so that the order of linking never shows.
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

  // Calls `enter(name, say)` for each, once, before the table is used.
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
    static std::vector<Entry> entries;  // made by the first file that enters, whatever the order
    return entries;
  }
};

}  // namespace mpsgraph
