"""An example without appointments: gift cards, and the mails about them."""
