"""The job's code on its way: from a folder or a repository here to one tree on every host."""
