"""``python -m markovscale VERB ...`` is ``markovscale VERB ...``."""

import sys

from jobs.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
