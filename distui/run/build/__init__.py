"""The job's image on its way: from a folder with a Dockerfile here to an image on every host."""
