"""Entry point of `python -m mpsgraph.tool`."""

import sys

from . import main

if __name__ == "__main__":
    sys.exit(main())
