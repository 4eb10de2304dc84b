"""Translates lines with Marian itself, by the package `bergamot` 0.4.5 of Python 3.8 to 3.10.

It needs nothing of this project, and runs in an environment of its own:

    python3.10 -m venv .venv-bergamot
    .venv-bergamot/bin/pip install bergamot==0.4.5
    .venv-bergamot/bin/python tests/bergamot_program.py FOLDER BEAM < lines > translations

Each line is translated alone, in float32 and without a shortlist, until the length limit of
Firefox: twice the tokens of the source, the end symbol included.
"""

import sys
import sysconfig
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any


def load_extension(package: str = "bergamot") -> Any:
    """A package's extension alone; `import bergamot` would download a list from the web."""
    folder, name = Path(sysconfig.get_paths()["platlib"]) / package, f"_{package}"
    (library,) = folder.glob(f"{name}*.so")
    loader = ExtensionFileLoader(name, str(library))
    spec = spec_from_loader(name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def settings_of(
    folder: Path,
    beam: int,
    precision: str = "float32",
    shortlist: bool = False,
    length_factor: float = 2.0,
    batch_tokens: int = 1024,
) -> str:
    """The settings of Marian for a model, as YAML; the defaults are Firefox's, in float32."""
    vocabularies = sorted(folder.glob("*vocab*.spm"))
    names = [path.resolve() for path in (vocabularies * 2)[:2]]
    (model,) = folder.glob("model*.bin")
    lists = [f"shortlist: [{path.resolve()}, 0]" for path in folder.glob("lex*.bin") if shortlist]
    return (
        "\n".join(lists)
        + f"""
models: [{model.resolve()}]
vocabs: [{names[0]}, {names[1]}]
beam-size: {beam}
normalize: 0
word-penalty: 0
skip-cost: {str(beam == 1).lower()}
cpu-threads: 0
gemm-precision: {precision}
alignment: soft
max-length-break: 128
mini-batch-words: {batch_tokens}
max-length-factor: {length_factor}
ssplit-mode: sentence
workspace: 128
quiet: true
quiet-translation: true
"""
    )


def main() -> None:
    """Translate standard input."""
    folder, beam = Path(sys.argv[1]), int(sys.argv[2])
    bergamot = load_extension()
    service = bergamot.Service(bergamot.ServiceConfig(numWorkers=1, cacheSize=0, logLevel="off"))
    model = service.modelFromConfig(settings_of(folder, beam))
    for line in sys.stdin.read().splitlines():
        texts = bergamot.VectorString([line])
        (response,) = service.translate(model, texts, bergamot.ResponseOptions())
        print(response.target.text)


if __name__ == "__main__":
    main()
