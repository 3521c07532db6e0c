"""Pure arithmetic: memory, traffic and time of a plan. No input or output; every formula names its source."""
