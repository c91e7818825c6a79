"""Models and configurations, loaded."""
