"""What each optimizer does to the two halves of AGF: how dormant units grow, and how active ones settle."""
