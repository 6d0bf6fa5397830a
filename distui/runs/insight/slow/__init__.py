"""What slows a run down that goes on: who is late, by how much and why, and which link loses what is sent.

Comes in: ranks that were watched for some seconds. Goes out: an explanation, or nothing.
"""
