"""`python -m tests.simulation`: the soak."""

import sys

from tests.simulation.soak import main

sys.exit(main())
