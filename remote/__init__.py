"""The ssh side: the only importer of asyncssh."""
