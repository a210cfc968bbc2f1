"""Console, plain lines, JSON: each made from what an Observer is told and from the Result."""
