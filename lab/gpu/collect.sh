#!/bin/sh
# Joins what came back from a rented GPU, exports it, and compares it with the shipped model.
#   lab/gpu/collect.sh OUT CORPORA [RUNS]
# OUT has the files that came back, in any subfolders; RUNS (runs/gpu) gets the models and bundles.
set -eu
out=$(realpath "$1")
corpora=$(realpath "$2")
runs=$(realpath "${3:-runs/gpu}")
cd "$(dirname "$0")/../.."
dragoman=${DRAGOMAN:-.venv-dev/bin/dragoman}
tests=${TESTS:-"tatoeba-en-de/test tatoeba-en-fr/test newstest/newstest2014.en-de newstest/newstest2014.en-fr flores200/devtest ntrex128/test"}
first=${FIRST:-10000}
mkdir -p "$runs"

evaluate() { # NAME BUNDLE
    for test in $tests; do
        "$dragoman" evaluate "$2" --test "$test" --data-dir "$corpora" --runtime engine --first "$first" --json
    done > "$runs/$1.json"
}

evaluate shipped model_repository/translate/1/bundle
for name in teacher student; do
    [ -n "$(find "$out" -name "$name.tar.0")" ] || { echo "no $name came back"; continue; }
    find "$out" -name "$name.tar.*" | sort -t. -k3n | xargs cat | tar xC "$runs"
    "$dragoman" export onnx "$runs/$name" --out "$runs/$name-bundle" --storage int8 --force \
        --length-penalty 1.5 --max-sentence-tokens 60 --alignment-text tatoeba-en-de/valid --data-dir "$corpora"
    du -sh "$runs/$name-bundle"
    evaluate "$name" "$runs/$name-bundle"
done
"$(dirname "$dragoman")/python" - "$runs" << 'END'
import json, pathlib, sys

scores = {}
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json"), key=lambda path: path.stem != "shipped"):
    for line in path.read_text().splitlines():
        row = json.loads(line)
        scores.setdefault((row["test"], row["direction"]), {})[path.stem] = row["bleu"]
for (test, direction), models in scores.items():
    print(f"{test:32}{direction:7}", *(f"{name} {bleu:5.1f}" for name, bleu in models.items()), sep="  ")
END
