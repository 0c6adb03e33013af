# The corpus of templates, and python-liquid as its reference.
check "the corpus and python-liquid" cargo test --locked --test conformance -- --include-ignored
