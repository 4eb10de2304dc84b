"""What several commands share: flags, settings, checks and reports."""
