"""The domain: requests for appointments, a practice's slots, and which request gets which slot. Pure: values in, values out."""
