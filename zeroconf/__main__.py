"""``python -m zeroconf``."""

from zeroconf.entry import main

main()
