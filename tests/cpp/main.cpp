// Runs the tests of the file named on the command line, or all: mpsgraph_tests test_core
#include "check.h"

int main(int count, char** arguments) { return check::run_all(count > 1 ? arguments[1] : ""); }
