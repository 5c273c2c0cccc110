// For the tests of the mock: what ends the process, what leaks, what waits.
#pragma once
#import <Foundation/Foundation.h>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

#include "check.h"
#include "mock.h"

namespace check {

// Whether f, run in a child process, aborts and says this on its way.
template <class F>
bool dies_saying(const std::string& fragment, F f) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    std::signal(SIGABRT, SIG_DFL);
    f();
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char buffer[512];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) said.append(buffer, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  const bool died = !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  if (died && said.find(fragment) != std::string::npos) return true;
  std::cerr << (died ? "it died saying: " : "it lived, saying: ") << said << "\n";
  return false;
}

// Live objects when their number has not changed for a while: a queue's own thread may release its last ones a moment
// after the device is idle.
inline long settled_objects() {
  mock_wait_until_idle(60);
  long seen = mock_live_objects();
  for (int unchanged = 0, looks = 0; unchanged < 5 && looks < 500; ++looks) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const long now = mock_live_objects();
    unchanged = now == seen ? unchanged + 1 : 0;
    seen = now;
  }
  return seen;
}

// The number of objects that f leaves behind.
template <class F>
long leaves(F f) {
  const long before = settled_objects();
  @autoreleasepool {
    f();
  }
  const long left = settled_objects() - before;
  if (left != 0) std::cerr << "alive:\n" << mock_live_objects_by_class();
  return left;
}

inline std::string text(NSString* string) { return string ? string.UTF8String : "(nil)"; }

// Runs the block and tells the name of the exception that it raised, or "".
inline std::string raised_by(NS_NOESCAPE void (^block)(void)) {
  @try {
    block();
  } @catch (NSException* exception) {
    return text(exception.name);
  }
  return "";
}

}  // namespace check
