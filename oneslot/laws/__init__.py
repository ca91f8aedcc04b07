"""What a run left behind, request by request, and the one list of laws that judges it. Pure: no AWS, no Spark."""
