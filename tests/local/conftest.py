"""Fixtures that these tests and those of `tests/unit` share."""

from fakehosts.calls import cli, cluster, demo_home, fake_hosts, fresh_python, home, naps, sleeper

__all__ = ["cli", "cluster", "demo_home", "fake_hosts", "fresh_python", "home", "naps", "sleeper"]
