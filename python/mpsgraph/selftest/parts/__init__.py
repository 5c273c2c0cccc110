"""Parts of the self-test; the function checks(options) of each module returns its checks."""
