"""Floor 1: the only room that speaks SQL."""
