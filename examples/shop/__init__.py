"""An example without appointments: a shop that counts its stock, and announces each order."""
