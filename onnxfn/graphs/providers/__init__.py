"""The operators that the programs which run graphs have, and checks of graphs by them."""
