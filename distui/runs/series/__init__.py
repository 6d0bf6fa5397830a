"""What a run measured, over time: step time, loss, throughput, GPUs, network, lateness.

In: events of a run. Out: small files in its folder, bounded however long it goes on, and values read back from them.
"""
