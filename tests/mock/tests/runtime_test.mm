// Tests of the mock's Objective-C runtime: classes, messages, ARC, and weak references.
#import <Foundation/Foundation.h>

#include <objc/message.h>
#include <objc/runtime.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "mock_check.h"

using check::dies_saying;
using check::leaves;
using check::raised_by;
using check::text;

// --- Classes and messages -------------------------------------------------------------------------------------------

@protocol Named
@property(copy) NSString* name;
@end
@protocol Aged <Named>
- (int)age;
@optional
- (int)height;
@end

static std::atomic<int> initialized{0}, loaded{0}, deallocated{0};

struct Four {
  double a, b, c, d;
};
struct Mixed {
  long whole;
  double part;
};
typedef float Vector __attribute__((vector_size(16)));

@interface Animal : NSObject <Aged> {
 @protected
  char _tag;
  Vector _vector;  // This member must be aligned, although an inherited pointer and a byte precede it.
  unsigned _low : 3, _high : 5;
  std::vector<int> _numbers;
}
@property(copy) NSString* name;
@property(nonatomic, strong) NSObject* friend_;
@property(class) int population;
@property Mixed mixed;
- (Four)four:(double)scale;
- (long double)precise;
- (double)sum:(int)a
         with:(double)b
          and:(long)c
          and:(float)d
          and:(long)e
          and:(long)f
          and:(long)g
          and:(long)h
          and:(double)i;
@end

@implementation Animal
static int population = 0;
+ (void)load {
  ++loaded;
}
+ (void)initialize {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ++initialized;
}
+ (int)population {
  return population;
}
+ (void)setPopulation:(int)value {
  population = value;
}
- (instancetype)init {
  if ((self = [super init])) {
    _vector = Vector{1, 2, 3, 4};
    _low = 5, _high = 17;
    _numbers = {1, 2, 3};
    _tag = 't';
  }
  return self;
}
- (void)dealloc {
  ++deallocated;
}
- (int)age {
  return 3;
}
- (Four)four:(double)scale {
  return {scale, 2 * scale, 3 * scale, 4 * scale};
}
- (long double)precise {
  return 1.25L;
}
- (double)sum:(int)a
         with:(double)b
          and:(long)c
          and:(float)d
          and:(long)e
          and:(long)f
          and:(long)g
          and:(long)h
          and:(double)i {
  return a + b + static_cast<double>(c) + d + static_cast<double>(e + f + g + h) + i;
}
- (BOOL)intact {
  return _vector[3] == 4 && _low == 5 && _high == 17 && _numbers.size() == 3 && _tag == 't' &&
         reinterpret_cast<uintptr_t>(&_vector) % alignof(Vector) == 0;
}
@end

@interface Dog : Animal
@property int legs;
@end
@implementation Dog
- (int)age {
  return [super age] + 4;
}
- (instancetype)init {
  if ((self = [super init])) _legs = 4;
  return self;
}
@end

@interface Animal (More)
- (NSString*)shout;
+ (instancetype)named:(NSString*)name;
@end
@implementation Animal (More)
- (NSString*)shout {
  return [self.name stringByAppendingString:@"!"];
}
+ (instancetype)named:(NSString*)name {
  Animal* const made = [[self alloc] init];
  made.name = name;
  return made;
}
@end

TEST(initialize_runs_once_before_the_first_message) {
  CHECK_EQUAL(loaded.load(), 1);
  CHECK_EQUAL(initialized.load(), 0);
  std::vector<std::thread> threads;
  std::atomic<bool> early{false};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      [Dog population];
      if (initialized != 2) early = true;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(!early);
  CHECK_EQUAL(initialized.load(), 2);  // Animal's +initialize ran once for Animal and once, inherited, for Dog.
}

TEST(classes_categories_and_properties) {
  CHECK_EQUAL(leaves([] {
                Dog* const dog = [Dog named:@"Rex"];
                CHECK_EQUAL(dog.age, 7);
                CHECK_EQUAL(dog.legs, 4);
                CHECK([dog intact]);
                CHECK_EQUAL(text(dog.shout), std::string("Rex!"));
                dog.mixed = {3, 0.5};
                CHECK(dog.mixed.whole == 3 && dog.mixed.part == 0.5);
                Dog.population = 12;
                CHECK_EQUAL(Animal.population, 12);
                NSMutableString* const name = [NSMutableString stringWithString:@"Bo"];
                dog.name = name;  // The property copies the string.
                [name appendString:@"b"];
                CHECK_EQUAL(text(dog.name), std::string("Bo"));
              }),
              0L);
}

