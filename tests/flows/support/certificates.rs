//! Certificates for this machine that nobody else has signed.

use std::path::Path;
use std::process::Command;

use super::process;

/// Creates a certificate and its key, valid for two days; returns the names of their files.
pub async fn self_signed(directory: &Path) -> (String, String) {
    let path = |name: &str| directory.join(name).display().to_string();
    let (certificate, key) = (path("certificate.pem"), path("key.pem"));
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    command.args(["-nodes", "-days", "2", "-subj", "/CN=self-signed", "-keyout", &key]);
    command.args(["-out", &certificate, "-addext", "subjectAltName=IP:127.0.0.1"]);
    command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    let output = process::output(command).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (certificate, key)
}
