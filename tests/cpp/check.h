// A minimal test harness: named tests, CHECKs that report a failure and continue, a summary, and an exit code.
//
//   TEST(broadcast_follows_numpy) { CHECK_EQUAL(*broadcast({2, 1}, {3}), Shape({2, 3})); }
//   int main() { return check::run_all(); }
#pragma once

#include <exception>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace check {

struct Test {
  std::string_view file;  // without directory and extension
  const char* name;
  void (*body)();
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

inline bool& failed_now() {
  static bool failed = false;
  return failed;
}

struct Registration {
  Registration(std::string_view path, const char* name, void (*body)()) {
    path.remove_prefix(path.rfind('/') + 1);
    tests().push_back({path.substr(0, path.find('.')), name, body});
  }
};

inline void fail(const char* file, int line, const std::string& what) {
  failed_now() = true;
  std::cerr << file << ":" << line << ": " << what << "\n";
}

template <class T>
std::string shown(const T& value) {
  std::ostringstream out;
  if constexpr (requires { out << value; }) {
    out << value;
  } else {
    out << "(unprintable value)";
  }
  return out.str();
}

template <class A, class B>
void equal(const A& a, const B& b, const char* text, const char* file, int line) {
  if (!(a == b)) fail(file, line, std::string(text) + ": " + shown(a) + " is not " + shown(b));
}

// Run f, which must throw an E whose message contains every fragment.
template <class E, class F>
void throws(F f, const std::vector<std::string>& fragments, const char* text, const char* file, int line) {
  try {
    f();
  } catch (const E& error) {
    for (const std::string& fragment : fragments) {
      if (std::string(error.what()).find(fragment) == std::string::npos) {
        fail(file, line,
             std::string(text) + ": the error message must contain '" + fragment + "', got: " + error.what());
      }
    }
    return;
  } catch (const std::exception& error) {
    return fail(file, line, std::string(text) + ": threw an error of another type: " + error.what());
  }
  fail(file, line, std::string(text) + ": expected an error, but none was thrown");
}

// Run the tests of one file, or all tests by default.
inline int run_all(std::string_view file = {}) {
  int passed = 0, failed = 0;
  for (const Test& test : tests()) {
    if (!file.empty() && test.file != file) continue;
    failed_now() = false;
    try {
      test.body();
    } catch (const std::exception& error) {
      fail(test.name, 0, std::string("uncaught error: ") + error.what());
    }
    ++(failed_now() ? failed : passed);
    if (failed_now()) std::cerr << "FAILED " << test.name << "\n";
  }
  std::cout << passed << " passed, " << failed << " failed\n";
  return failed ? 1 : 0;
}

}  // namespace check

#define TEST(name)                                                     \
  static void name();                                                  \
  static const check::Registration name##_test(__FILE__, #name, name); \
  static void name()
#define CHECK(condition) \
  if (!(condition)) check::fail(__FILE__, __LINE__, #condition)
#define CHECK_EQUAL(a, b) check::equal(a, b, #a, __FILE__, __LINE__)
// CHECK_THROWS(ShapeError, graph.add(...), "expected", "got")
#define CHECK_THROWS(Error, expression, ...) \
  check::throws<Error>([&] { (void)(expression); }, {__VA_ARGS__}, #expression, __FILE__, __LINE__)
