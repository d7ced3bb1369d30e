"""Real clients, none of them ours: the official SDKs and acpx, each against the real agent."""
