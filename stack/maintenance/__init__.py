"""Works on a whole lake: rounds of maintenance and verification, recovery, division among shards."""
