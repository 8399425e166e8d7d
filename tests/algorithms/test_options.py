"""The default options of every method, the values they accept, and its one-line description."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import feddc
from feddc import specs
from feddc.algorithms import METHODS, SERVERS, make_method

SGD = "server=SGD(lr=1.0, momentum=0.0, of='update')"
DEFAULTS = {
    "fedavg": f"FedAvg({SGD}, weighted=True, sam=0.0)",
    "fedprox": f"FedProx(mu=0.0002, {SGD})",
    "scaffold": f"Scaffold(form='original', steps='own', lr='first', sam=0.0, {SGD})",
    "feddyn": f"FedDyn(alpha=0.01, leak=0.0, {SGD}, weighted=True, sam=0.0)",
    "feddc": f"FedDC(alpha=0.1, form='code', steps='own', penalty=True, correction=True, leak=0.0, {SGD})",
    "fednova": f"FedNova(mu=0.0, {SGD})",
    "fedcm": f"FedCM(alpha=0.1, sam=0.0, {SGD})",
    "fedacg": "FedACG(momentum=0.85, mu=0.002)",
    "adabest": f"AdaBest(mu=0.02, beta=0.85, {SGD})",
    "fedinit": f"FedInit(beta=0.1, form='code', {SGD})",
    "fedlesam": f"FedLESAM(rho=0.1, base='fedavg', alpha=0.1, steps='own', {SGD})",
    "fedlc": f"FedLC(tau=1.0, weighted=False, {SGD})",
    "fedntd": f"FedNTD(beta=1.0, tau=1.0, weighted=True, convex=False, {SGD})",
    "moon": f"MOON(mu=1.0, tau=0.5, weighted=True, {SGD})",
    "feddecorr": f"FedDecorr(beta=0.1, weighted=True, {SGD})",
    "fedsam": f"FedAvg({SGD}, weighted=False, sam=0.1)",
    "mofedsam": f"FedCM(alpha=0.1, sam=0.1, {SGD})",
    "fedspeed": f"FedDyn(alpha=0.1, leak=0.0, {SGD}, weighted=False, sam=0.1)",
    "fedgamma": f"Scaffold(form='original', steps='own', lr='current', sam=0.01, {SGD})",
    "fedsmoo": f"FedSMOO(rho=0.1, alpha=0.1, {SGD})",
    "fedexp": "FedAvg(server=ExP(eps=0.001, form='code'), weighted=True, sam=0.0)",
    "fedadam": "FedAvg(server=Adam(lr=0.01, beta1=0.9, beta2=0.99, tau=0.001), weighted=True, sam=0.0)",
    "fedyogi": "FedAvg(server=Yogi(lr=0.01, beta1=0.9, beta2=0.99, tau=0.001), weighted=True, sam=0.0)",
    "fedadagrad": "FedAvg(server=Adagrad(lr=0.1, beta1=0.0, tau=0.001), weighted=True, sam=0.0)",
}
TRIED = ("0", "0.5", "1", "1.5")
OFF_OR_MORE, SHARE, ABOVE_ZERO, DECAY, MIXED = "0 0.5 1 1.5", "0 0.5 1", "0.5 1 1.5", "0 0.5", "0.5 1"
TAKEN = {
    **dict.fromkeys(("sam", "rho", "mu", "alpha", "beta"), OFF_OR_MORE),
    **dict.fromkeys(("leak", "adabest:beta"), SHARE),
    **dict.fromkeys(("lr", "tau", "eps"), ABOVE_ZERO),
    **dict.fromkeys(("momentum", "beta1", "beta2"), DECAY),
    **dict.fromkeys(("fedcm:alpha", "mofedsam:alpha"), MIXED),
    "fedlc:tau": OFF_OR_MORE,
    "scaffold:lr": "",
}
NUMBERS = [
    *(f"{name}:{option}" for name, factory in METHODS.items() for option in specs.options(factory)),
    *(f"fedavg:server={name}:server_{option}" for name, kind in SERVERS.items() for option in specs.options(kind)),
]
ORDINARY = {"fixed_steps": False, "sends_update": True, "needs_reference": False, "needs_features": False}
OWN = {
    "scaffold": {"over_all": {"variate": False}},
    "scaffold:form=feddc": {"over_all": {"variate": True}, "fixed_steps": True},
    "scaffold:form=weighted": {"over_all": {"variate": True}},
    "fedgamma": {"over_all": {"variate": False}},
    "feddyn": {"over_all": {"drift": False}},
    "fedspeed": {"over_all": {"drift": False}},
    "fedsmoo": {"over_all": {"drift": False}, "sends_update": False},
    "feddc": {"over_all": {"drift": False, "variate": True}},
    "feddc:form=paper": {"sends_update": False},
    "fedinit": {"sends_update": False},
    "fedntd": {"needs_reference": True},
    "moon": {"needs_reference": True, "needs_features": True},
    "feddecorr": {"needs_features": True},
}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_without_options(name: str) -> None:
    assert str(make_method(name)) == DEFAULTS[name]


@pytest.mark.parametrize("option", NUMBERS)
def test_the_values_that_an_option_takes(option: str) -> None:
    """Most can be switched off with 0; a share is at most 1, what is divided by is above 0, a decay below 1."""
    short = option.rpartition(":")[2].removeprefix("server_")
    wanted = TAKEN.get(option, TAKEN.get(short, ""))
    assert " ".join(each for each in TRIED if _takes(f"{option}={each}")) == wanted


def test_a_convex_mixture_has_a_share() -> None:
    assert _takes("fedntd:convex=true:beta=1")
    assert not _takes("fedntd:convex=true:beta=1.5")


def _takes(text: str) -> bool:
    try:
        make_method(text)
    except feddc.ConfigError:
        return False
    return True


@pytest.mark.parametrize("text", [*METHODS, *(each for each in OWN if ":" in each)])
def test_what_a_method_says_of_itself(text: str) -> None:
    method = make_method(text)
    wanted = {**ORDINARY, "over_all": {}, **OWN.get(text, {})}
    assert {key: getattr(method, key, usual) for key, usual in {**ORDINARY, "over_all": {}}.items()} == wanted
    assert getattr(getattr(method, "server", None), "reads_spread", False) == (text == "fedexp")


def test_a_class_of_ones_own_that_is_half_a_method_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "half_methods.py"
    halves = "".join(f"class {name}:\n    {name} = None\n\n" for name in ("upload", "aggregate"))
    file.write_text(f"import feddc\n\n{halves}class Whole(feddc.FedAvg):\n    pass\n")
    for half in ("upload", "aggregate"):
        with pytest.raises(feddc.ConfigError, match="is not a method"):
            make_method(f"{file}:{half}")
    assert str(make_method(f"{file}:Whole")) == DEFAULTS["fedavg"].replace("FedAvg", "Whole")


def test_feddc_without_its_correction_keeps_no_variate() -> None:
    model = torch.arange(3.0)
    assert [field.numel() for field in feddc.FedDC(correction=False).init_client(model)] == [3, 0]
    assert [field.numel() for field in feddc.FedDC().init_client(model)] == [3, 3]
