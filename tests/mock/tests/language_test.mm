// Tests of the Objective-C language on the mock's runtime: blocks, exceptions, locks, enumeration, and literals.
#import <Foundation/Foundation.h>

#include <Block.h>
#include <objc/runtime.h>

#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "mock_check.h"

using check::dies_saying;
using check::leaves;
using check::raised_by;
using check::text;

@interface Animal : NSObject
@property(copy) NSString* name;
+ (instancetype)named:(NSString*)name;
@end
@implementation Animal
+ (instancetype)named:(NSString*)name {
  Animal* const made = [[Animal alloc] init];
  made.name = name;
  return made;
}
@end

// --- Blocks ---------------------------------------------------------------------------------------------------------

static int (^adder(int by))(int) {
  return ^(int x) { return x + by; };
}

TEST(blocks_capture_and_copy_variables) {
  CHECK_EQUAL(leaves([] {
                int (^const add)(int) = adder(5);
                CHECK_EQUAL(add(3), 8);
                __block int count = 0;
                __block NSString* last = nil;
                Animal* const animal = [Animal named:@"captured"];
                void (^const step)(void) = ^{
                  ++count;
                  last = [animal.name stringByAppendingFormat:@" %d", count];
                };
                void (^const twice)(void) = [^{
                  step();
                  step();
                } copy];
                twice();
                step();
                CHECK_EQUAL(count, 3);
                CHECK_EQUAL(text(last), std::string("captured 3"));
                NSMutableArray* const blocks = [NSMutableArray array];
                for (int i = 0; i < 5; ++i) [blocks addObject:^{ return i * count; }];
                CHECK_EQUAL(((int (^)(void))blocks[4])(), 12);
                CHECK([blocks[0] isKindOfClass:NSClassFromString(@"NSBlock")]);
                CHECK([^{} copy] != nil);  // A block without captures is a global block.
                void* const by_hand = Block_copy((__bridge void*)step);
                Block_release(by_hand);
                // Copying the block moves this vector to the heap with its move constructor.
                __block std::vector<int> values{1, 2, 3};
                void (^const push)(void) = [^{ values.push_back(4); } copy];
                push();
                CHECK_EQUAL(values.size(), 4ul);
              }),
              0L);
}

TEST(block_variable_is_shared_between_copies) {
  CHECK_EQUAL(leaves([] {
                __block NSMutableArray* list = [NSMutableArray array];
                std::vector<void (^)(int)> blocks;
                for (int i = 0; i < 100; ++i) blocks.push_back(^(int x) { [list addObject:@(x)]; });
                std::vector<void (^)(int)> more = blocks;
                blocks.clear();
                for (const auto& block : more) block(1);
                CHECK_EQUAL(list.count, 100ul);
                list = nil;
              }),
              0L);
}

// --- Exceptions -----------------------------------------------------------------------------------------------------

struct Guard {
  int& count;
  ~Guard() { ++count; }
};

@interface SpecialException : NSException
@end
@implementation SpecialException
@end

TEST(exceptions_are_caught_by_class) {
  int unwound = 0, ended = 0;
  std::string caught;
  CHECK_EQUAL(leaves([&] {
                @try {
                  const Guard guard{unwound};
                  [SpecialException raise:NSRangeException format:@"number %d", 7];
                } @catch (NSString*) {
                  caught = "a string";
                } @catch (SpecialException* exception) {
                  caught = text(exception.name) + text(exception.reason);
                } @catch (id) {
                  caught = "an object";
                } @finally {
                  ++ended;
                }
              }),
              0L);
  CHECK_EQUAL(caught, std::string("NSRangeExceptionnumber 7"));
  CHECK(unwound == 1 && ended == 1);
  @try {
    @try {
      @throw @"any object";
    } @catch (NSException*) {
      CHECK(false);
    }
  } @catch (NSString* string) {
    CHECK_EQUAL(text(string), std::string("any object"));
  }
}

TEST(exceptions_are_rethrown) {
  int order = 0;
  CHECK_EQUAL(leaves([&] {
                @try {
                  @try {
                    [NSException raise:NSGenericException format:@"first"];
                  } @catch (NSException* exception) {
                    order = 1;
                    @throw;
                  }
                } @catch (NSException* exception) {
                  CHECK_EQUAL(text(exception.reason), std::string("first"));
                  CHECK_EQUAL(order, 1);
                }
              }),
              0L);
}

