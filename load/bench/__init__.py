"""``make bench``: what payhook's promises of speed and size are held against, by ratios within one run."""
