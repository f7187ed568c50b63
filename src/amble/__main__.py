"""python -m amble"""

import sys

from amble.cli import main

sys.exit(main())
