//! A control plane in memory: `cargo run -p convoy-apiserver --example memory -- DIR [PORT]` writes
//! `DIR/admin.kubeconfig` and serves until it is interrupted.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a program of its own, with the machine's clock"
)]
#![allow(dead_code, reason = "tests use more of the control plane")]

#[path = "../tests/kubectl/control_plane.rs"]
mod control_plane;

use std::path::PathBuf;

#[tokio::main]
async fn main() -> Result<(), control_plane::AnyError> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("name a folder for the kubeconfig")?);
    let port: u16 = arguments.next().map_or(Ok(0), |port| port.parse())?;
    std::fs::create_dir_all(&folder)?;
    let running = control_plane::start(&folder, port).await?;
    println!("serving {}, kubeconfig {}", running.url, running.kubeconfig.display());
    std::future::pending::<()>().await;
    Ok(())
}
