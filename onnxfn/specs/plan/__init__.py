"""Plan: a spec and a configuration -> what an export will do."""
