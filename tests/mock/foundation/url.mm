// File URLs, and file manager operations on them.
#import <Foundation/Foundation.h>

#include <cctype>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "support.h"

namespace fs = std::filesystem;

@implementation NSURL {
  BOOL _isDirectory;
}
+ (NSURL*)fileURLWithPath:(NSString*)path {
  return [[NSURL alloc] initFileURLWithPath:path];
}
+ (NSURL*)fileURLWithPath:(NSString*)path isDirectory:(BOOL)isDirectory {
  NSURL* const url = [[NSURL alloc] initFileURLWithPath:path];
  url->_isDirectory = isDirectory;
  return url;
}
- (instancetype)initFileURLWithPath:(NSString*)path {
  if (path.length == 0) [NSException raise:NSInvalidArgumentException format:@"a file URL needs a path"];
  if ((self = [super init])) {
    _path = mock::string(fs::absolute(mock::text(path)).string());
    if (_path.length > 1 && [_path hasSuffix:@"/"]) _path = [_path substringToIndex:_path.length - 1];
    _isDirectory = fs::is_directory(mock::text(_path));
  }
  return self;
}
- (NSString*)absoluteString {
  std::string escaped = "file://";
  for (const char c : mock::text(_path)) {
    if (std::isalnum(static_cast<unsigned char>(c)) || std::strchr("/-._~!$&'()*+,=:@", c)) {
      escaped += c;
    } else {
      char code[4];
      std::snprintf(code, sizeof code, "%%%02X", static_cast<unsigned char>(c));
      escaped += code;
    }
  }
  return mock::string(_isDirectory ? escaped + "/" : escaped);
}
- (NSString*)lastPathComponent {
  return _path.lastPathComponent;
}
- (NSString*)pathExtension {
  return _path.pathExtension;
}
- (BOOL)isFileURL {
  return YES;
}
- (const char*)fileSystemRepresentation {
  return _path.fileSystemRepresentation;
}
- (NSURL*)URLByAppendingPathComponent:(NSString*)component {
  return [NSURL fileURLWithPath:[_path stringByAppendingPathComponent:component]];
}
- (NSString*)description {
  return self.absoluteString;
}
- (BOOL)isEqual:(id)object {
  return
      [object isKindOfClass:[NSURL class]] && [self.absoluteString isEqual:static_cast<NSURL*>(object).absoluteString];
}
- (NSUInteger)hash {
  return _path.hash;
}
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  return self;
}
@end

// Return NO, and set the error if the caller requested it.
static BOOL failed(const std::error_code& code, NSString* path, NSError** error) {
  if (!code) return NO;
  if (error) {
    NSString* const what = [NSString stringWithFormat:@"%@: %s", path, code.message().c_str()];
    *error = [NSError errorWithDomain:NSPOSIXErrorDomain
                                 code:code.value()
                             userInfo:@{NSLocalizedDescriptionKey : what}];
  }
  return YES;
}

@implementation NSFileManager
+ (NSFileManager*)defaultManager {
  static NSFileManager* const manager = [] {
    NSFileManager* const made = [[NSFileManager alloc] init];
    mock_make_immortal(made);
    return made;
  }();
  return manager;
}
- (BOOL)fileExistsAtPath:(NSString*)path {
  return [self fileExistsAtPath:path isDirectory:nullptr];
}
- (BOOL)fileExistsAtPath:(NSString*)path isDirectory:(BOOL*)isDirectory {
  std::error_code code;
  const fs::file_status status = fs::status(mock::text(path), code);
  if (isDirectory) *isDirectory = fs::is_directory(status);
  return fs::exists(status);
}
- (BOOL)removeItemAtPath:(NSString*)path error:(NSError**)error {
  std::error_code code;
  const auto removed = fs::remove_all(mock::text(path), code);
  if (!code && removed == 0) code = std::make_error_code(std::errc::no_such_file_or_directory);
  return !failed(code, path, error);
}
- (BOOL)removeItemAtURL:(NSURL*)url error:(NSError**)error {
  return [self removeItemAtPath:url.path error:error];
}
- (BOOL)createDirectoryAtPath:(NSString*)path
    withIntermediateDirectories:(BOOL)createIntermediates
                     attributes:(NSDictionary*)attributes
                          error:(NSError**)error {
  (void)attributes;
  std::error_code code;
  if (createIntermediates)
    fs::create_directories(mock::text(path), code);
  else if (!fs::create_directory(mock::text(path), code) && !code)
    code = std::make_error_code(std::errc::file_exists);
  return !failed(code, path, error);
}
- (BOOL)moveItemAtPath:(NSString*)from toPath:(NSString*)to error:(NSError**)error {
  std::error_code code;
  if (fs::exists(mock::text(to)))
    code = std::make_error_code(std::errc::file_exists);
  else
    fs::rename(mock::text(from), mock::text(to), code);
  return !failed(code, to, error);
}
- (NSArray<NSString*>*)contentsOfDirectoryAtPath:(NSString*)path error:(NSError**)error {
  std::error_code code;
  NSMutableArray<NSString*>* const names = [NSMutableArray array];
  fs::directory_iterator entries(mock::text(path), code);
  if (failed(code, path, error)) return nil;
  for (const fs::directory_entry& entry : entries) [names addObject:mock::string(entry.path().filename().string())];
  return names;
}
@end

NSString* NSTemporaryDirectory(void) { return mock::string((fs::temp_directory_path() / "").string()); }
