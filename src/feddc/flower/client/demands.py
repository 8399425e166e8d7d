"""What a site may demand in its node's config, whatever the server asks for; named without importing what does it."""

CLIP, NOISE = "update-clip", "update-noise"
