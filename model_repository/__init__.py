"""The shipped model as a Triton model repository; `dragoman serve` finds it here."""
