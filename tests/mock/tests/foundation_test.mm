// Tests of the mock's Foundation classes against Apple's documentation.
#import <Foundation/Foundation.h>

#include <cmath>
#include <limits>

#include "mock_check.h"

using check::leaves;
using check::raised_by;
using check::text;

TEST(strings_are_formatted_like_printf) {
  CHECK_EQUAL(text([NSString stringWithFormat:@"%@ %d %s %lu %lld %zu %5.2f|%-4d|%04x %c %%", @[ @1, @2.5 ], 7, "x",
                                              9ul, -5ll, sizeof(int), 3.14159, 42, 255, 'c']),
              std::string("(1, 2.5) 7 x 9 -5 4  3.14|42  |00ff c %"));
  CHECK_EQUAL(text([NSString stringWithFormat:@"%*d %.*f %p %Lg", 4, 7, 2, 1.0, static_cast<void*>(nullptr), 2.5L]),
              std::string("   7 1.00 (nil) 2.5"));
  NSString* const none = nil;
  CHECK_EQUAL(text([NSString stringWithFormat:@"%@ %@", none, [NSNull null]]), std::string("(null) <null>"));
  CHECK_EQUAL(text([[NSString alloc] initWithFormat:@"%@%@", @"größer ", @1]), std::string("größer 1"));
  CHECK_EQUAL(text([@"a" stringByAppendingFormat:@"-%s", "é"]), std::string("a-é"));
}

TEST(strings_count_utf16_units) {
  NSString* const string = @"aé→𝄞z";
  CHECK_EQUAL(string.length, 6ul);
  CHECK([string characterAtIndex:2] == 0x2192 && [string characterAtIndex:3] == 0xD834);
  CHECK([string characterAtIndex:4] == 0xDD1E && [string characterAtIndex:5] == 'z' &&
        [string characterAtIndex:1] == 0xE9);
  CHECK_EQUAL(raised_by(^{ (void)[string characterAtIndex:6]; }), std::string("NSRangeException"));
  CHECK_EQUAL(text([string substringFromIndex:2]), std::string("→𝄞z"));
  CHECK_EQUAL(text([string substringToIndex:2]), std::string("aé"));
  CHECK_EQUAL(text([string substringWithRange:NSMakeRange(1, 2)]), std::string("é→"));
  const NSRange found = [string rangeOfString:@"z"];
  CHECK(found.location == 5 && found.length == 1);
  CHECK([string rangeOfString:@"q"].location == NSNotFound);
  CHECK_EQUAL([string lengthOfBytesUsingEncoding:NSUTF8StringEncoding], 11ul);
  CHECK([string cStringUsingEncoding:NSASCIIStringEncoding] == nullptr);
  const char latin1[] = "\xE9";
  CHECK([NSString stringWithUTF8String:latin1] == nil);
  CHECK([NSString stringWithCString:"\xC3\xA9" encoding:NSASCIIStringEncoding] == nil);
}

