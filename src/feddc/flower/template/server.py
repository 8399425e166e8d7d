"""The server: it sees the model and each client's update, never a sample. Its settings are in pyproject.toml."""

from feddc.flower import server_app

app = server_app("feddc", "hospitals.task:make_model", test="hospitals.task:load_test")
