"""`python -m reconciler` is `reconcile`."""

import sys

from reconciler.cli import main

if __name__ == "__main__":
    sys.exit(main())