TEST(strings_are_compared_split_and_parsed) {
  NSString* const path = @"/var/dir/graph.mpsgraphpackage";
  CHECK([path hasPrefix:@"/var"] && [path hasSuffix:@"package"] && [path containsString:@"graph."]);
  CHECK(![path hasPrefix:@"tmp"] && ![@"a" hasSuffix:@"ab"] && ![path containsString:@"absent"]);
  CHECK_EQUAL(text(path.lastPathComponent), std::string("graph.mpsgraphpackage"));
  CHECK_EQUAL(text(path.pathExtension), std::string("mpsgraphpackage"));
  CHECK_EQUAL(text(path.stringByDeletingLastPathComponent), std::string("/var/dir"));
  CHECK_EQUAL(text([@"/var/" stringByAppendingPathComponent:@"a"]), std::string("/var/a"));
  CHECK_EQUAL(text([@"a" stringByAppendingPathComponent:@"/b"]), std::string("a/b"));
  CHECK_EQUAL(text(@"/".lastPathComponent), std::string("/"));
  CHECK_EQUAL(([@"1,2,,3" componentsSeparatedByString:@","].count), 4ul);
  CHECK_EQUAL(text([[@"1, 2" componentsSeparatedByString:@", "] componentsJoinedByString:@"+"]), std::string("1+2"));
  CHECK([@"a" compare:@"b"] == NSOrderedAscending && [@"b" compare:@"a"] == NSOrderedDescending);
  CHECK(@"42x".intValue == 42 && @"-7".integerValue == -7 && @"2.5e3".doubleValue == 2500 && @"YES".boolValue);
  CHECK(@"9000000000".longLongValue == 9000000000ll && @"0.25".floatValue == 0.25f && !@"no".boolValue);
  NSMutableString* const built = [NSMutableString string];
  [built appendString:@"a"];
  [built appendFormat:@"%d", 1];
  NSString* const fixed = [built copy];
  [built setString:@"other"];
  CHECK_EQUAL(text(fixed), std::string("a1"));
  CHECK([[@"x" mutableCopy] isKindOfClass:[NSMutableString class]] && [@"x" isEqual:[@"x" mutableCopy]]);
  CHECK([[NSString alloc] initWithData:[@"é" dataUsingEncoding:NSUTF8StringEncoding] encoding:NSUTF8StringEncoding]
            .length == 1);
}

TEST(numbers_are_equal_by_value) {
  CHECK([@1 isEqual:@1.0] && [@1 isEqual:@1u] && [@1 hash] == [@1.0 hash] && ![@1 isEqual:@2] && ![@1 isEqual:@"1"]);
  CHECK([@(-1) compare:@1u] == NSOrderedAscending && [@(~0ull) compare:@(-1)] == NSOrderedDescending);
  CHECK(![@(-1) isEqual:@(~0ull)]);
  CHECK(@(3.75).intValue == 3 && @(-2.5).longLongValue == -2 && @(300).unsignedCharValue == 44 && @(0.5).boolValue);
  CHECK_EQUAL(std::string(@(1.5f).objCType) + @(7).objCType + @(7ul).objCType, std::string("fiQ"));
  CHECK_EQUAL(text(@(0.1).stringValue) + text(@(0.1f).stringValue) + text(@(-3).stringValue), std::string("0.10.1-3"));
  CHECK_EQUAL(text(@(~0ull).description), std::string("18446744073709551615"));
  int x = 0;
  NSValue* const pointer = [NSValue valueWithPointer:&x];
  CHECK(pointer.pointerValue == &x && [pointer isEqual:[NSValue valueWithPointer:&x]] && ![pointer isEqual:@0]);
}

TEST(arrays_and_mutable_arrays) {
  NSArray<NSString*>* const array = @[ @"a", @"b", @"c" ];
  CHECK(array.count == 3 && [array.firstObject isEqual:@"a"] && [array.lastObject isEqual:@"c"] &&
        @[].firstObject == nil);
  CHECK_EQUAL(([array indexOfObject:[NSString stringWithFormat:@"%c", 'b']]), 1ul);
  CHECK([array indexOfObject:@"z"] == NSNotFound && [array containsObject:@"c"]);
  CHECK_EQUAL(raised_by(^{ (void)array[3]; }), std::string("NSRangeException"));
  CHECK_EQUAL(raised_by(^{ (void)[array subarrayWithRange:NSMakeRange(2, 2)]; }), std::string("NSRangeException"));
  CHECK([[array subarrayWithRange:NSMakeRange(1, 2)] isEqual:(@[ @"b", @"c" ])]);
  CHECK([[array arrayByAddingObject:@"d"] isEqual:(@[ @"a", @"b", @"c", @"d" ])] && array.count == 3);
  CHECK(([[NSArray arrayWithObjects:@1, @2, nil] isEqual:@[ @1, @2 ]] && [array copy] == array));
  NSMutableArray* const list = [array mutableCopy];
  [list insertObject:@"first" atIndex:0];
  [list removeObject:@"b"];
  list[1] = @"A";
  list[3] = @"end";
  CHECK([list isEqual:(@[ @"first", @"A", @"c", @"end" ])]);
  [list sortUsingComparator:^(NSString* a, NSString* b) { return [b compare:a]; }];
  CHECK([list isEqual:(@[ @"first", @"end", @"c", @"A" ])]);
  [list removeLastObject];
  [list replaceObjectAtIndex:0 withObject:@0];
  [list addObjectsFromArray:list];
  CHECK_EQUAL(list.count, 6ul);
  CHECK([[list copy] isMemberOfClass:[NSArray class]]);
  [list removeAllObjects];
  CHECK_EQUAL(raised_by(^{ [list removeLastObject]; }), std::string("NSRangeException"));
  CHECK_EQUAL(raised_by(^{ [list removeObjectAtIndex:0]; }), std::string("NSRangeException"));
  CHECK_EQUAL(raised_by(^{ [list addObject:list.firstObject]; }), std::string("NSInvalidArgumentException"));
  __block NSUInteger seen = 0;
  [array enumerateObjectsUsingBlock:^(NSString*, NSUInteger index, BOOL* stop) {
    seen += index;
    *stop = index == 1;
  }];
  CHECK_EQUAL(seen, 1ul);
}

