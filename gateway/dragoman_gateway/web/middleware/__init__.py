"""What every connection and every HTTP request passes before its endpoint."""
