"""What a run is worked on with: what all its attempts share, one attempt, and what is asked of it.

In: a plan. Out: values that launch, ending and control work on.
"""
