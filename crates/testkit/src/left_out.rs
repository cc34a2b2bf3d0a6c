//! Tests that could not run here are named, so that nobody takes them for passed.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write as _;

/// Says that the running test is left out and why: on stderr, and in the file that
/// `CONVOY_LEFT_OUT_FILE` names (`cargo xtask test` sums it up).
///
/// # Panics
/// When `CONVOY_REQUIRE_ALL` is set: then leaving a test out is a failure.
#[expect(clippy::print_stderr, clippy::panic, reason = "it speaks to the person who runs the tests")]
pub fn leave_out(reason: &dyn Display) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    assert!(std::env::var_os("CONVOY_REQUIRE_ALL").is_none(), "{test} may not be left out: {reason}");
    eprintln!("left out: {test}: {reason}");
    let Some(path) = std::env::var_os("CONVOY_LEFT_OUT_FILE") else { return };
    let written = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut file| file.write_all(format!("{test}: {reason}\n").as_bytes()));
    if let Err(error) = written {
        panic!("could not note in {} that {test} was left out: {error}", path.display());
    }
}
