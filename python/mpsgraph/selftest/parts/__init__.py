"""Parts of the self-test. The function checks(options) of each module returns the checks of that part."""
