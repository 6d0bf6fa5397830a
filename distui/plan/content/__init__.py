"""What ranks find in their container: code, built images, mounted and fetched data.

Comes in: keys of the job. Goes out: values of the plan, as flags of `docker run` and in words.
"""
