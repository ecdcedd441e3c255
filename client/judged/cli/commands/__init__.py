"""The commands, a module each, in folders by what they are about."""
