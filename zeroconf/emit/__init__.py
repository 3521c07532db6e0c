"""A plan as text: ds_config.json, Accelerate YAML, launch lines."""
