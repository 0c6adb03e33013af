# Code generators on /openapi-3.0.json, without options that change what they understand. Each
# package is compiled, and a program that uses it sends requests.
python=$(scripts/python "$CASES/openapi.txt")
bin=$(dirname "$python")
need "Go" golang command -v go
oapi_codegen() {
    GOBIN=$1 go install github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2
}
oapi=${XDG_CACHE_HOME:-$HOME/.cache}/longshore/oapi-codegen-2.8.2
made_once "$oapi" oapi_codegen
examples=$CASES/clients
export LONGSHORE_URL=$URL LONGSHORE_KEY=$KEY
packages=$FOLDER/clients
scripts/clients --url "$URL" "$packages" >/dev/null
cd "$FOLDER"
python3 -c 'import sys, urllib.request as u; sys.stdout.buffer.write(u.urlopen(sys.argv[1]).read())' \
    "$URL/openapi-3.0.json" >openapi.json

# What each program prints: the response to tracked data, and the campaigns.
prints() {
    local printed
    printed=$("$@") && [ "$printed" = "$(printf 'success 1\nWelcome\nReceipt')" ] || {
        echo "$printed" >&2
        return 1
    }
}
tsc() { "$NODE_PACKAGES/node_modules/.bin/tsc" "$@"; }
typescript_program() {
    tsc --strict --target es2022 --module nodenext "$1.mts" && node "$1.mjs"
}
go_program() {
    go mod init acme.example/program && go mod tidy && go run .
}

generated_python() {
    PYTHONPATH=$packages/python prints "$python" "$examples/example.py"
}
generated_typescript() {
    (cd "$packages/typescript" && tsc && tsc -p tsconfig.esm.json) || return
    mkdir -p typescript/node_modules
    ln -s "$NODE_PACKAGES/node_modules/@types" typescript/node_modules
    ln -s "$packages/typescript" typescript/node_modules/longshore
    cp "$examples/example.ts" typescript/example.mts
    (cd typescript && prints typescript_program example)
}
generated_go() {
    mkdir go && cp "$examples/example.go" go
    cd go && go mod init acme.example/program &&
        go mod edit -replace "acme.example/clients/longshore=$packages/go" && go mod tidy &&
        prints go run .
}
generated_java() {
    (cd "$packages/java" && mvn -q -B package -DskipTests \
        dependency:copy-dependencies -DoutputDirectory=target/lib) || return
    prints java -cp "$packages/java/target/*:$packages/java/target/lib/*" "$examples/Example.java"
}
oapi_codegen_client() {
    mkdir -p oapi/longshore && cp "$examples/oapi.go" oapi/main.go && cd oapi &&
        "$oapi/oapi-codegen" -generate types,client -package longshore -o longshore/client.go \
            ../openapi.json && go mod init acme.example/program && go mod tidy && prints go run .
}
openapi_python_client() {
    "$bin/openapi-python-client" generate --path openapi.json --output-path client &&
        PYTHONPATH=client prints "$python" "$examples/openapi_python_client.py"
}
openapi_typescript() {
    mkdir -p fetch && cp "$examples/fetch.ts" fetch/fetch.mts &&
        ln -s "$NODE_PACKAGES/node_modules" fetch/node_modules && cd fetch &&
        node_modules/.bin/openapi-typescript ../openapi.json -o longshore.d.ts &&
        prints typescript_program fetch
}
datamodel_codegen() {
    mkdir -p models && "$bin/datamodel-codegen" --input openapi.json --input-file-type openapi \
        --output-model-type pydantic_v2.BaseModel --output models/longshore.py &&
        PYTHONPATH=models prints "$python" "$examples/models.py"
}
check "OpenAPI Generator: Python" generated_python
check "OpenAPI Generator: TypeScript" generated_typescript
check "OpenAPI Generator: Go" generated_go
check "OpenAPI Generator: Java" generated_java
check "oapi-codegen" oapi_codegen_client
check "openapi-python-client" openapi_python_client
check "openapi-typescript and openapi-fetch" openapi_typescript
check "datamodel-code-generator" datamodel_codegen
