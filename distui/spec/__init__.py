"""What you wrote: `hosts.yaml` and job files, read strictly into values.

In: text of files, flags and variables of the caller. Out: an Inventory, a Job, or every problem with its place.
Lowest first: `yaml`, `hosts`, then `imports` and `job` beside each other; `choose` and `schema` join hosts and jobs.
"""