@interface Key : NSObject <NSCopying>
@property int value;
@property int copies;
@end
@implementation Key
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  Key* const copy = [[Key alloc] init];
  copy.value = self.value;
  copy.copies = self.copies + 1;
  return copy;
}
- (BOOL)isEqual:(id)object {
  return [object isKindOfClass:[Key class]] && [object value] == self.value;
}
- (NSUInteger)hash {
  return static_cast<NSUInteger>(self.value % 2);
}
@end

static Key* key(int value) {
  Key* const made = [[Key alloc] init];
  made.value = value;
  return made;
}

TEST(dictionaries_look_up_by_equality_and_copy_keys) {
  CHECK_EQUAL(leaves([] {
                NSMutableDictionary<Key*, NSNumber*>* const dictionary = [NSMutableDictionary dictionary];
                for (int i = 0; i < 20; ++i) dictionary[key(i)] = @(i * i);
                CHECK_EQUAL(dictionary[key(7)].intValue, 49);
                CHECK_EQUAL(dictionary.allKeys.firstObject.copies, 1);
                dictionary[key(7)] = @-7;
                CHECK(dictionary.count == 20 && dictionary[key(7)].intValue == -7);
                dictionary[key(3)] = nil;
                [dictionary removeObjectForKey:key(4)];
                [dictionary removeObjectForKey:key(100)];
                CHECK(dictionary.count == 18 && dictionary[key(3)] == nil && dictionary[key(19)].intValue == 361);
                int keys = 0;
                for (Key* each in dictionary) keys += each.value;
                CHECK_EQUAL(keys, 190 - 7);
                NSDictionary* const fixed = [dictionary copy];
                [dictionary removeAllObjects];
                CHECK(fixed.count == 18 && dictionary.count == 0 && [fixed isEqual:[fixed mutableCopy]]);
              }),
              0L);
}

TEST(dictionaries_compare_merge_and_reject_nil) {
  NSDictionary<NSString*, NSNumber*>* const dictionary = @{@"a" : @1, @"b" : @2, @"c" : @3};
  // The mock deliberately enumerates keys in another order; see NSDictionary.h.
  CHECK(![dictionary.allKeys isEqual:(@[ @"a", @"b", @"c" ])]);
  CHECK([dictionary isEqual:(@{@"c" : @3, @"b" : @2, @"a" : @1})] && ![dictionary isEqual:@{@"a" : @1}]);
  CHECK(([[NSDictionary dictionaryWithObjects:@[ @1, @2 ] forKeys:@[ @"x", @"y" ]][@"y"] isEqual:@2]));
  CHECK([[NSDictionary dictionaryWithObject:@1 forKey:@"x"] isEqual:@{@"x" : @1}]);
  CHECK(dictionary[@"absent"] == nil && [dictionary copy] == dictionary);
  NSMutableDictionary* const merged = [NSMutableDictionary dictionaryWithDictionary:dictionary];
  [merged addEntriesFromDictionary:@{@"a" : @10}];
  __block int sum = 0;
  [merged enumerateKeysAndObjectsUsingBlock:^(NSString*, NSNumber* value, BOOL*) { sum += value.intValue; }];
  CHECK_EQUAL(sum, 15);
  NSString* none = @[].firstObject;
  CHECK_EQUAL(raised_by(^{ merged[none] = @1; }), std::string("NSInvalidArgumentException"));
  CHECK_EQUAL(raised_by(^{ [merged setObject:none forKey:@"k"]; }), std::string("NSInvalidArgumentException"));
  CHECK_EQUAL(raised_by(^{ (void)[NSDictionary dictionaryWithObjects:@[ @1 ] forKeys:@[]]; }),
              std::string("NSInvalidArgumentException"));
}

