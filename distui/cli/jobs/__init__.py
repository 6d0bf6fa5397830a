"""What is to run, before anything is contacted: job file and flags, its image, what it may take from this machine.

In: words of a call. Out: a request for a plan, an image on hosts, the text of a new job file.
"""
