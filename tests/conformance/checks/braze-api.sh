# The JavaScript library of the family.
node "$CASES/client.js" "$URL" "$KEY" "$NODE_PACKAGES"
