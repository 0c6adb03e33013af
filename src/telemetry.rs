//! Metrics with their help text, tracing, the operations listener.
