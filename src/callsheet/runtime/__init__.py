"""Live sessions: where clocks, threads and pipes enter. Knows calls, not tools."""
