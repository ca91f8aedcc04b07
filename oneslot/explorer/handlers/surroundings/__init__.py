"""What a handler perceives beside its calls. `takeover.py` puts the explorer's own in place of it, while a handler runs."""
