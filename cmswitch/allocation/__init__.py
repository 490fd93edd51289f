"""From pieces of a network on a chip to the numbers of an allocation problem, and back."""
