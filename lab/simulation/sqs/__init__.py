"""An in-memory SQS with its clock, standard and FIFO: `service.SQSService`."""
