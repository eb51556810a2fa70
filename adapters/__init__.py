"""One module or folder per provider; none knows another, and none writes anything."""
