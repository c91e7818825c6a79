"""The programs that load an export: facts about each, and the files that each needs in addition to the graphs."""
