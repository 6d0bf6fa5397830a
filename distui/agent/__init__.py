"""What is sent to a host over stdin and runs there: Python 3.6, standard library only.

In: nothing of ours. Out: programs as text (`bundle.py`).
"""
