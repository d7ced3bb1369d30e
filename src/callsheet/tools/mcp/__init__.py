"""MCP servers bring tools, called `mcp__SERVER__TOOL`.

- `McpServer`: what is said of one; `McpServers`: those of a session, running.

| file | owns |
|---|---|
| `config` | what is said of a server |
| `process` | a child process: its pipes, what it complained of, its end |
| `links`, `http` | how a server is reached |
| `client` | what is said to a server, by the SDK |
| `connection` | one connection, from hello to its end |
| `server` | a server over its whole life: restarts, its tools |
| `names`, `schemas`, `results`, `making` | a server's tools and answers as ours |
| `servers` | all of a session's servers |

The MCP SDK is an extra, `pip install 'callsheet[mcp]'`, and imported only when a server is opened.
"""

from .config import InvalidServer, McpServer
from .servers import McpServers

__all__ = ["InvalidServer", "McpServer", "McpServers"]
