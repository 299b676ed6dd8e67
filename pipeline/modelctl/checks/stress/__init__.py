"""What the two stress checks share: the engine they drive, its evidence and the judgement of a load."""
