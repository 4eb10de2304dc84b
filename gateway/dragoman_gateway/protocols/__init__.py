"""The protocols of clients; each package converts requests, answers and errors."""
