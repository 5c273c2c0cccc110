// What the mock's frameworks ask of an MPSCommandBuffer.
#pragma once

#import <MetalPerformanceShaders/MetalPerformanceShaders.h>

@interface MPSCommandBuffer (Mock)
// Allocates memory for intermediate results of a program, which lives until the last part has been committed and run.
- (void)holdScratch;
@end
