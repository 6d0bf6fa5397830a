"""Job files on this machine: found, made from templates, what they may take from here, and the secrets they name."""
