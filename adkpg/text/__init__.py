"""What texts are made of, whatever they say."""
