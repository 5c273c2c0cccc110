"""Parts of the self-test, one module per part.

Each module has a function checks(options) that returns the checks of its part.
"""
