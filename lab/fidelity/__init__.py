"""What must survive a translation: numbers, signs, placeholders, terms."""
