//! The one layer: the program, the CA roots, and a user that is nobody.

use std::io::Write as _;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

/// A layer, and the digest of what it is when it is unpacked.
pub(super) struct Layer {
    pub(super) compressed: Vec<u8>,
    pub(super) tar: Vec<u8>,
}

/// Who the program runs as; nothing in the image belongs to it.
pub(super) const USER: u32 = 65532;

/// The layer of a binary.
pub(super) fn layer(binary: &[u8], sbom: &[u8]) -> anyhow::Result<Layer> {
    let passwd = format!("root:x:0:0::/:/none\nnonroot:x:{USER}:{USER}::/tmp:/none\n");
    let group = format!("root:x:0:\nnonroot:x:{USER}:\n");
    let roots = certificates();
    let license = include_bytes!("../../../../LICENSE");
    let mut builder = Builder::new(Vec::new());
    let entries: [(&str, Option<&[u8]>, u32); 16] = [
        ("etc/", None, 0o755),
        ("etc/group", Some(group.as_bytes()), 0o644),
        ("etc/nsswitch.conf", Some(b"hosts: files dns\n"), 0o644),
        ("etc/passwd", Some(passwd.as_bytes()), 0o644),
        ("etc/ssl/", None, 0o755),
        ("etc/ssl/certs/", None, 0o755),
        ("etc/ssl/certs/ca-certificates.crt", Some(roots.as_bytes()), 0o644),
        ("tmp/", None, 0o1777),
        ("usr/", None, 0o755),
        ("usr/local/", None, 0o755),
        ("usr/local/bin/", None, 0o755),
        ("usr/local/bin/convoy", Some(binary), 0o755),
        ("usr/local/share/", None, 0o755),
        ("usr/local/share/convoy/", None, 0o755),
        ("usr/local/share/convoy/LICENSE", Some(license), 0o644),
        ("usr/local/share/convoy/sbom.cdx.json", Some(sbom), 0o644),
    ];
    for (path, content, mode) in entries {
        let mut header = Header::new_ustar();
        header.set_entry_type(if content.is_some() { EntryType::Regular } else { EntryType::Directory });
        header.set_mode(mode);
        header.set_size(content.unwrap_or_default().len() as u64);
        builder.append_data(&mut header, path, content.unwrap_or_default()).context("writing a layer")?;
    }
    let tar = builder.into_inner().context("writing a layer")?;
    // No name and no time in the head.
    let mut encoder = GzBuilder::new().write(Vec::new(), Compression::default());
    encoder.write_all(&tar)?;
    Ok(Layer { compressed: encoder.finish()?, tar })
}

/// Mozilla's roots, of the version in Cargo.lock.
fn certificates() -> String {
    let mut text = String::new();
    for certificate in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        for line in BASE64.encode(certificate).as_bytes().chunks(64) {
            text.push_str(&String::from_utf8_lossy(line));
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}
