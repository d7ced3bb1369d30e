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

# The IANA registries of special-purpose addresses, as far as they are not public. Written out here
# because what `ipaddress` calls global differs between versions of Python.
_SPECIAL_V4: tuple[tuple[IPv4Network, str], ...] = tuple(
    (IPv4Network(network), word)
    for network, word in (
        ("0.0.0.0/8", "this host"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by carriers"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "a cloud's metadata"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "for documentation"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "for benchmarks"),
        ("198.51.100.0/24", "for documentation"),
        ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)
_SPECIAL_V6: tuple[tuple[IPv6Network, str], ...] = tuple(
    (IPv6Network(network), word)
    for network, word in (
        ("::/128", "this host"),
        ("::1/128", "loopback"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "private"),
        ("ff00::/8", "multicast"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "for documentation"),
        ("2002::/16", "a tunnel"),
        ("3fff::/20", "for documentation"),
    )
)
_PUBLIC_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")


def why_refused(address: Address) -> str | None:
    """Return the kind of an address that is not public; None for a public one."""
    if isinstance(address, IPv6Address):
        inner = embedded(address)
        if inner is not None:
            return why_refused(inner)
        word = next((word for network, word in _SPECIAL_V6 if address in network), None)
        return word or (None if address in _PUBLIC_V6 else "reserved")
    return next((word for network, word in _SPECIAL_V4 if address in network), None)


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
            "settings can allow it (private_hosts)"
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
