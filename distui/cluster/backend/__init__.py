"""All that the app asks for, in one object: hosts, jobs, plans and runs, for as long as the app is open.

In: settings, an inventory, the hosts of it that are meant. Out: values to show, and runs that are followed.
"""