TEST(reflection) {
  Dog* const dog = [[Dog alloc] init];
  CHECK([dog isKindOfClass:[Animal class]] && ![dog isMemberOfClass:[Animal class]]);
  CHECK([Dog isSubclassOfClass:[NSObject class]] && ![Animal isSubclassOfClass:[Dog class]]);
  CHECK([dog conformsToProtocol:@protocol(Aged)] && [dog conformsToProtocol:@protocol(Named)]);
  CHECK(![dog conformsToProtocol:@protocol(NSCopying)] && [Dog conformsToProtocol:@protocol(Named)]);
  CHECK([dog respondsToSelector:@selector(age)] && ![dog respondsToSelector:@selector(height)]);
  CHECK([Dog respondsToSelector:@selector(named:)] && [Dog instancesRespondToSelector:@selector(shout)]);
  CHECK(NSClassFromString(@"Dog") == [Dog class] && NSClassFromString(@"NoSuchClass") == nil);
  CHECK(class_getSuperclass([Dog class]) == [Animal class] && dog.superclass == [Animal class]);
  CHECK_EQUAL(text(NSStringFromSelector(@selector(sum:with:and:))), std::string("sum:with:and:"));
  CHECK(NSSelectorFromString(@"age") == sel_registerName("age"));
  CHECK_EQUAL(text([[Dog class] description]), std::string("Dog"));
  CHECK_EQUAL(text(NSStringFromProtocol(@protocol(Aged))), std::string("Aged"));
  CHECK(text([dog description]).starts_with("<Dog: 0x"));
  CHECK([dog performSelector:@selector(self)] == dog);
}

TEST(messages_pass_all_argument_and_result_types) {
  Animal* const animal = [[Animal alloc] init];
  CHECK_EQUAL([animal four:2].d, 8.0);
  CHECK(animal.precise == 1.25L);
  CHECK_EQUAL(([animal sum:1 with:2.5 and:3 and:4.5f and:5 and:6 and:7 and:8 and:9.5]), 46.5);
  Animal* const nobody = nil;
  CHECK_EQUAL([nobody four:2].c, 0.0);
  CHECK(nobody.precise == 0 && nobody.age == 0 && nobody.name == nil && nobody.mixed.part == 0);
  CHECK(([nobody sum:1 with:2.5 and:3 and:4.5f and:5 and:6 and:7 and:8 and:9.5] == 0));
  const auto age = reinterpret_cast<int (*)(id, SEL)>(objc_msgSend);
  CHECK_EQUAL(age(animal, @selector(age)), 3);
}

TEST(unknown_selector_raises) {
  const id animal = [[Animal alloc] init];
  @try {
    (void)[animal objectAtIndex:3];
    CHECK(false);
  } @catch (NSException* exception) {
    CHECK_EQUAL(text(exception.name), std::string("NSInvalidArgumentException"));
    CHECK(text(exception.reason).starts_with("-[Animal objectAtIndex:]: unrecognized selector"));
  }
  const id cls = [Animal class];
  CHECK_EQUAL(raised_by(^{ (void)[cls count]; }), std::string("NSInvalidArgumentException"));
}

// --- ARC ------------------------------------------------------------------------------------------------------------

TEST(objects_are_deallocated_with_their_last_reference) {
  deallocated = 0;
  CHECK_EQUAL(leaves([] {
                Animal* animal = [[Animal alloc] init];
                animal.friend_ = [[Animal alloc] init];
                __unsafe_unretained NSObject* const seen = animal.friend_;
                CHECK(seen != nil);
                NSArray* const array = @[ animal ];
                animal = nil;
                CHECK_EQUAL(deallocated.load(), 0);
                CHECK_EQUAL(array.count, 1ul);
              }),
              0L);
  CHECK_EQUAL(deallocated.load(), 2);
}

TEST(live_object_report_names_classes) {
  Animal* const animal = [[Animal alloc] init];
  CHECK(std::string(mock_live_objects_by_class()).find("Animal: 1\n") != std::string::npos);
  (void)animal;
}

struct Holder {
  NSString* string;
  __weak Animal* animal;
};

TEST(cplusplus_values_retain_objects) {
  CHECK_EQUAL(leaves([] {
                std::vector<id> objects;
                for (int i = 0; i < 100; ++i) objects.push_back([[Animal alloc] init]);
                objects.erase(objects.begin(), objects.begin() + 50);
                std::map<std::string, NSArray*> map{{"a", @[ objects[0] ]}};
                const std::function<NSUInteger()> count = [map] { return map.at("a").count; };
                CHECK_EQUAL(count(), 1ul);
                Animal* const animal = objects[3];
                std::vector<Holder> holders(10, Holder{@"a string", animal});
                holders.resize(1000);
                CHECK(holders[9].animal == animal && holders[10].animal == nil);
                auto shared = std::make_shared<Holder>(holders[0]);
                CHECK(shared->animal == animal);
              }),
              0L);
}

