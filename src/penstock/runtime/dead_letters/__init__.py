"""Dead letters: rejected rows with reason and origin, without masked values, and where they are stored."""
