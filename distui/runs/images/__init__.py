"""The job's image on its way: built from a folder here, or copied between engines without a registry.

In: a Dockerfile, an archive. Out: an image on every host.
"""
