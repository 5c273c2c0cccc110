# Sets CMAKE_OSX_DEPLOYMENT_TARGET to the oldest macOS or iOS that the Metal backend supports. Newer interfaces are
# behind availability checks, so a newer target is only used where a user asks for one.
#
# Include this file before project(), which would otherwise use the build machine's own version. A target that is too
# old is raised: conda's environments, for example, set MACOSX_DEPLOYMENT_TARGET=11.0.
if(CMAKE_SYSTEM_NAME STREQUAL iOS)
  set(mpsgraph_oldest 16.4)
else()
  set(mpsgraph_oldest 13.3)
endif()
set(mpsgraph_target "${CMAKE_OSX_DEPLOYMENT_TARGET}")
if(NOT mpsgraph_target AND NOT CMAKE_SYSTEM_NAME STREQUAL iOS)
  set(mpsgraph_target "$ENV{MACOSX_DEPLOYMENT_TARGET}")
endif()
if(NOT mpsgraph_target)
  set(mpsgraph_target ${mpsgraph_oldest})
elseif(mpsgraph_target VERSION_LESS mpsgraph_oldest)
  message(STATUS "Deployment target raised from ${mpsgraph_target} to ${mpsgraph_oldest}, "
                 "the oldest that mpsgraph supports")
  set(mpsgraph_target ${mpsgraph_oldest})
endif()
# A normal variable of this name would hide the cache entry (policy CMP0126).
unset(CMAKE_OSX_DEPLOYMENT_TARGET)
set(CMAKE_OSX_DEPLOYMENT_TARGET "${mpsgraph_target}" CACHE STRING "Oldest system version to run on" FORCE)
