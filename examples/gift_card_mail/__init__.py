"""An example of a consumer that has nothing to do with appointments: gift cards, and the mails about them."""
