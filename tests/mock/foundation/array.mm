// NSArray over std::vector<id>, whose elements ARC retains.
#import <Foundation/Foundation.h>

#include <algorithm>
#include <vector>

#include "support.h"

@interface NSArray () {
 @protected
  std::vector<id> _objects;
  unsigned long _mutations;
}
@end

static id present(id object) {
  if (!object) [NSException raise:NSInvalidArgumentException format:@"an array cannot hold nil"];
  return object;
}

static void check_index(NSUInteger index, NSUInteger count) {
  if (index < count) return;
  [NSException raise:NSRangeException format:@"index %lu is out of range for an array of %lu objects", index, count];
}

@implementation NSArray

+ (instancetype)array {
  return [[self alloc] init];
}
+ (instancetype)arrayWithObject:(id)object {
  return [[self alloc] initWithObjects:&object count:1];
}
+ (instancetype)arrayWithObjects:(id)first, ... {
  NSArray* const array = [[self alloc] init];
  va_list rest;
  va_start(rest, first);
  for (id object = first; object; object = va_arg(rest, id)) array->_objects.push_back(object);
  va_end(rest);
  return array;
}
+ (instancetype)arrayWithObjects:(const id[])objects count:(NSUInteger)count {
  return [[self alloc] initWithObjects:objects count:count];
}
+ (instancetype)arrayWithArray:(NSArray*)array {
  return [[self alloc] initWithArray:array];
}
- (instancetype)initWithObjects:(const id[])objects count:(NSUInteger)count {
  if ((self = [self init])) {
    for (NSUInteger i = 0; i < count; ++i) _objects.push_back(present(objects[i]));
  }
  return self;
}
- (instancetype)initWithArray:(NSArray*)array {
  if ((self = [self init]) && array) _objects = array->_objects;
  return self;
}

- (NSUInteger)count {
  return _objects.size();
}
- (id)objectAtIndex:(NSUInteger)index {
  check_index(index, _objects.size());
  return _objects[index];
}
- (id)objectAtIndexedSubscript:(NSUInteger)index {
  return [self objectAtIndex:index];
}
- (id)firstObject {
  return _objects.empty() ? nil : _objects.front();
}
- (id)lastObject {
  return _objects.empty() ? nil : _objects.back();
}

- (NSUInteger)indexOfObject:(id)object {
  for (size_t i = 0; i < _objects.size(); ++i) {
    if (_objects[i] == object || [_objects[i] isEqual:object]) return i;
  }
  return NSNotFound;
}
- (NSUInteger)indexOfObjectIdenticalTo:(id)object {
  for (size_t i = 0; i < _objects.size(); ++i) {
    if (_objects[i] == object) return i;
  }
  return NSNotFound;
}
- (BOOL)containsObject:(id)object {
  return [self indexOfObject:object] != NSNotFound;
}
- (BOOL)isEqualToArray:(NSArray*)array {
  return array && std::equal(_objects.begin(), _objects.end(), array->_objects.begin(), array->_objects.end(),
                             [](id a, id b) { return a == b || [a isEqual:b]; });
}
- (BOOL)isEqual:(id)object {
  return self == object || ([object isKindOfClass:[NSArray class]] && [self isEqualToArray:object]);
}
- (NSUInteger)hash {
  return _objects.size();
}

- (NSArray*)arrayByAddingObject:(id)object {
  NSArray* const array = [[NSArray alloc] initWithArray:self];
  array->_objects.push_back(present(object));
  return array;
}
- (NSArray*)arrayByAddingObjectsFromArray:(NSArray*)other {
  NSArray* const array = [[NSArray alloc] initWithArray:self];
  array->_objects.insert(array->_objects.end(), other->_objects.begin(), other->_objects.end());
  return array;
}
- (NSArray*)subarrayWithRange:(NSRange)range {
  if (range.location > _objects.size() || range.length > _objects.size() - range.location) {
    [NSException raise:NSRangeException
                format:@"range of %lu objects from index %lu is out of range for an array of %lu", range.length,
                       range.location, _objects.size()];
  }
  NSArray* const array = [[NSArray alloc] init];
  const auto begin = _objects.begin() + static_cast<ptrdiff_t>(range.location);
  array->_objects.assign(begin, begin + static_cast<ptrdiff_t>(range.length));
  return array;
}
- (NSArray*)sortedArrayUsingComparator:(NSComparator NS_NOESCAPE)comparator {
  NSMutableArray* const array = [self mutableCopy];
  [array sortUsingComparator:comparator];
  return [array copy];
}
- (NSString*)componentsJoinedByString:(NSString*)separator {
  NSMutableString* const joined = [NSMutableString string];
  for (size_t i = 0; i < _objects.size(); ++i) {
    if (i > 0) [joined appendString:separator];
    [joined appendString:[_objects[i] description]];
  }
  return joined;
}
- (NSString*)description {
  return [NSString stringWithFormat:@"(%@)", [self componentsJoinedByString:@", "]];
}

