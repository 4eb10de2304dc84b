"""Starting, watching and stopping the engine's process and Triton."""
