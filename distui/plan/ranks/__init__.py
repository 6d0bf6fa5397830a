"""Which rank, or TensorFlow task, is on which host, with which GPUs.

Comes in: a job, its hosts, what the probe found. Goes out: a slot per rank, and why there is none.
"""
