"""What is asked on a host of the ranks there: where each is, what it waits for, what slows it down."""
