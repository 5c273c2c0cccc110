// NSProcessInfo: the process and the (simulated) version of its operating system.
#pragma once
#include <Foundation/NSDictionary.h>

NS_ASSUME_NONNULL_BEGIN

typedef struct {
  NSInteger majorVersion, minorVersion, patchVersion;
} NSOperatingSystemVersion;

@interface NSProcessInfo : NSObject
@property(class, readonly, strong) NSProcessInfo* processInfo;
@property(readonly) NSOperatingSystemVersion operatingSystemVersion;
@property(readonly, copy) NSString* operatingSystemVersionString;
- (BOOL)isOperatingSystemAtLeastVersion:(NSOperatingSystemVersion)version;
@property(readonly, copy) NSDictionary<NSString*, NSString*>* environment;
@property(readonly) int processIdentifier;
@property(readonly) NSUInteger activeProcessorCount;
@property(readonly) unsigned long long physicalMemory;
@end

NS_ASSUME_NONNULL_END
