"""Which hosts a call is about, connections to them, and the files that name them."""
