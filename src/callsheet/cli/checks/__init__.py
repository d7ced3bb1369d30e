"""What `callsheet check` is made of: findings as text for people, the score card, rules explained."""
