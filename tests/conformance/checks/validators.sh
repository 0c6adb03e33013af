# Validators of the OpenAPI documents and the AsyncAPI document: no errors, no warnings.
python=$(scripts/python "$CASES/openapi.txt")
cp "$CASES"/validators/* "$FOLDER"
cd "$FOLDER"
bin=$NODE_PACKAGES/node_modules/.bin
clean() {
    "$@" >output 2>&1 && return
    cat output >&2
    return 1
}
# Its rules are errors, all of them.
redocly() {
    clean "$bin/redocly" lint --config redocly.yaml "$1"
}
export REDOCLY_TELEMETRY=off NODE_PATH=$NODE_PACKAGES/node_modules
for document in openapi openapi-3.0; do
    python3 -c 'import sys, urllib.request as u; sys.stdout.buffer.write(u.urlopen(sys.argv[1]).read())' \
        "$URL/$document.json" >"$document.json"
    check "Redocly CLI: $document.json" redocly "$document.json"
    check "Spectral: $document.json" clean "$bin/spectral" lint --ruleset "$document.yaml" \
        --resolver resolver.cjs --fail-severity hint "$document.json"
done
# It never ends at a 3.1 schema that refers to itself; a test holds that document against the
# schema of OpenAPI.
check "openapi-spec-validator: openapi-3.0.json" clean "$python" validate.py openapi-3.0.json
check "AsyncAPI parser: asyncapi.json" clean node asyncapi.cjs "$CASES/../../docs/reference/asyncapi.json"