TEST(mutable_sets) {
  NSMutableSet<NSNumber*>* const set = [[NSSet setWithArray:@[ @1, @2, @1.0 ]] mutableCopy];
  CHECK(set.count == 2 && [set containsObject:@2u] && ![set containsObject:@3]);
  [set addObject:@3];
  [set removeObject:@1];
  CHECK(([set isEqual:[NSSet setWithObjects:@3, @2, nil]] && [set member:@3.0] != nil && set.allObjects.count == 2));
}

TEST(data_copies_or_borrows_bytes) {
  CHECK_EQUAL(leaves([] {
                int values[] = {1, 2, 3};
                NSData* const copied = [NSData dataWithBytes:values length:sizeof values];
                values[0] = 9;
                CHECK_EQUAL(static_cast<const int*>(copied.bytes)[0], 1);
                __block NSUInteger released = 0;
                @autoreleasepool {
                  NSData* const borrowed = [[NSData alloc] initWithBytesNoCopy:values
                                                                        length:sizeof values
                                                                   deallocator:^(void* bytes, NSUInteger length) {
                                                                     if (static_cast<int*>(bytes)[0] == 9)
                                                                       released = length;
                                                                   }];
                  CHECK(borrowed.bytes == values && ![borrowed isEqual:copied]);
                  CHECK_EQUAL(released, 0ul);
                }
                CHECK_EQUAL(released, sizeof values);
                CHECK_EQUAL([NSData dataWithBytesNoCopy:malloc(4) length:4].length, 4ul);
                CHECK_EQUAL([NSData dataWithBytesNoCopy:values length:4 freeWhenDone:NO].bytes,
                            static_cast<void*>(values));
                int out[2];
                [copied getBytes:out range:NSMakeRange(4, 8)];
                CHECK(out[0] == 2 && out[1] == 3);
                CHECK_EQUAL(raised_by(^{ (void)[copied subdataWithRange:NSMakeRange(8, 8)]; }),
                            std::string("NSRangeException"));
                NSMutableData* const grown = [NSMutableData dataWithLength:4];
                [grown appendBytes:values length:4];
                [grown appendData:[copied subdataWithRange:NSMakeRange(0, 4)]];
                static_cast<int*>(grown.mutableBytes)[0] = 5;
                const int expected[] = {5, 9, 1};
                CHECK([grown isEqual:[NSData dataWithBytes:expected length:12]] && [[grown copy] isEqual:grown]);
                grown.length = 4;
                CHECK(grown.length == 4 && [NSData data].length == 0 && [[NSData data] isEqual:[NSMutableData data]]);
                NSMutableData* const own = [[NSMutableData alloc] initWithBytesNoCopy:values length:12 deallocator:nil];
                CHECK(own.bytes != values);
              }),
              0L);
}

TEST(errors_and_exceptions) {
  NSError* const error = [NSError errorWithDomain:@"MTLCommandBufferErrorDomain"
                                             code:8
                                         userInfo:@{NSLocalizedDescriptionKey : @"out of memory"}];
  CHECK_EQUAL(text(error.localizedDescription) + text(error.domain),
              std::string("out of memoryMTLCommandBufferErrorDomain"));
  CHECK_EQUAL(text([NSError errorWithDomain:@"D" code:3 userInfo:nil].localizedDescription),
              std::string("The operation couldn’t be completed. (D error 3.)"));
  NSException* const exception = [NSException exceptionWithName:@"N" reason:@"R" userInfo:@{@"k" : @1}];
  CHECK_EQUAL(raised_by(^{ [exception raise]; }), std::string("N"));
  CHECK([exception.userInfo[@"k"] isEqual:@1] && [error isEqual:[error copy]] && error.code == 8);
}

