//! How the program is linked.

use std::env;

/// On Linux the program is linked to fixed addresses. As a position-independent one it spent half of a short command's
/// time on putting 95,000 addresses right before `main`, and each process had a copy of its own of the pages that they
/// stand in, 4 MB with the list of them. See "What does not hold" in `docs/src/security.md`
/// for what that gives up.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |part: &str| env::var(format!("CARGO_CFG_TARGET_{part}")).unwrap_or_default();
    // What links a static program says itself where it is to stand.
    let is_static = target("FEATURE").split(',').any(|feature| feature == "crt-static");
    if target("OS") == "linux" && target("ENV") == "gnu" && !is_static {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
