// The subset of Foundation that the Metal backend and its mock use. Names and types are Apple's; the text of the
// headers is ours.
//
// On Linux, tests/mock implements these declarations. With an Apple target but no SDK (ziglang), they let the backend
// compile, together with the runtime headers that ziglang ships.
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
