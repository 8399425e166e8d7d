"""The Flower ServerApp: what `flwr run` starts on the server."""

from __future__ import annotations

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from torch import nn

from ...algorithms import Algorithm, make_method
from ..references import Reference, find, reference
from ..settings import Settings, override
from .coordinator import Coordinator
from .patience import explained


def server_app(
    algorithm: Algorithm | str,
    model: nn.Module | Reference,
    *,
    settings: Settings = Settings(),
    test: Reference | None = None,
) -> ServerApp:
    """A Flower ServerApp that runs ``algorithm``, the very object of a simulation or its text (``"feddc:alpha=0.1"``).

    ``model`` is the initial module, or a function that makes it, or that function's name; ``test()`` returns ``(x, y)``
    or Samples on which the global model is evaluated. Keys of the run's config override ``settings``, and its key
    ``method`` the algorithm. A run continues the experiment of its name where an earlier one stopped.
    """
    model = model if isinstance(model, nn.Module) else reference("model", model)
    held_out = None if test is None else reference("test", test)
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        module = model if isinstance(model, nn.Module) else find(model)()
        method = context.run_config.get("method", algorithm)
        chosen = make_method(method) if isinstance(method, str) else method
        samples = None if held_out is None else find(held_out)()
        coordinator = Coordinator(grid, chosen, module, override(settings, context.run_config), samples)  # type: ignore[arg-type]
        with coordinator, explained(lambda: coordinator.progress.round):
            for _ in coordinator.run():
                pass

    return app
