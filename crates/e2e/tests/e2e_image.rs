//! The image that `cargo xtask image` made: pushed to a real registry, pulled from it, and run from its own files alone.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests, which run programs"
)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use convoy_testkit::{OciRegistry, leave_out};
use serde_json::Value;

/// The layout: in the target folder, where the chore writes it.
fn layout() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let test = std::env::current_exe().unwrap();
    let above = test.ancestors().skip(1).map(Path::to_path_buf);
    let found = target.into_iter().chain(above).map(|folder| folder.join("image"));
    let found = found.into_iter().find(|folder| folder.join("oci-layout").is_file());
    if found.is_none() {
        leave_out(&"there is no image; run `cargo xtask image --dev`");
    }
    found
}

/// One request to the registry: code, the header Location, body.
fn request(port: u16, method: &str, path: &str, media_type: &str, body: &[u8]) -> (u16, String, Vec<u8>) {
    let user = BASE64.encode(format!("{}:{}", OciRegistry::USER, OciRegistry::PASSWORD));
    let head = format!(
        "{method} {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Basic {user}\r\nAccept: {media_type}\r\n\
         Content-Type: {media_type}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    let location = head.lines().find_map(|line| line.strip_prefix("Location: ")).unwrap_or_default();
    let location = location.trim_start_matches(&format!("http://127.0.0.1:{port}")).to_owned();
    (code, location, answer[end + 4..].to_vec())
}

/// What a layout is pushed from.
struct Push<'a> {
    layout: &'a Path,
    port: u16,
}

impl Push<'_> {
    fn blob(&self, digest: &str) -> Vec<u8> {
        std::fs::read(self.layout.join("blobs").join(digest.replace(':', "/"))).unwrap()
    }

    /// Pushes what a manifest names, and then itself, under a reference.
    fn push(&self, descriptor: &Value, reference: &str) {
        let digest = descriptor["digest"].as_str().unwrap();
        let content = self.blob(digest);
        let manifest: Value = serde_json::from_slice(&content).unwrap();
        for inner in manifest["manifests"].as_array().into_iter().flatten() {
            self.push(inner, inner["digest"].as_str().unwrap());
        }
        let layers = manifest["layers"].as_array().into_iter().flatten();
        for blob in layers.chain(manifest.get("config")) {
            let digest = blob["digest"].as_str().unwrap();
            let uploads = "/v2/convoy/blobs/uploads/";
            let (code, location, _) = request(self.port, "POST", uploads, "application/json", b"");
            assert_eq!(code, 202);
            let to = format!("{location}{}digest={digest}", if location.contains('?') { '&' } else { '?' });
            let (code, _, said) =
                request(self.port, "PUT", &to, "application/octet-stream", &self.blob(digest));
            assert_eq!(code, 201, "{}", String::from_utf8_lossy(&said));
        }
        let to = format!("/v2/convoy/manifests/{reference}");
        let (code, _, said) =
            request(self.port, "PUT", &to, descriptor["mediaType"].as_str().unwrap(), &content);
        assert_eq!(code, 201, "{}", String::from_utf8_lossy(&said));
    }
}

#[test]
fn the_image_is_taken_by_a_registry_and_runs_as_nobody_from_its_own_files() {
    let Some(layout) = layout() else { return };
    let Some(registry) = OciRegistry::start_or_leave_out().unwrap() else { return };
    let port = registry.port();
    let index: Value = serde_json::from_slice(&std::fs::read(layout.join("index.json")).unwrap()).unwrap();
    let push = Push { layout: &layout, port };
    let (image, bill) = (&index["manifests"][0], &index["manifests"][1]);
    push.push(image, "test");
    push.push(bill, bill["digest"].as_str().unwrap());

    let pull = |path: &str, media_type: &Value| {
        let (code, _, body) =
            request(port, "GET", &format!("/v2/convoy/{path}"), media_type.as_str().unwrap(), b"");
        assert_eq!(code, 200, "{path}");
        body
    };
    let pulled: Value = serde_json::from_slice(&pull("manifests/test", &image["mediaType"])).unwrap();
    let manifest = &pulled["manifests"][0];
    let manifest =
        pull(&format!("manifests/{}", manifest["digest"].as_str().unwrap()), &manifest["mediaType"]);
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let blob =
        |part: &Value| pull(&format!("blobs/{}", part["digest"].as_str().unwrap()), &part["mediaType"]);
    let config: Value = serde_json::from_slice(&blob(&manifest["config"])).unwrap();
    assert_eq!(config["config"]["User"], "65532:65532");

    let root = tempfile::tempdir().unwrap();
    // Nobody goes through it.
    std::fs::set_permissions(root.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let layer = root.path().join("layer.tar.gz");
    std::fs::write(&layer, blob(&manifest["layers"][0])).unwrap();
    let unpacked = Command::new("tar").arg("-xzf").arg(&layer).arg("-C").arg(root.path()).status().unwrap();
    assert!(unpacked.success());
    let program = config["config"]["Entrypoint"][0].as_str().unwrap();
    let output = Command::new("chroot")
        .args(["--userspec=65532:65532", root.path().to_str().unwrap(), program, "--version"])
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("Operation not permitted") {
        leave_out(&"only root can run an image's program from its own files");
        return;
    }
    assert!(output.status.success(), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("convoy "), "{said}");
}
