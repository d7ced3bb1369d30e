"""What `callsheet call` and `callsheet tools` are made of, beside the cards."""
