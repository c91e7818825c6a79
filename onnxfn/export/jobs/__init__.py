"""What an export is asked for: options, jobs, their identity."""
