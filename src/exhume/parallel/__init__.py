"""Several threads and several processes on one problem."""
