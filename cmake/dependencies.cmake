# Find the build's dependencies and collect them in the target mpsgraph_dependencies.
#
# nlohmann-json and oneDNN come from Python distributions, which are located through the interpreter that runs the
# build, so an environment made by pip, isolated or not, is enough. Sets MPSGRAPH_HAS_ONEDNN.
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

set(dependency_libraries "")  # library files of the dependencies
target_compile_options(mpsgraph_dependencies INTERFACE -fopenmp-simd)  # for vectorization hints only

set(MPSGRAPH_HAS_ONEDNN OFF)
if(NOT MPSGRAPH_ONEDNN STREQUAL "OFF")
  if(located_onednn_include AND located_onednn_library)
    target_include_directories(mpsgraph_dependencies SYSTEM INTERFACE ${located_onednn_include})
    target_link_libraries(mpsgraph_dependencies INTERFACE ${located_onednn_library})
    target_compile_definitions(mpsgraph_dependencies INTERFACE MPSGRAPH_ONEDNN=1)
    # OpenMP sets how many threads oneDNN uses. Our kernels have their own thread pool.
    find_package(OpenMP REQUIRED COMPONENTS CXX)
    target_link_libraries(mpsgraph_dependencies INTERFACE OpenMP::OpenMP_CXX)
    list(APPEND dependency_libraries ${OpenMP_CXX_LIBRARIES} ${located_onednn_library})
    set(MPSGRAPH_HAS_ONEDNN ON)
  elseif(MPSGRAPH_ONEDNN STREQUAL "ON")
    message(FATAL_ERROR "mpsgraph: MPSGRAPH_ONEDNN=ON, but ${Python_EXECUTABLE} has no oneDNN; "
      "run: ${Python_EXECUTABLE} -m pip install onednn-devel-cpu-gomp==2023.2.0")
  endif()
endif()

message(STATUS "mpsgraph ${PROJECT_VERSION}: oneDNN ${MPSGRAPH_HAS_ONEDNN}, "
  "Python ${MPSGRAPH_PYTHON}")
