"""What an export reports, and how it prints."""
