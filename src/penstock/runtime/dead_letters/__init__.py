"""Dead letters: rejected rows with reason and origin, masked where needed, and their stores."""
