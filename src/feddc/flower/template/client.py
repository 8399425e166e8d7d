"""A client. Names instead of imports: Flower starts this file for every message, and it should not wait for torch."""

from feddc.flower import client_app

app = client_app("hospitals.task:load_client", "hospitals.task:make_model")
