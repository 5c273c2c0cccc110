// The process, and the simulated macOS version, which is defined only by mock_macos_version.
#import <Foundation/Foundation.h>

#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "support.h"

extern "C" char** environ;

static std::atomic<double>& simulated_version() {
  static std::atomic<double> version = [] {
    const char* const given = std::getenv("MPSGRAPH_MOCK_MACOS");
    const double version = given ? std::strtod(given, nullptr) : 26.4;
    if (!(version >= 10)) mock::fatal("MPSGRAPH_MOCK_MACOS must be a macOS version such as 14.0, got %s", given);
    return version;
  }();
  return version;
}

double mock_macos_version(void) { return simulated_version(); }
void mock_set_macos_version(double version) { simulated_version() = version; }

int mock_gpu_generation(void) {
  static const int generation = [] {
    const char* const given = std::getenv("MPSGRAPH_MOCK_GPU");
    const int generation = given ? std::atoi(given) : 10;
    if (generation < 1) mock::fatal("MPSGRAPH_MOCK_GPU must be a generation of Apple's GPUs such as 7, got %s", given);
    return generation;
  }();
  return generation;
}

// Return whether an environment variable has the first of two values, which is the default.
static bool is_first(const char* variable, const std::string& first, const std::string& second) {
  const char* const given = std::getenv(variable);
  const std::string wish = given ? given : first;
  if (wish != first && wish != second)
    mock::fatal("%s must be %s or %s, got %s", variable, first.c_str(), second.c_str(), given);
  return wish == first;
}

int mock_executables_share_variables(void) {
  static const bool shared = is_first("MPSGRAPH_MOCK_VARIABLES", "shared", "separate");
  return shared;
}

int mock_reinterprets_four_bits(void) {
  static const bool accepted = is_first("MPSGRAPH_MOCK_FOUR_BITS", "accepted", "refused");
  return accepted;
}

@implementation NSProcessInfo
+ (NSProcessInfo*)processInfo {
  static NSProcessInfo* const info = [] {
    NSProcessInfo* const made = [[NSProcessInfo alloc] init];
    mock_make_immortal(made);
    return made;
  }();
  return info;
}
- (NSOperatingSystemVersion)operatingSystemVersion {
  const double version = mock_macos_version(), major = std::floor(version);
  return {static_cast<NSInteger>(major), std::lround((version - major) * 10), 0};
}
- (NSString*)operatingSystemVersionString {
  const NSOperatingSystemVersion version = self.operatingSystemVersion;
  return [NSString stringWithFormat:@"Version %ld.%ld (mock)", version.majorVersion, version.minorVersion];
}
- (BOOL)isOperatingSystemAtLeastVersion:(NSOperatingSystemVersion)wanted {
  const NSOperatingSystemVersion version = self.operatingSystemVersion;
  if (version.majorVersion != wanted.majorVersion) return version.majorVersion > wanted.majorVersion;
  if (version.minorVersion != wanted.minorVersion) return version.minorVersion > wanted.minorVersion;
  return version.patchVersion >= wanted.patchVersion;
}
- (NSDictionary<NSString*, NSString*>*)environment {
  NSMutableDictionary<NSString*, NSString*>* const all = [NSMutableDictionary dictionary];
  for (char** entry = environ; entry && *entry; ++entry) {
    const char* const equals = std::strchr(*entry, '=');
    NSString* const value = equals ? [NSString stringWithUTF8String:equals + 1] : nil;  // nil if not UTF-8
    if (value) all[mock::string(std::string(*entry, static_cast<size_t>(equals - *entry)))] = value;
  }
  return all;
}
- (int)processIdentifier {
  return getpid();
}
- (NSUInteger)activeProcessorCount {
  return std::thread::hardware_concurrency();
}
- (unsigned long long)physicalMemory {
  return static_cast<unsigned long long>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<unsigned long long>(sysconf(_SC_PAGESIZE));
}
@end
