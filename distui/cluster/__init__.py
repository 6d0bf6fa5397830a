"""What a front end asks for, once: hosts, plans, runs, logs, images, checks. Knows no click, textual or terminal.

In: settings, which hosts are meant, a job or a run's name. Out: values to show, and runs that are followed.
"""
