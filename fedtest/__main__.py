"""`python -m fedtest`."""

import sys

from fedtest.cli import main

if __name__ == "__main__":
    sys.exit(main())
