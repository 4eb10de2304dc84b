"""What must survive a translation: literals, numbers, emphasis, messages."""
