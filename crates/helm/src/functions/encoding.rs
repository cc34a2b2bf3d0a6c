//! Base64, base32 and checksums.

use convoy_gotemplate::{Call, Value};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use super::arguments::{Outcome, string, text};

type Ctx<'a, 'c, 'r> = &'a mut Call<'c, 'r>;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Standard base64 with padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    encode(bytes, BASE64, 6, 3)
}

// `group` bytes become characters of `bits` bits each; `=` fills the last group.
fn encode(bytes: &[u8], alphabet: &[u8], bits: u32, group: usize) -> String {
    let per_group = group * 8 / bits as usize;
    let mut out = String::with_capacity(bytes.len().div_ceil(group) * per_group);
    for chunk in bytes.chunks(group) {
        let mut number: u64 = 0;
        for index in 0..group {
            number = number << 8 | u64::from(chunk.get(index).copied().unwrap_or(0));
        }
        let filled = (chunk.len() * 8).div_ceil(bits as usize);
        for index in 0..per_group {
            let shift = bits as usize * (per_group - 1 - index);
            let digit = usize::try_from(number >> shift & ((1 << bits) - 1)).unwrap_or(0);
            let character = alphabet.get(digit).copied().unwrap_or(b'=');
            out.push(if index < filled { char::from(character) } else { '=' });
        }
    }
    out
}

/// Base64 with the alphabet of bcrypt, without padding.
pub(super) fn bcrypt_base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    encode(bytes, ALPHABET, 6, 3).trim_end_matches('=').to_owned()
}

/// Standard base64 as Go's decoder takes it: line breaks are skipped, padding is wanted.
///
/// # Errors
/// The position of the first bad byte, as Go counts.
pub(super) fn base64_decode(text: &[u8]) -> Result<Vec<u8>, String> {
    decode(text, BASE64, 6, 3, "base64")
}

fn decode(text: &[u8], alphabet: &[u8], bits: u32, group: usize, name: &str) -> Result<Vec<u8>, String> {
    let per_group = group * 8 / bits as usize;
    let corrupt = |at: usize| format!("illegal {name} data at input byte {at}");
    let mut out = Vec::with_capacity(text.len() / per_group * group + group);
    let mut input = text.iter().enumerate().filter(|(_, b)| !matches!(b, b'\n' | b'\r')).peekable();
    while input.peek().is_some() {
        let mut number: u64 = 0;
        let mut digits = 0;
        let mut padded = false;
        while digits < per_group {
            let Some((at, byte)) = input.next() else {
                return Err(corrupt(if name == "base64" {
                    text.len() - digits.min(text.len())
                } else {
                    text.len()
                }));
            };
            if *byte == b'=' {
                // How many digits a padded group may have.
                let allowed = (1..group).any(|bytes| (bytes * 8).div_ceil(bits as usize) == digits);
                if !allowed {
                    return Err(corrupt(at));
                }
                for _ in digits + 1..per_group {
                    match input.next() {
                        Some((_, b'=')) => {}
                        Some((at, _)) => return Err(corrupt(at.saturating_sub(1))),
                        None => return Err(corrupt(text.len())),
                    }
                }
                padded = true;
                break;
            }
            let Some(digit) = alphabet.iter().position(|c| c == byte) else { return Err(corrupt(at)) };
            number = number << bits | digit as u64;
            digits += 1;
        }
        let whole = digits * bits as usize / 8;
        number <<= (per_group - digits) * bits as usize;
        let bytes = number.to_be_bytes();
        out.extend_from_slice(bytes.get(8 - group..8 - group + whole).unwrap_or_default());
        if padded && let Some((at, _)) = input.next() {
            return Err(corrupt(at));
        }
    }
    Ok(out)
}

pub(super) fn b64enc(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    string(base64(&text(args, 0)))
}

pub(super) fn b64dec(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    match base64_decode(&text(args, 0)) {
        Ok(bytes) => string(bytes),
        Err(error) => string(error),
    }
}

pub(super) fn b32enc(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    string(encode(&text(args, 0), BASE32, 5, 5))
}

pub(super) fn b32dec(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    match decode(&text(args, 0), BASE32, 5, 5, "base32") {
        Ok(bytes) => string(bytes),
        Err(error) => string(error),
    }
}

/// Lower-case hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

pub(super) fn sha1sum(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    string(hex(&Sha1::digest(&text(args, 0)[..])))
}

pub(super) fn sha256sum(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    string(hex(&Sha256::digest(&text(args, 0)[..])))
}

pub(super) fn sha512sum(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    string(hex(&Sha512::digest(&text(args, 0)[..])))
}

pub(super) fn adler32sum(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    const MODULUS: u32 = 65_521;
    let (mut a, mut b) = (1u32, 0u32);
    for byte in text(args, 0).iter() {
        a = (a + u32::from(*byte)) % MODULUS;
        b = (b + a) % MODULUS;
    }
    string((b << 16 | a).to_string())
}
