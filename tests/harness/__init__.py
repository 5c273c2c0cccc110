"""Code that the tests share: cases and how to run them, dtypes, numerical gradients, devices, and programs.

This package contains no tests.
"""
