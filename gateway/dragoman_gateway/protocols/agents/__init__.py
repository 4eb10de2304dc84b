"""The Model Context Protocol, through which agents call tools."""
