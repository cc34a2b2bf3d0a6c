//! scrypt (RFC 7914), which can be left on its way: it takes tenths of a second.

use convoy_gotemplate::FuncError;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

type Block = [u32; 16];

/// Blocks that are mixed together: 2r, with r = 8.
const BLOCKS: usize = 16;
/// Lanes that are mixed one after the other.
const LANES: usize = 2;
/// Mixes between two counts of steps.
const COUNTED_AFTER: usize = 128;

/// A key of 64 bytes, with N = 2^`log_n`, r = 8 and p = 2. `count` is told of the mixes, 4N in all.
pub(super) fn derive(
    password: &[u8],
    salt: &[u8],
    log_n: u32,
    count: &mut dyn FnMut(u64) -> Result<(), FuncError>,
) -> Result<[u8; 64], FuncError> {
    let mut lanes = vec![0; LANES * BLOCKS * size_of::<Block>()];
    expand(password, salt, &mut lanes)?;
    let mut memory = vec![[0; 16]; BLOCKS << log_n];
    for lane in lanes.chunks_mut(BLOCKS * size_of::<Block>()) {
        let mut blocks = read(lane);
        mix_with_memory(&mut blocks, &mut memory, count)?;
        write(&blocks, lane);
    }
    let mut key = [0; 64];
    expand(password, &lanes, &mut key)?;
    Ok(key)
}

/// PBKDF2 with HMAC-SHA-256 and one turn.
fn expand(password: &[u8], salt: &[u8], out: &mut [u8]) -> Result<(), FuncError> {
    for (number, part) in (1_u32..).zip(out.chunks_mut(32)) {
        let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(password)
            .map_err(|error| FuncError::new(error.to_string()))?;
        mac.update(salt);
        mac.update(&number.to_be_bytes());
        part.iter_mut().zip(mac.finalize().into_bytes()).for_each(|(to, from)| *to = from);
    }
    Ok(())
}

fn read(bytes: &[u8]) -> Vec<Block> {
    let words = |bytes: &[u8]| {
        let mut block = [0; 16];
        for (word, bytes) in block.iter_mut().zip(bytes.chunks(4)) {
            *word = u32::from_le_bytes(bytes.try_into().unwrap_or_default());
        }
        block
    };
    bytes.chunks(size_of::<Block>()).map(words).collect()
}

fn write(blocks: &[Block], out: &mut [u8]) {
    for (word, bytes) in blocks.iter().flatten().zip(out.chunks_mut(4)) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

/// ROMix.
fn mix_with_memory(
    blocks: &mut Vec<Block>,
    memory: &mut [Block],
    count: &mut dyn FnMut(u64) -> Result<(), FuncError>,
) -> Result<(), FuncError> {
    let mut mixed = vec![[0; 16]; BLOCKS];
    let mut counted = 0;
    let mut turn = || {
        counted += 1;
        if counted % COUNTED_AFTER == 0 { count(COUNTED_AFTER as u64) } else { Ok(()) }
    };
    for place in memory.chunks_mut(BLOCKS) {
        turn()?;
        place.copy_from_slice(blocks);
        mix(blocks, &mut mixed);
        std::mem::swap(blocks, &mut mixed);
    }
    let places = memory.len() / BLOCKS;
    for _ in 0..places {
        turn()?;
        let at = blocks.last().and_then(|last| last.first()).copied().unwrap_or_default() as usize % places;
        let place = memory.get(at * BLOCKS..(at + 1) * BLOCKS).unwrap_or_default();
        for (block, other) in blocks.iter_mut().zip(place) {
            block.iter_mut().zip(other).for_each(|(word, other)| *word ^= other);
        }
        mix(blocks, &mut mixed);
        std::mem::swap(blocks, &mut mixed);
    }
    Ok(())
}

/// BlockMix: what comes of even blocks goes to the first half, of odd ones to the second.
fn mix(blocks: &[Block], out: &mut [Block]) {
    let Some(mut state) = blocks.last().copied() else { return };
    let (even, odd) = out.split_at_mut(BLOCKS / 2);
    let places = even.iter_mut().zip(odd).flat_map(|(even, odd)| [even, odd]);
    for (block, place) in blocks.iter().zip(places) {
        state.iter_mut().zip(block).for_each(|(word, other)| *word ^= other);
        salsa(&mut state);
        *place = state;
    }
}

/// Salsa20/8.
fn salsa(state: &mut Block) {
    const COLUMNS: [[usize; 4]; 4] = [[0, 4, 8, 12], [5, 9, 13, 1], [10, 14, 2, 6], [15, 3, 7, 11]];
    const ROWS: [[usize; 4]; 4] = [[0, 1, 2, 3], [5, 6, 7, 4], [10, 11, 8, 9], [15, 12, 13, 14]];
    let mut x = *state;
    for _ in 0..4 {
        for [a, b, c, d] in COLUMNS.into_iter().chain(ROWS) {
            x[b] ^= x[a].wrapping_add(x[d]).rotate_left(7);
            x[c] ^= x[b].wrapping_add(x[a]).rotate_left(9);
            x[d] ^= x[c].wrapping_add(x[b]).rotate_left(13);
            x[a] ^= x[d].wrapping_add(x[c]).rotate_left(18);
        }
    }
    state.iter_mut().zip(x).for_each(|(word, mixed)| *word = word.wrapping_add(mixed));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn salsa_mixes_as_in_rfc_7914() {
        let bytes = |hex: &str| -> Vec<u8> {
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
        };
        let input = bytes(
            "7e879a214f3ec9867ca940e641718f26baee555b8c61c1b50df846116dcd3b1dee24f319df9b3d8514121e4b5ac5aa3276021d2909c74829edebc68db8b8c25e",
        );
        let wanted = bytes(
            "a41f859c6608cc993b81cacb020cef05044b2181a2fd337dfd7b1c6396682f29b4393168e3c9e6bcfe6bc5b7a06d96bae424cc102c91745c24ad673dc7618f81",
        );
        let mut block = read(&input)[0];
        salsa(&mut block);
        let mut found = vec![0; 64];
        write(&[block], &mut found);
        assert_eq!(found, wanted);
    }

    #[test]
    fn it_can_be_left_on_its_way() {
        let mut counted = 0;
        let mut count = |mixes| {
            counted += mixes;
            if counted > 1_000 { Err(FuncError::new("enough")) } else { Ok(()) }
        };
        assert!(derive(b"x", b"y", 9, &mut count).is_err());
        assert_eq!(counted, 1_024, "it was asked after every 128");
        let mut counted = 0;
        let mut count = |mixes| {
            counted += mixes;
            Ok(())
        };
        derive(b"x", b"y", 8, &mut count).unwrap();
        assert_eq!(counted, 4 << 8);
    }
}
