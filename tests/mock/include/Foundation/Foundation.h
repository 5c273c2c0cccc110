// The subset of Foundation that the Metal backend and its mock use: names and types are Apple's, the rest is ours.
//
// On Linux tests/mock implements it. With an Apple target and no SDK (ziglang) the same declarations let
// the backend compile, on top of the runtime headers that ziglang brings.
#pragma once
#include <Foundation/Base.h>
#include <Foundation/NSArray.h>
#include <Foundation/NSData.h>
#include <Foundation/NSDictionary.h>
#include <Foundation/NSError.h>
#include <Foundation/NSObject.h>
#include <Foundation/NSProcessInfo.h>
#include <Foundation/NSString.h>
#include <Foundation/NSURL.h>
#include <Foundation/NSValue.h>
