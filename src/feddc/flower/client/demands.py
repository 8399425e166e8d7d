"""What a site may demand in its node's config, whatever the server asks for; named without importing what does it."""

CLIP, NOISE = "update-clip", "update-noise"
MASKED = "secure-least"
"""The smallest sum that this site's update may be part of; with it no update leaves without masks."""
