"""From a request to a run that begins: read, planned, checked, recorded. What comes out is a controller."""
