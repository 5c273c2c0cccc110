# Find the build's dependencies and collect them in the target mpsgraph_dependencies.
#
# nlohmann-json and pybind11 come from Python distributions, which are located through the interpreter that runs the
# build, so an environment made by pip, isolated or not, is enough.
find_package(Threads REQUIRED)
if(MPSGRAPH_PYTHON)
  find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
else()
  find_package(Python 3.10 REQUIRED COMPONENTS Interpreter)
endif()

# locate.py prints name=path lines; each becomes the variable located_<name>.
execute_process(COMMAND ${Python_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/locate.py
  OUTPUT_VARIABLE located OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" located "${located}")
foreach(line IN LISTS located)
  string(REGEX MATCH "^([a-z0-9_]+)=(.*)$" _ "${line}")
  set(located_${CMAKE_MATCH_1} "${CMAKE_MATCH_2}")
endforeach()
if(NOT located_json)
  message(FATAL_ERROR "mpsgraph: ${Python_EXECUTABLE} has no headers of nlohmann-json; "
    "run: ${Python_EXECUTABLE} -m pip install nlohmann-json")
endif()

if(MPSGRAPH_PYTHON)
  find_package(pybind11 2.13 REQUIRED CONFIG PATHS ${located_pybind11})
endif()

add_library(mpsgraph_dependencies INTERFACE)
target_include_directories(mpsgraph_dependencies SYSTEM INTERFACE ${located_json})
target_link_libraries(mpsgraph_dependencies INTERFACE Threads::Threads)
if(APPLE)
  foreach(framework IN ITEMS Foundation CoreGraphics Metal MetalPerformanceShaders MetalPerformanceShadersGraph)
    target_link_libraries(mpsgraph_dependencies INTERFACE "-framework ${framework}")
  endforeach()
endif()

target_compile_options(mpsgraph_dependencies INTERFACE -fopenmp-simd)  # for vectorization hints only

message(STATUS "mpsgraph ${PROJECT_VERSION}: Python ${MPSGRAPH_PYTHON}")
