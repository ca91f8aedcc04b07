"""An in-memory stand-in for SQS, standard and FIFO: `service.SQSService`."""
