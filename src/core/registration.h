// Tables whose entries are registered by the files that define them, so that no central list of files is needed. Each
// registration is at the end of its file:
//
//   const Registration<Kernels> pooling("pooling", [] { define_kernel("max_pooling2d", lower_max); });
//
// No registration function runs when the library is loaded. When a table is first used, the functions of all files run
// in the order of the given names and then of the file names, so that the link order never matters.
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

  // Calls `enter` once for each registration, in order of name and file, before the table is first used.
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
    // Created by the first registration, so the order of static initialization does not matter.
    static std::vector<Entry> entries;
    return entries;
  }
};

}  // namespace mpsgraph
