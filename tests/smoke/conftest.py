from __future__ import annotations

import sys

from zeroconf.smoke.command import WORKER

# the worker runs by path in the training environment: its modules import each other by their bare names
sys.path.append(str(WORKER))
