"""What a front end asks for, once: probing, planning and starting a run. Knows no click, no textual and no terminal.

In: an inventory, a job, a connector. Out: a plan, a recorded run, and the controller that owns it.
"""
