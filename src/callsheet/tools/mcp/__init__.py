"""Use the tools of MCP servers, named `mcp__SERVER__TOOL`.

`McpServer` configures one; `McpServers` are those of a session, running.

| file | owns |
|---|---|
| `config` | the configuration of a server |
| `process` | a server as a child process: its pipes, its stderr, its end |
| `transports` | how a server is reached: pipes or HTTP |
| `client` | the MCP protocol, by the SDK |
| `connection` | one connection, and a server over its whole life: restarts, its tools |
| `tool_adapter` | a server's tools and answers as ours |
| `servers` | all of a session's servers, and the names of their tools |

The MCP SDK is an extra, `pip install 'callsheet[mcp]'`, and imported only when a server is opened.
"""

from callsheet.tools.mcp.config import InvalidServer, McpServer
from callsheet.tools.mcp.servers import McpServers

__all__ = ["InvalidServer", "McpServer", "McpServers"]