TEST(files_and_urls) {
  NSFileManager* const files = NSFileManager.defaultManager;
  NSString* const folder =
      [NSTemporaryDirectory() stringByAppendingFormat:@"mock-%d", NSProcessInfo.processInfo.processIdentifier];
  NSString* const file = [folder stringByAppendingPathComponent:@"a file"];
  NSError* error = nil;
  CHECK([files createDirectoryAtPath:folder withIntermediateDirectories:NO attributes:nil error:&error]);
  CHECK(![files createDirectoryAtPath:folder withIntermediateDirectories:NO attributes:nil error:&error] &&
        error != nil);
  CHECK([[@"text" dataUsingEncoding:NSUTF8StringEncoding] writeToFile:file options:NSDataWritingAtomic error:&error]);
  BOOL is_directory = NO;
  CHECK([files fileExistsAtPath:folder isDirectory:&is_directory] && is_directory);
  CHECK([files fileExistsAtPath:file isDirectory:&is_directory] && !is_directory);
  CHECK([[files contentsOfDirectoryAtPath:folder error:&error] isEqual:(@[ @"a file" ])]);
  CHECK_EQUAL([NSData dataWithContentsOfFile:file options:NSDataReadingMappedIfSafe error:&error].length, 4ul);
  CHECK([files moveItemAtPath:file toPath:[folder stringByAppendingPathComponent:@"b"] error:&error]);
  NSURL* const url = [NSURL fileURLWithPath:folder];
  CHECK(text(url.absoluteString).starts_with("file:///") && [url.absoluteString hasSuffix:@"/"]);
  NSURL* const inside = [url URLByAppendingPathComponent:@"c d.txt"];
  CHECK([inside.absoluteString hasSuffix:@"/c%20d.txt"] && [inside.pathExtension isEqual:@"txt"] && inside.isFileURL);
  CHECK_EQUAL(std::string(inside.fileSystemRepresentation), text(inside.path));
  CHECK([[NSURL fileURLWithPath:[folder stringByAppendingString:@"/"]] isEqual:url]);
  CHECK([files removeItemAtURL:url error:&error] && ![files fileExistsAtPath:folder]);
  error = nil;
  CHECK(![files removeItemAtPath:folder error:&error] && [error.domain isEqual:NSPOSIXErrorDomain] &&
        error.code == ENOENT);
  CHECK([NSData dataWithContentsOfFile:file options:0 error:nil] == nil);
}

TEST(process_info_reports_the_simulated_system) {
  NSProcessInfo* const info = NSProcessInfo.processInfo;
  const double before = mock_macos_version();
  mock_set_macos_version(13.3);
  const NSOperatingSystemVersion version = info.operatingSystemVersion;
  CHECK(version.majorVersion == 13 && version.minorVersion == 3);
  CHECK(([info isOperatingSystemAtLeastVersion:{13, 3, 0}] && ![info isOperatingSystemAtLeastVersion:{13, 4, 0}]));
  CHECK((![info isOperatingSystemAtLeastVersion:{14, 0, 0}] && [info isOperatingSystemAtLeastVersion:{12, 9, 9}]));
  CHECK(text(info.operatingSystemVersionString).starts_with("Version 13.3"));
  mock_set_macos_version(26.4);
  CHECK(info.operatingSystemVersion.minorVersion == 4);
  mock_set_macos_version(before);
  setenv("MOCK_FOUNDATION_TEST", "a=b", 1);
  CHECK_EQUAL(text(info.environment[@"MOCK_FOUNDATION_TEST"]), std::string("a=b"));
  CHECK(info.activeProcessorCount > 0 && info.physicalMemory > 0 && info.processIdentifier == getpid());
}

int main() { return check::run_all(); }
