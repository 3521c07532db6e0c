"""What hardware and network is here: probes of the machine, and the inventory that they make together."""
