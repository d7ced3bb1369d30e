"""What `callsheet history`, `show` and `replay` are made of, beside the cards."""
