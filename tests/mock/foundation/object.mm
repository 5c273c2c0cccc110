// NSObject, and the classes of protocols and blocks. Compiled without ARC because it implements the functions that ARC
// calls.
#import <Foundation/Foundation.h>

#include <Block.h>
#include <objc/message.h>

#include "support.h"

extern "C" {
id objc_retain(id object);
void objc_release(id object);
id objc_autorelease(id object);
}

@implementation NSObject
+ (void)load {
}
+ (void)initialize {
}
+ (instancetype)alloc {
  return class_createInstance(self, 0);
}
+ (instancetype)allocWithZone:(NSZone*)zone {
  (void)zone;
  return [self alloc];
}
+ (instancetype)new {
  return [[self alloc] init];
}
- (instancetype)init {
  return self;
}
- (void)dealloc {
  object_dispose(self);
}

- (instancetype)retain {
  return objc_retain(self);
}
- (oneway void)release {
  objc_release(self);
}
- (instancetype)autorelease {
  return objc_autorelease(self);
}
- (NSUInteger)retainCount {
  return mock_retain_count(self);
}

// Classes are objects, too, but have no reference count and are their own copies.
+ (id)retain {
  return self;
}
+ (oneway void)release {
}
+ (id)autorelease {
  return self;
}
+ (id)copy {
  return self;
}
+ (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  return self;
}

+ (Class)class {
  return self;
}
+ (id)self {
  return self;
}
+ (Class)superclass {
  return class_getSuperclass(self);
}
+ (NSUInteger)hash {
  return reinterpret_cast<NSUInteger>(self) >> 4;
}
+ (BOOL)isEqual:(id)object {
  return self == object;
}
+ (NSString*)description {
  return NSStringFromClass(self);
}
+ (BOOL)instancesRespondToSelector:(SEL)selector {
  return class_respondsToSelector(self, selector);
}
+ (BOOL)conformsToProtocol:(Protocol*)protocol {
  return class_conformsToProtocol(self, protocol);
}
+ (BOOL)respondsToSelector:(SEL)selector {
  return class_respondsToSelector(object_getClass(self), selector);
}
+ (BOOL)isSubclassOfClass:(Class)cls {
  for (Class ancestor = self; ancestor; ancestor = class_getSuperclass(ancestor)) {
    if (ancestor == cls) return YES;
  }
  return NO;
}
+ (BOOL)isKindOfClass:(Class)cls {
  return cls == [NSObject class];
}
+ (void)doesNotRecognizeSelector:(SEL)selector {
  [NSException raise:NSInvalidArgumentException
              format:@"+[%s %s]: unrecognized selector sent to class", class_getName(self), sel_getName(selector)];
}

- (BOOL)isEqual:(id)object {
  return self == object;
}
- (NSUInteger)hash {
  return reinterpret_cast<NSUInteger>(self) >> 4;
}
- (Class)class {
  return object_getClass(self);
}
- (Class)superclass {
  return class_getSuperclass(object_getClass(self));
}
- (instancetype)self {
  return self;
}
- (BOOL)isKindOfClass:(Class)cls {
  return [object_getClass(self) isSubclassOfClass:cls];
}
- (BOOL)isMemberOfClass:(Class)cls {
  return object_getClass(self) == cls;
}
- (BOOL)conformsToProtocol:(Protocol*)protocol {
  return class_conformsToProtocol(object_getClass(self), protocol);
}
- (BOOL)respondsToSelector:(SEL)selector {
  return class_respondsToSelector(object_getClass(self), selector);
}
- (IMP)methodForSelector:(SEL)selector {
  return class_getMethodImplementation(object_getClass(self), selector);
}
- (id)performSelector:(SEL)selector {
  return reinterpret_cast<id (*)(id, SEL)>(objc_msgSend)(self, selector);
}
- (id)performSelector:(SEL)selector withObject:(id)object {
  return reinterpret_cast<id (*)(id, SEL, id)>(objc_msgSend)(self, selector, object);
}
- (id)copy {
  return [(id<NSCopying>)self copyWithZone:nullptr];
}
- (id)mutableCopy {
  return [(id<NSMutableCopying>)self mutableCopyWithZone:nullptr];
}
- (NSString*)description {
  return [NSString stringWithFormat:@"<%s: %p>", object_getClassName(self), static_cast<void*>(self)];
}
- (NSString*)debugDescription {
  return [self description];
}
- (void)doesNotRecognizeSelector:(SEL)selector {
  [NSException raise:NSInvalidArgumentException
              format:@"-[%s %s]: unrecognized selector sent to instance %p", object_getClassName(self),
                     sel_getName(selector), static_cast<void*>(self)];
}
@end

@interface Protocol : NSObject
@end
@implementation Protocol
+ (void)load {
  mock_make_instances_immortal(self);
}
@end

@interface NSBlock : NSObject <NSCopying>
@end
@implementation NSBlock
+ (void)load {
  mock_install_block_class(self);
}
- (id)copy {
  return static_cast<id>(_Block_copy(self));
}
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  return static_cast<id>(_Block_copy(self));
}
@end

@implementation NSNull
+ (NSNull*)null {
  static NSNull* const null = [] {
    NSNull* const made = [[NSNull alloc] init];
    mock_make_immortal(made);
    return made;
  }();
  return null;
}
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  return [self retain];
}
- (NSString*)description {
  return @"<null>";
}
@end

NSString* NSStringFromClass(Class cls) { return [NSString stringWithUTF8String:class_getName(cls)]; }
NSString* NSStringFromSelector(SEL selector) { return [NSString stringWithUTF8String:sel_getName(selector)]; }
NSString* NSStringFromProtocol(Protocol* protocol) {
  return [NSString stringWithUTF8String:protocol_getName(protocol)];
}
Class NSClassFromString(NSString* name) { return objc_getClass(name.UTF8String); }
SEL NSSelectorFromString(NSString* name) { return sel_registerName(name.UTF8String); }
