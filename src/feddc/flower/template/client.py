"""A client. It gives names instead of imports: Flower starts this file for every message, without loading torch."""

from feddc.flower import client_app

app = client_app("hospitals.task:load_client", "hospitals.task:make_model")
