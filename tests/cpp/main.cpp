// Runs the tests of the file that it is told, or all: mpsgraph_tests test_core
#include "check.h"

int main(int count, char** arguments) { return check::run_all(count > 1 ? arguments[1] : ""); }