TEST(autorelease_pools_release_objects) {
  deallocated = 0;
  const long missing = mock_autoreleases_without_pool();
  @autoreleasepool {
    (void)[Animal named:@"a"].shout;
    @autoreleasepool {
      (void)[Animal named:@"b"].shout;
    }
    CHECK(deallocated >= 1);
  }
  CHECK_EQUAL(deallocated.load(), 2);
  CHECK_EQUAL(mock_autoreleases_without_pool(), missing);
  const long before = mock_live_objects();
  std::thread([] { (void)[NSArray arrayWithObject:[Animal named:@"c"]]; }).join();
  CHECK(mock_autoreleases_without_pool() > missing);
  CHECK_EQUAL(mock_live_objects(), before);  // The objects were released when their thread ended.
  @try {
    @autoreleasepool {
      @autoreleasepool {
        (void)[Animal named:@"d"].shout;
        [NSException raise:NSGenericException format:@"out of two pools"];
      }
    }
  } @catch (NSException*) {
  } @
  autoreleasepool {}
}

// --- Weak references ------------------------------------------------------------------------------------------------

static __weak Animal* seen_by_dealloc;  // Read while its object is being deallocated.
static bool was_nil_in_dealloc;
@interface Looker : Animal
@end
@implementation Looker
- (void)dealloc {
  was_nil_in_dealloc = seen_by_dealloc == nil;
}
@end

@interface Clinger : NSObject
@end
@implementation Clinger
- (void)dealloc {
  __weak Clinger* weak = self;
  (void)weak;
}
@end

TEST(weak_references_become_nil) {
  CHECK_EQUAL(leaves([] {
                __weak Animal* weak = nil;
                @autoreleasepool {
                  Animal* const animal = [[Animal alloc] init];
                  weak = animal;
                  CHECK(weak == animal);
                }
                CHECK(weak == nil);
                __weak NSString* const literal = @"a literal lives forever";
                CHECK(literal != nil);
                __weak id weak_block = nil;
                @autoreleasepool {
                  Animal* const captured = [[Animal alloc] init];
                  id const block = [^{ (void)captured; } copy];
                  weak_block = block;
                  CHECK(weak_block == block);
                }
                CHECK(weak_block == nil);
                @autoreleasepool {
                  Looker* const looker = [[Looker alloc] init];
                  seen_by_dealloc = looker;
                }
                CHECK(seen_by_dealloc == nil && was_nil_in_dealloc);
              }),
              0L);
  CHECK(dies_saying("weak reference to an instance of Clinger", [] { (void)[[Clinger alloc] init]; }));
}

TEST(weak_references_break_cycles) {
  CHECK_EQUAL(leaves([] {
                Animal* const animal = [[Animal alloc] init];
                __weak Animal* const weak = animal;
                static void (^kept)(void);
                kept = ^{
                  Animal* const strong = weak;
                  (void)strong;
                };
                animal.friend_ = static_cast<id>(kept);
                kept();
                kept = nil;
              }),
              0L);
}

TEST(weak_references_on_many_threads) {
  CHECK_EQUAL(leaves([] {
                for (int round = 0; round < 200; ++round) {
                  __block Animal* shared = [[Animal alloc] init];
                  __weak Animal* const weak = shared;
                  std::vector<std::thread> threads;
                  std::atomic<int> wrong{0};
                  for (int i = 0; i < 3; ++i) {
                    threads.emplace_back([&] {
                      @autoreleasepool {
                        for (int k = 0; k < 20; ++k) {
                          Animal* const strong = weak;
                          if (strong && ![strong intact]) ++wrong;
                          __weak Animal* const copy = strong;
                          (void)copy;
                        }
                      }
                    });
                  }
                  shared = nil;
                  for (std::thread& thread : threads) thread.join();
                  CHECK_EQUAL(wrong.load(), 0);
                  CHECK(weak == nil);
                }
              }),
              0L);
}

TEST(retain_and_autorelease_on_many_threads) {
  deallocated = 0;
  CHECK_EQUAL(leaves([] {
                Animal* const shared = [[Animal alloc] init];
                shared.friend_ = [[NSObject alloc] init];
                std::vector<std::thread> threads;
                for (int i = 0; i < 4; ++i) {
                  threads.emplace_back([=] {
                    @autoreleasepool {
                      for (int k = 0; k < 1000; ++k) {
                        NSArray* const array = @[ shared, [NSNumber numberWithInt:k + 1000] ];
                        Animal* const again = array[0];
                        shared.name = [NSString stringWithFormat:@"thread %d", k];  // name is an atomic property.
                        if (again.name.length < 8) abort();
                      }
                    }
                  });
                }
                for (std::thread& thread : threads) thread.join();
              }),
              0L);
  CHECK_EQUAL(deallocated.load(), 1);
}

int main() { return check::run_all(); }