- (void)enumerateObjectsUsingBlock:(void(NS_NOESCAPE ^)(id object, NSUInteger index, BOOL* stop))block {
  BOOL stop = NO;
  NSUInteger index = 0;
  for (id object in self) {
    block(object, index++, &stop);
    if (stop) return;
  }
}
- (NSUInteger)countByEnumeratingWithState:(NSFastEnumerationState*)state
                                  objects:(id __unsafe_unretained[])buffer
                                    count:(NSUInteger)count {
  state->mutationsPtr = &_mutations;
  state->itemsPtr = buffer;
  NSUInteger given = 0;
  for (; given < count && state->state < _objects.size(); ++given) buffer[given] = _objects[state->state++];
  return given;
}

- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  return self;
}
- (id)mutableCopyWithZone:(NSZone*)zone {
  (void)zone;
  return [[NSMutableArray alloc] initWithArray:self];
}
@end

@implementation NSMutableArray

+ (instancetype)arrayWithCapacity:(NSUInteger)capacity {
  return [[self alloc] initWithCapacity:capacity];
}
- (instancetype)initWithCapacity:(NSUInteger)capacity {
  if ((self = [self init])) _objects.reserve(capacity);
  return self;
}
- (void)addObject:(id)object {
  _objects.push_back(present(object));
  ++_mutations;
}
- (void)addObjectsFromArray:(NSArray*)array {
  for (id object in [array copy]) [self addObject:object];
}
- (void)insertObject:(id)object atIndex:(NSUInteger)index {
  check_index(index, _objects.size() + 1);
  _objects.insert(_objects.begin() + static_cast<ptrdiff_t>(index), present(object));
  ++_mutations;
}
- (void)removeObjectAtIndex:(NSUInteger)index {
  check_index(index, _objects.size());
  const id removed = _objects[index];  // keeps it alive: its deallocation may run code that accesses this array
  (void)removed;
  _objects.erase(_objects.begin() + static_cast<ptrdiff_t>(index));
  ++_mutations;
}
- (void)removeObject:(id)object {
  for (NSUInteger at = [self indexOfObject:object]; at != NSNotFound; at = [self indexOfObject:object]) {
    [self removeObjectAtIndex:at];
  }
}
- (void)removeLastObject {
  if (_objects.empty()) [NSException raise:NSRangeException format:@"removeLastObject: the array is empty"];
  [self removeObjectAtIndex:_objects.size() - 1];
}
- (void)removeAllObjects {
  std::vector<id> removed;
  removed.swap(_objects);
  ++_mutations;
}
- (void)replaceObjectAtIndex:(NSUInteger)index withObject:(id)object {
  check_index(index, _objects.size());
  id replaced = present(object);
  std::swap(_objects[index], replaced);
}
- (void)setObject:(id)object atIndexedSubscript:(NSUInteger)index {
  if (index == _objects.size())
    [self addObject:object];
  else
    [self replaceObjectAtIndex:index withObject:object];
}
- (void)sortUsingComparator:(NSComparator NS_NOESCAPE)comparator {
  std::stable_sort(_objects.begin(), _objects.end(),
                   [&](id a, id b) { return comparator(a, b) == NSOrderedAscending; });
  ++_mutations;
}
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  return [[NSArray alloc] initWithArray:self];
}
@end
