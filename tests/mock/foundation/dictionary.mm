// NSDictionary and NSSet: a vector of entries in insertion order, and an index by hash and isEqual:.
//
// Both enumerate from the newest entry to the oldest. This is reproducible but never insertion order, which exposes
// code that relies on insertion order.
#import <Foundation/Foundation.h>

#include <unordered_map>
#include <vector>

#include "support.h"

namespace {

struct Hash {
  size_t operator()(id key) const { return [key hash]; }
};
struct Equal {
  bool operator()(id a, id b) const { return a == b || [a isEqual:b]; }
};

// Keys and values; a set uses only the keys.
class Entries {
 public:
  struct Entry {
    id key, value;
  };

  size_t size() const { return entries_.size(); }
  const Entry& newest(size_t i) const { return entries_[entries_.size() - 1 - i]; }
  unsigned long mutations = 0;

  const Entry* find(id key) const {
    const auto found = key ? index_.find(key) : index_.end();
    return found == index_.end() ? nullptr : &entries_[found->second];
  }

  void set(id key, id value, bool copies_key) {
    const auto found = index_.find(key);
    if (found != index_.end()) {
      std::swap(entries_[found->second].value, value);
      return;
    }
    const id kept = copies_key ? [key copy] : key;
    entries_.push_back({kept, value});
    index_.emplace(kept, entries_.size() - 1);
    ++mutations;
  }

  void remove(id key) {
    const auto found = key ? index_.find(key) : index_.end();
    if (found == index_.end()) return;
    const size_t at = found->second;
    const Entry removed = entries_[at];  // keeps it alive until the tables are consistent
    index_.erase(found);
    entries_.erase(entries_.begin() + static_cast<ptrdiff_t>(at));
    for (auto& [other, position] : index_) {
      if (position > at) --position;
    }
    ++mutations;
  }

  void clear() {
    Entries removed;
    std::swap(removed.entries_, entries_);
    std::swap(removed.index_, index_);
    ++mutations;
  }

  NSUInteger enumerate(NSFastEnumerationState* state, id __unsafe_unretained buffer[], NSUInteger count) {
    state->mutationsPtr = &mutations;
    state->itemsPtr = buffer;
    NSUInteger given = 0;
    for (; given < count && state->state < size(); ++given) buffer[given] = newest(state->state++).key;
    return given;
  }

 private:
  std::vector<Entry> entries_;
  std::unordered_map<id, size_t, Hash, Equal> index_;
};

}  // namespace

@interface NSDictionary () {
 @protected
  Entries _entries;
}
@end

static void set(Entries& entries, id key, id object) {
  if (!key) [NSException raise:NSInvalidArgumentException format:@"a dictionary cannot have nil as a key"];
  if (!object) [NSException raise:NSInvalidArgumentException format:@"a dictionary cannot hold nil (key %@)", key];
  entries.set(key, object, true);
}

@implementation NSDictionary

+ (instancetype)dictionary {
  return [[self alloc] init];
}
+ (instancetype)dictionaryWithObject:(id)object forKey:(id)key {
  return [[self alloc] initWithObjects:&object forKeys:&key count:1];
}
+ (instancetype)dictionaryWithObjects:(const id[])objects forKeys:(const id<NSCopying>[])keys count:(NSUInteger)count {
  return [[self alloc] initWithObjects:objects forKeys:keys count:count];
}
+ (instancetype)dictionaryWithObjects:(NSArray*)objects forKeys:(NSArray*)keys {
  if (objects.count != keys.count) {
    [NSException raise:NSInvalidArgumentException
                format:@"expected as many objects as keys, got %lu objects and %lu keys", objects.count, keys.count];
  }
  NSDictionary* const dictionary = [[self alloc] init];
  for (NSUInteger i = 0; i < keys.count; ++i) set(dictionary->_entries, keys[i], objects[i]);
  return dictionary;
}
+ (instancetype)dictionaryWithDictionary:(NSDictionary*)dictionary {
  return [[self alloc] initWithDictionary:dictionary];
}
- (instancetype)initWithObjects:(const id[])objects forKeys:(const id<NSCopying>[])keys count:(NSUInteger)count {
  if ((self = [self init])) {
    for (NSUInteger i = 0; i < count; ++i) {
      if (!_entries.find(keys[i])) set(_entries, keys[i], objects[i]);  // the first one of equal keys wins
    }
  }
  return self;
}
- (instancetype)initWithDictionary:(NSDictionary*)dictionary {
  if ((self = [self init]) && dictionary) _entries = dictionary->_entries;
  return self;
}

