"""What a client can do for the agent, and its tools: hold texts that are not saved, and run commands."""
