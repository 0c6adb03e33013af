# The dashboard's users over SCIM: scim2-tester and scim-sanity, which the flows run, too.
python=$(scripts/python tests/flows/scim/requirements.txt)
both_tools() {
    SCIM_TOKEN=$("$LONGSHORE" scim-token create --name "conformance $*" "$@") \
        "$python" tests/flows/scim/conformance.py "$URL/scim/v2" "$@"
}
check "scim2-tester, scim-sanity" both_tools
check "scim2-tester, scim-sanity: no X-Request-Origin" both_tools --without-origin
