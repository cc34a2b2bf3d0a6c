//! One TLS provider for the whole process.

/// Makes ring the provider of TLS. Several crates bring rustls with different providers, and rustls
/// refuses to choose; called at the start of each process and test binary, again without effect.
pub fn install_tls_provider() {
    // The only error is that one is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
