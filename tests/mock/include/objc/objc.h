// Basic names of Objective-C: BOOL, YES, nil, and, for plain C++, id, Class, and SEL.
//
// For Apple targets, this header includes the SDK's own; on Linux it declares the types of our runtime (clang
// -fobjc-runtime=gnustep-2.0).
#if defined(__APPLE__)
#include_next <objc/objc.h>
#else
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define OBJC_EXTERN extern "C"
#else
#define OBJC_EXTERN extern
#endif
#define OBJC_EXPORT OBJC_EXTERN

typedef bool BOOL;  // as on Apple silicon
#define OBJC_BOOL_IS_BOOL 1
#define nil nullptr
#define Nil nullptr

#ifdef __OBJC__
#define YES __objc_yes
#define NO __objc_no
typedef id (*IMP)(id, SEL, ...);
#else
struct objc_object;
struct objc_class;
struct objc_selector;
typedef struct objc_object* id;
typedef struct objc_class* Class;
typedef struct objc_selector* SEL;
typedef id (*IMP)(id, SEL, ...);
#define YES true
#define NO false
#endif

typedef long NSInteger;
typedef unsigned long NSUInteger;

OBJC_EXPORT const char* sel_getName(SEL sel);
OBJC_EXPORT SEL sel_registerName(const char* name);
OBJC_EXPORT const char* object_getClassName(id object);
#endif
