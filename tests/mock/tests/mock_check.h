// Helpers for the tests of the mock: detecting aborts, leaks, and exceptions.
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

// Return whether f aborts in a child process after printing the fragment to stderr.
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
  std::cerr << (died ? "the child died with: " : "the child survived with: ") << said << "\n";
  return false;
}

// Return the number of live objects once it has stopped changing.
//
// A queue's thread may release its last objects shortly after the device becomes idle.
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

// Return the number of objects that f leaks.
template <class F>
long leaves(F f) {
  const long before = settled_objects();
  @autoreleasepool {
    f();
  }
  const long left = settled_objects() - before;
  if (left != 0) std::cerr << "live objects:\n" << mock_live_objects_by_class();
  return left;
}

inline std::string text(NSString* string) { return string ? string.UTF8String : "(nil)"; }

// Run the block and return the name of the exception it raises, or "".
inline std::string raised_by(NS_NOESCAPE void (^block)(void)) {
  @try {
    block();
  } @catch (NSException* exception) {
    return text(exception.name);
  }
  return "";
}

}  // namespace check
