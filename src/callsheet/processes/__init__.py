"""Commands as processes: started by themselves, watched, and ended with all that they started."""
