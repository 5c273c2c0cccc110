// Includes Apple's frameworks. Only for the Objective-C++ files in this folder, which use automatic reference counting.
#pragma once

#import <Foundation/Foundation.h>
#import <Metal/Metal.h>
#import <MetalPerformanceShaders/MetalPerformanceShaders.h>
#import <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#if !__has_feature(objc_arc)
#error "the Metal backend is compiled with -fobjc-arc"
#endif
