"""``python -m zeroconf``."""

from zeroconf.cli import main

main()
