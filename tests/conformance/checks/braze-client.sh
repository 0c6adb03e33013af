# The Python library of the family.
"$(scripts/python "$CASES/requirements.txt")" "$CASES/client.py" "$URL" "$KEY"
