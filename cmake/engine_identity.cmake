# Write SOURCE, a C++ file that defines engine_identity: the version and a checksum of the sources listed in LIST, one
# per line. A build rule that depends on these sources runs this file.
file(STRINGS ${LIST} files)
set(sums "")
foreach(file IN LISTS files)
  file(SHA256 ${file} sum)
  string(APPEND sums ${sum})
endforeach()
string(SHA256 sum "${sums}")
string(SUBSTRING ${sum} 0 16 sum)
file(WRITE ${SOURCE} "namespace mpsgraph::cpu {\n\n"
  "extern const char* const engine_identity = \"mpsgraph ${VERSION}, ${sum}\";\n\n}  // namespace mpsgraph::cpu\n")
