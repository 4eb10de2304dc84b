"""What Triton's Python backend loads: thin translations between its requests and ours."""
