"""The command `true` by parallel-ssh, run by the Python that has it: `python client_pssh.py KEY ADDRESS...`."""

import sys

from pssh.clients import ParallelSSHClient  # type: ignore[import-not-found,unused-ignore]

client = ParallelSSHClient(sys.argv[2:], user="root", pkey=sys.argv[1], allow_agent=False, pool_size=16)
output = client.run_command("true")
client.join(output)
assert all(host.exit_code == 0 for host in output)