TEST(objc_and_cplusplus_exceptions_cross_each_others_frames) {
  int unwound = 0;
  CHECK_EQUAL(leaves([&] {
                Animal* const animal = [[Animal alloc] init];
                const auto through_cplusplus = [&](void (^inner)(void)) {
                  const Guard guard{unwound};
                  const std::function<void()> call = [&] {
                    const Guard deeper{unwound};
                    inner();
                  };
                  call();
                };
                CHECK_EQUAL(
                    raised_by(^{ through_cplusplus(^{ [NSException raise:NSRangeException format:@"%@", animal]; }); }),
                    std::string("NSRangeException"));
                CHECK_EQUAL(unwound, 2);
                bool caught = false;
                try {
                  [@[ animal ] enumerateObjectsUsingBlock:^(id object, NSUInteger, BOOL*) {
                    const id held = [object self];
                    through_cplusplus(^{ throw std::runtime_error(text([held description])); });
                  }];
                } catch (const std::runtime_error& error) {
                  caught = std::string(error.what()).starts_with("<Animal");
                }
                CHECK(caught && unwound == 4);
                bool any = false;
                try {
                  [NSException raise:NSGenericException format:@"for C++"];
                } catch (...) {
                  any = true;
                }
                CHECK(any);
                std::exception_ptr carried;
                try {
                  [NSException raise:NSGenericException format:@"carried"];
                } catch (...) {
                  carried = std::current_exception();
                }
                NSString* reason = nil;
                @try {
                  std::rethrow_exception(carried);
                } @catch (NSException* exception) {
                  reason = exception.reason;
                }
                CHECK_EQUAL(text(reason), std::string("carried"));
              }),
              0L);
}

TEST(uncaught_exception_is_reported_before_abort) {
  CHECK(dies_saying("uncaught exception NSRangeException: beyond 3",
                    [] { [NSException raise:NSRangeException format:@"beyond %d", 3]; }));
}

// --- The rest of the language ---------------------------------------------------------------------------------------

TEST(synchronized_excludes_other_threads_and_is_recursive) {
  NSObject* const lock = [[NSObject alloc] init];
  int count = 0;
  int* const counted = &count;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([=] {
      for (int k = 0; k < 1000; ++k) {
        @synchronized(lock) {
          @synchronized(lock) {
            ++*counted;
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQUAL(count, 4000);
  @try {
    @synchronized(lock) {
      [NSException raise:NSGenericException format:@"out of the lock"];
    }
  } @catch (NSException*) {}
  std::thread([=] {
    @synchronized(lock) {
    }
  }).join();
}

TEST(associated_objects) {
  static const char key = 0, copied = 0, plain = 0;
  CHECK_EQUAL(leaves([] {
                Animal* const animal = [[Animal alloc] init];
                objc_setAssociatedObject(animal, &key, [[Animal alloc] init], OBJC_ASSOCIATION_RETAIN);
                CHECK(objc_getAssociatedObject(animal, &key) != nil);
                NSMutableString* const text_ = [NSMutableString stringWithString:@"x"];
                objc_setAssociatedObject(animal, &copied, text_, OBJC_ASSOCIATION_COPY_NONATOMIC);
                [text_ appendString:@"y"];
                CHECK_EQUAL(text(objc_getAssociatedObject(animal, &copied)), std::string("x"));
                objc_setAssociatedObject(animal, &plain, @"unretained", OBJC_ASSOCIATION_ASSIGN);
                CHECK(objc_getAssociatedObject(animal, &plain) != nil);
                objc_setAssociatedObject(animal, &plain, nil, OBJC_ASSOCIATION_ASSIGN);
                CHECK(objc_getAssociatedObject(animal, &plain) == nil);
              }),
              0L);
}

TEST(fast_enumeration) {
  int sum = 0;
  NSMutableArray<NSNumber*>* const numbers = [NSMutableArray array];
  for (int i = 0; i < 100; ++i) [numbers addObject:@(i)];
  for (NSNumber* number in numbers) {
    if (number.intValue == 3) continue;
    if (number.intValue == 90) break;
    sum += number.intValue;
  }
  CHECK_EQUAL(sum, 89 * 90 / 2 - 3);
  CHECK(dies_saying("NSMutableArray was changed while it was enumerated", [&] {
    for (NSNumber* number in numbers) [numbers addObject:number];
  }));
}

TEST(literals) {
  CHECK_EQUAL(text(@"tiny"), std::string("tiny"));
  CHECK_EQUAL(text(@"not so tiny any more"), std::string("not so tiny any more"));
  CHECK_EQUAL(text(@"größer → 𝄞"), std::string("größer → 𝄞"));
  CHECK([@"tiny" isEqual:[NSString stringWithUTF8String:"tiny"]] &&
        [@"tiny" hash] == [[@"t" stringByAppendingString:@"iny"] hash]);
  CHECK([@"12345678" length] == 8 && [@"" length] == 0);
  const char* const c_string = "boxed";
  const float real = 0.5f;
  enum Kind : unsigned char { kSome = 200 };
  CHECK_EQUAL(text(@(c_string)), std::string("boxed"));
  CHECK(@(real).floatValue == 0.5f && @(kSome).intValue == 200 && @(1ul << 63).unsignedLongValue == 1ul << 63);
  CHECK(@YES.boolValue && !@NO.boolValue && @'c'.charValue == 'c' && @(-3).intValue == -3);
  NSDictionary<NSString*, NSArray<NSNumber*>*>* const nested = @{@"a" : @[ @1, @2 ], @"b" : @[]};
  CHECK_EQUAL(nested[@"a"][1].intValue, 2);
  CHECK_EQUAL(raised_by(^{
                NSString* const none = nil;
                (void)@[ none ];
              }),
              std::string("NSInvalidArgumentException"));
}

int main() { return check::run_all(); }
