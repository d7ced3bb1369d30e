"""What goes wrong between us and a server, before it is told as a tool's error."""

from __future__ import annotations

from callsheet.report.errors import CallsheetError


class ServerFault(CallsheetError):
    """Something is wrong with a server. The message goes on from its name: "exited with code 1"."""


class StartFailed(ServerFault):
    """A server could not be started, or does not speak as it should."""


class Lost(ServerFault):
    """A server has gone while something was asked of it. It may have got the request."""


class NotDelivered(ServerFault):
    """A server has gone, and did not get the request. It may be sent again."""
