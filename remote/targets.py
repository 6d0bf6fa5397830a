"""What hosts.yaml adds to what ~/.ssh/config says about a host."""

from __future__ import annotations

from distui.frozen import frozen


@frozen
class Target:
    """An inventory host. Its name is the ssh alias; the rest only fills what the ssh config leaves open.

    So `address` counts when the ssh config has no HostName for the alias, `port` when it has no Port, `user`
    when it has no User, `connect_timeout` (seconds) when it has no ConnectTimeout.
    """

    name: str
    address: str | None = None
    user: str | None = None
    port: int | None = None
    connect_timeout: float | None = None