- (NSUInteger)count {
  return _entries.size();
}
- (id)objectForKey:(id)key {
  const Entries::Entry* const entry = _entries.find(key);
  return entry ? entry->value : nil;
}
- (id)objectForKeyedSubscript:(id)key {
  return [self objectForKey:key];
}
- (NSArray*)allKeys {
  NSMutableArray* const keys = [NSMutableArray array];
  for (size_t i = 0; i < _entries.size(); ++i) [keys addObject:_entries.newest(i).key];
  return keys;
}
- (NSArray*)allValues {
  NSMutableArray* const values = [NSMutableArray array];
  for (size_t i = 0; i < _entries.size(); ++i) [values addObject:_entries.newest(i).value];
  return values;
}
- (BOOL)isEqualToDictionary:(NSDictionary*)other {
  if (!other || other.count != self.count) return NO;
  for (id key in self) {
    if (![[self objectForKey:key] isEqual:[other objectForKey:key]]) return NO;
  }
  return YES;
}
- (BOOL)isEqual:(id)object {
  return self == object || ([object isKindOfClass:[NSDictionary class]] && [self isEqualToDictionary:object]);
}
- (NSUInteger)hash {
  return _entries.size();
}
- (NSString*)description {
  NSMutableString* const text = [NSMutableString stringWithString:@"{"];
  for (id key in self) [text appendFormat:@"%@ = %@; ", key, [self objectForKey:key]];
  [text appendString:@"}"];
  return text;
}
- (void)enumerateKeysAndObjectsUsingBlock:(void(NS_NOESCAPE ^)(id key, id object, BOOL* stop))block {
  BOOL stop = NO;
  for (id key in self) {
    block(key, [self objectForKey:key], &stop);
    if (stop) return;
  }
}
- (NSUInteger)countByEnumeratingWithState:(NSFastEnumerationState*)state
                                  objects:(id __unsafe_unretained[])buffer
                                    count:(NSUInteger)count {
  return _entries.enumerate(state, buffer, count);
}
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  return self;
}
- (id)mutableCopyWithZone:(NSZone*)zone {
  (void)zone;
  return [[NSMutableDictionary alloc] initWithDictionary:self];
}
@end

@implementation NSMutableDictionary
+ (instancetype)dictionaryWithCapacity:(NSUInteger)capacity {
  return [[self alloc] initWithCapacity:capacity];
}
- (instancetype)initWithCapacity:(NSUInteger)capacity {
  (void)capacity;
  return [self init];
}
- (void)setObject:(id)object forKey:(id)key {
  set(_entries, key, object);
}
- (void)setObject:(id)object forKeyedSubscript:(id)key {
  if (object)
    set(_entries, key, object);
  else
    [self removeObjectForKey:key];
}
- (void)addEntriesFromDictionary:(NSDictionary*)dictionary {
  for (id key in dictionary) set(_entries, key, dictionary[key]);
}
- (void)removeObjectForKey:(id)key {
  _entries.remove(key);
}
- (void)removeAllObjects {
  _entries.clear();
}
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  return [[NSDictionary alloc] initWithDictionary:self];
}
@end

@interface NSSet () {
 @protected
  Entries _entries;
}
@end

static void add(Entries& entries, id object) {
  if (!object) [NSException raise:NSInvalidArgumentException format:@"a set cannot hold nil"];
  if (!entries.find(object)) entries.set(object, nil, false);
}

@implementation NSSet
+ (instancetype)set {
  return [[self alloc] init];
}
+ (instancetype)setWithArray:(NSArray*)array {
  return [[self alloc] initWithArray:array];
}
+ (instancetype)setWithObjects:(id)first, ... {
  NSSet* const set = [[self alloc] init];
  va_list rest;
  va_start(rest, first);
  for (id object = first; object; object = va_arg(rest, id)) add(set->_entries, object);
  va_end(rest);
  return set;
}
- (instancetype)initWithArray:(NSArray*)array {
  if ((self = [self init])) {
    for (id object in array) add(_entries, object);
  }
  return self;
}
- (NSUInteger)count {
  return _entries.size();
}
- (NSArray*)allObjects {
  NSMutableArray* const objects = [NSMutableArray array];
  for (id object in self) [objects addObject:object];
  return objects;
}
- (id)member:(id)object {
  const Entries::Entry* const entry = _entries.find(object);
  return entry ? entry->key : nil;
}
- (BOOL)containsObject:(id)object {
  return _entries.find(object) != nullptr;
}
- (BOOL)isEqualToSet:(NSSet*)other {
  if (!other || other.count != self.count) return NO;
  for (id object in self) {
    if (![other containsObject:object]) return NO;
  }
  return YES;
}
- (BOOL)isEqual:(id)object {
  return self == object || ([object isKindOfClass:[NSSet class]] && [self isEqualToSet:object]);
}
- (NSUInteger)hash {
  return _entries.size();
}
- (NSString*)description {
  return [NSString stringWithFormat:@"{(%@)}", [self.allObjects componentsJoinedByString:@", "]];
}
- (NSUInteger)countByEnumeratingWithState:(NSFastEnumerationState*)state
                                  objects:(id __unsafe_unretained[])buffer
                                    count:(NSUInteger)count {
  return _entries.enumerate(state, buffer, count);
}
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  return self;
}
- (id)mutableCopyWithZone:(NSZone*)zone {
  (void)zone;
  return [[NSMutableSet alloc] initWithArray:self.allObjects];
}
@end

@implementation NSMutableSet
- (void)addObject:(id)object {
  add(_entries, object);
}
- (void)removeObject:(id)object {
  _entries.remove(object);
}
- (void)removeAllObjects {
  _entries.clear();
}
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  return [[NSSet alloc] initWithArray:self.allObjects];
}
@end
