"""What happens: the controller of a run, its events and the state folded from them."""
