"""Jobs and the launch form: from the text of a job file to its plan."""
