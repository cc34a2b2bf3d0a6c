//! The base64 of `!!binary`, as Go's `base64.StdEncoding` reads and writes it.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Line breaks are skipped, padding is required, spare bits are not looked at.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let symbols: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\n' | b'\r')).collect();
    if !symbols.len().is_multiple_of(4) {
        return None;
    }
    let padding = symbols.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
    let data = symbols.get(..symbols.len() - padding)?;
    let mut bytes = Vec::with_capacity(data.len() / 4 * 3 + 2);
    for chunk in data.chunks(4) {
        let mut bits: u32 = 0;
        for symbol in chunk {
            let value = ALPHABET.iter().position(|known| known == symbol)?;
            bits = (bits << 6) | u32::try_from(value).ok()?;
        }
        bits <<= 6 * (4 - chunk.len());
        let [_, a, b, c] = bits.to_be_bytes();
        bytes.extend([a, b, c].iter().take(chunk.len() * 6 / 8));
    }
    Some(bytes)
}
