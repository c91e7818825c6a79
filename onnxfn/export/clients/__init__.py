"""The programs that load an export: facts about each, and the files that they need besides the graphs."""
