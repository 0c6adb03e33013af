# The commands of docs/how-to/read-exports.md, on exports of the gateway: a ZIP of a download URL,
# and gzip files and ZIPs of own storage.
python=$(scripts/python "$CASES/readers.txt")
need "Java" openjdk-17-jre-headless command -v java
need "unzip" unzip command -v unzip
scripts/services start s3
eval "$(scripts/services env)"
PATH=$(dirname "$python"):$PATH
export AWS_ENDPOINT_URL=$LONGSHORE_TEST_S3_ENDPOINT AWS_DEFAULT_REGION=$LONGSHORE_TEST_S3_REGION
export AWS_ACCESS_KEY_ID=$LONGSHORE_TEST_S3_ACCESS_KEY
export AWS_SECRET_ACCESS_KEY=$LONGSHORE_TEST_S3_SECRET_KEY
export BUCKET=readers-$$ READERS_KEY=key-of-the-readers-of-this-run TZ=UTC
export PYSPARK_SUBMIT_ARGS="--conf spark.ui.enabled=false pyspark-shell" SPARK_LOCAL_IP=127.0.0.1
readers() { "$python" "$CASES/readers.py" "$@"; }
cd "$FOLDER"
aws s3 mb "s3://$BUCKET" >&2
trap 'aws s3 rb --force "s3://$BUCKET" >&2' EXIT

cat >workspace.yaml <<'END'
workspace: readers
keys:
  - {name: reader, secret: "${READERS_KEY}", permissions: [users.export.global_control_group]}
control_group: {percent: 100}
END
readers users >users.ndjson
"$LONGSHORE" apply workspace.yaml >&2
"$LONGSHORE" import users.ndjson --workspace readers >&2

# exported FOLDER FORMAT N…: gets the files of a new export into a folder, with the Nth command.
exported() {
    local folder=$1 command id url
    mkdir "$folder"
    read -r id url < <(readers export "$2")
    cd "$folder"
    if [ "$url" ]; then
        "$python" -c 'import sys, urllib.request as u; u.urlretrieve(*sys.argv[1:])' "$url" export.zip
    else
        EXPORT_FOLDER=$(aws s3 ls --recursive "s3://$BUCKET/segment-export/" |
            awk -v id="/$id/" 'index($4, id) { sub("/[^/]*$", "", $4); print $4; exit }')
        export EXPORT_FOLDER
    fi
    command=$(readers command "$3")
    bash -euo pipefail -c "$command"
    [ "$(ls export | wc -l)" -ge 3 ]
    readers imported ../users.ndjson
}
check "a ZIP has the imported users" exported zip zip 1
cat >>workspace.yaml <<END
storage:
  s3:
    bucket: $BUCKET
    endpoint: $AWS_ENDPOINT_URL
    region: $AWS_DEFAULT_REGION
    path_style: true
    access_key_id: $AWS_ACCESS_KEY_ID
    secret_access_key: $AWS_SECRET_ACCESS_KEY
END
"$LONGSHORE" apply workspace.yaml >&2
check "gzip files have the imported users" exported gzip gzip 2
check "ZIPs of own storage have the imported users" exported zips zip 3

reader_reads() {
    cd "$1" && readers read "$2"
}
reader_infers() {
    cd zip && readers inferred "$1"
}
check "each reader of the page is run" readers complete
for reader in DuckDB Polars pandas pyarrow Spark; do
    check "$reader: ZIP" reader_reads zip "$reader"
    check "$reader: gzip" reader_reads gzip "$reader"
    check "$reader fails without a schema" reader_infers "$reader"
done
