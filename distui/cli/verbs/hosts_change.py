"""`distui hosts add`, `rm`, `import` and `export`: hosts.yaml changed in place; comments and order stay."""

from __future__ import annotations

import click

from distui.cli.options import HOSTS, Choice, verb


@verb("add", "hosts_change.add")
@click.argument("name", metavar="HOST")
@click.option("--addr", metavar="ADDR", help="Address, where ssh config has none.")
@click.option("--user", metavar="USER", help="User to log in as, where ssh config has none.")
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="Port, where ssh config has none.")
@click.option("--gpus", type=click.IntRange(0, 1024), metavar="N", help="Expected GPUs.")
@click.option("--with-label", "labels", multiple=True, metavar="K=V", help="Add a label. Repeatable.")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="Add it to a group. Repeatable.")
def add() -> None:
    """Add a host, or a range such as node[01-04], to hosts.yaml.

    HOST is its ssh alias. Without a hosts.yaml, ./hosts.yaml is created. The file is only changed if the
    result is valid.
    """


@verb("rm", "hosts_change.remove")
@click.argument("name", metavar="HOST")
def remove() -> None:
    """Remove a host from hosts.yaml, also from groups that name it. Refused for one inside a range."""


@verb("import", "hosts_change.import_")
@click.argument("form", type=Choice(("ssh-config", "ansible", "hostfile", "nodeset")))
@click.argument("source", metavar="[FILE]", required=False)
@click.option("--match", metavar="PATTERN", help="Only hosts that match, such as 'node*'.")
@click.option("--write", is_flag=True, help="Add them to hosts.yaml instead of printing one.")
def import_() -> None:
    """Import hosts from ssh, Ansible, a hostfile or a node set.

    Prints a hosts.yaml; with --write, adds the hosts that yours lacks to it. FILE is `-` for standard input; for
    nodeset it may be the set itself: 'node[001-064]'. What hosts.yaml can't express is left out and reported.
    """


@verb("export", "hosts_change.export")
@click.argument("form", type=Choice(("hostfile", "ansible")))
@click.argument("sets", metavar="[SET]...", type=HOSTS, nargs=-1)
def export() -> None:
    """Print the inventory as a hostfile or for Ansible."""
