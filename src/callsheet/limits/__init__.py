"""Any value to JSON, sizes bounded, and what was cut. Pure."""
