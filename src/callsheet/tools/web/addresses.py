"""Which addresses may be reached: public ones, and those that the user has allowed by name.

A name is resolved once, here, each address is judged, and the connection is made to that address. So
a name that leads elsewhere the next time it is asked for gains nothing, and every way to write an
address (2130706433, 0177.0.0.1, ::ffff:7f00:1) is judged by where it leads.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TypeAlias

from callsheet.tools.errors import InvalidArguments, IOFailed, NotPermitted

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

EVERYTHING = "*"

# What is reserved, and what some versions of `ipaddress` take for global nevertheless.
_RESERVED: tuple[Network, ...] = tuple(
    map(
        ip_network,
        ("192.0.0.0/24", "192.88.99.0/24", "2001::/23", "2002::/16", "3fff::/20"),
    )
)
_CLOUD_METADATA = ip_address("168.63.129.16")
_PUBLIC_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")


def why_refused(address: Address) -> str | None:
    """Return the kind of an address that is not public; None for a public one."""
    if isinstance(address, IPv6Address):
        inner = embedded(address)
        if inner is not None:
            return why_refused(inner)
    if address.is_loopback:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    if address.is_multicast:
        return "multicast"
    if address == _CLOUD_METADATA:
        return "a cloud's metadata"
    is_reserved = any(address in network for network in _RESERVED)
    if is_reserved or (isinstance(address, IPv6Address) and address not in _PUBLIC_V6):
        return "private" if address.is_private else "reserved"
    return None if address.is_global else "private"


def embedded(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 one stands for."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return IPv4Address(int(address) & 0xFFFF_FFFF) if address in _NAT64 else None


class AllowedHosts:
    """Hosts, addresses and networks that are allowed though they are not public."""

    def __init__(self, given: Iterable[str] = ()) -> None:
        self._everything: bool = False
        self._networks: list[Network] = []
        self._hosts: set[str] = set()
        for entry in given:
            network = _network(entry)
            if entry == EVERYTHING:
                self._everything = True
            elif network is not None:
                self._networks.append(network)
            else:
                self._hosts.add(_plain(entry))

    def host(self, host: str) -> bool:
        """Return whether a host is allowed by its name, wherever that leads."""
        return self._everything or _plain(host) in self._hosts

    def address(self, address: Address) -> bool:
        """Return whether an address is allowed."""
        known = embedded(address) if isinstance(address, IPv6Address) else None
        return self._everything or any(
            one in network for network in self._networks for one in (address, known) if one
        )


async def addresses_of(host: str, port: int, allowed: AllowedHosts) -> list[str]:
    """Return the addresses of a host that may be reached, in the order to try them.

    Raises:
        NotPermitted: None of its addresses may be reached.
        IOFailed: The host is unknown, or has no addresses.
        InvalidArguments: It can't be the name of a host.
    """
    found = await _resolve(host, port)
    if allowed.host(host):
        return [str(address) for address in found]
    good = [a for a in found if why_refused(a) is None or allowed.address(a)]
    if not good:
        address = found[0]
        leads = "" if str(address) == host else f" leads to {address}, which"
        raise NotPermitted(
            f"{host}{leads} is not a public address ({why_refused(address)}); only the session's "
            "settings can allow it (private_hosts; callsheet call --allow-host)"
        )
    return [str(address) for address in good]


async def _resolve(host: str, port: int) -> list[Address]:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as exc:
        raise IOFailed(f"the host {host} is not known ({exc.strerror})") from None
    except UnicodeError:
        raise InvalidArguments(f"url: {host!r} can't be the name of a host") from None
    addresses = [ip_address(str(entry[4][0])) for entry in found]
    if not addresses:
        raise IOFailed(f"the host {host} has no address")
    return list(dict.fromkeys(addresses))


def _network(entry: str) -> Network | None:
    try:
        return ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        return None


def _plain(host: str) -> str:
    return host.strip("[]").rstrip(".").lower()
