"""Use the tools of MCP servers, named `mcp__SERVER__TOOL`.

`McpServer` configures one; `McpServers` are those of a session, running.

| file | owns |
|---|---|
| `config` | the configuration of a server |
| `stdio_transport`, `http_transport` | how a server is reached: a child's pipes, or streamable HTTP |
| `connection` | one connection, and the MCP protocol over it |
| `servers` | all of a session's servers, their restarts, and the names of their tools |
| `tool_adapter` | a server's tools and answers as ours |
"""

from callsheet.tools.mcp.config import InvalidServer, McpServer
from callsheet.tools.mcp.servers import McpServers

__all__ = ["InvalidServer", "McpServer", "McpServers"]
