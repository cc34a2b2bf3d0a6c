//! Unpacking and loading a chart's archive; what loads is rendered. Bytes that are no gzip stand for the tar in one.

#![no_main]

use std::io::Write as _;

use convoy_fuzz::render_twice;
use convoy_helm::{Chart, Values, read_archive};
use flate2::{Compression, write::GzEncoder};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut packed = bytes.to_vec();
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
        packed = encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes all");
    }
    let Ok(files) = read_archive(&packed) else { return };
    for file in &files {
        let name = &file.name;
        assert!(!name.starts_with('/') && name.split('/').all(|part| part != ".."), "{name:?} leads out");
        assert!(file.data.len() <= 5 << 20);
    }
    let Ok(chart) = Chart::load_archive(&packed) else { return };
    let _ = render_twice(&chart, &Values::new());
});
