"""Own the tools: their result format, the executor that runs and reports them, and the built-in tools."""
