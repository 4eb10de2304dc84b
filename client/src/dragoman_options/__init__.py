"""The table of translation options, shared by the server, the clients and the commands.

`table.OPTIONS` and `table.OUTPUTS` are the table. The package needs only the standard
library, and NumPy to read attention weights.
"""
