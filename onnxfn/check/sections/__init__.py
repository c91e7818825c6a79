"""The check of a file by sections: embedding, layers and head, one after the other."""
