//! Functions that draw random bytes from the render's [`Entropy`].

use convoy_gotemplate::{Call, FuncError, Value};

use super::arguments::{Outcome, int, string, text};
use super::context;
use super::encoding::base64;

type Ctx<'a, 'c, 'r> = &'a mut Call<'c, 'r>;

/// Where random bytes come from. A render is repeatable when this is.
pub trait Entropy {
    /// Fills the buffer.
    fn fill(&mut self, bytes: &mut [u8]);
}

/// Bytes that are drawn between two looks at whether the render is still wanted.
const DRAWN: usize = 1 << 14;

/// Random bytes.
pub(super) fn bytes(call: &mut Call<'_, '_>, count: usize) -> Result<Vec<u8>, FuncError> {
    call.check_text(count)?;
    call.charge(count)?;
    let mut bytes = vec![0; count];
    for part in bytes.chunks_mut(DRAWN) {
        call.steps(1 + part.len() as u64 / 16)?;
        context(call)?.entropy.fill(part);
    }
    Ok(bytes)
}

/// A number below `bound`, each equally likely.
fn below(call: &mut Call<'_, '_>, bound: u64) -> Result<u64, FuncError> {
    let zone = u64::MAX - u64::MAX % bound;
    loop {
        call.steps(1)?;
        let mut bytes = [0; 8];
        context(call)?.entropy.fill(&mut bytes);
        let number = u64::from_le_bytes(bytes);
        if number < zone {
            return Ok(number % bound);
        }
    }
}

fn characters(call: &mut Call<'_, '_>, args: &[Value], alphabet: &[u8]) -> Outcome {
    let count = usize::try_from(int(args, 0)).unwrap_or(0);
    call.check_text(count)?;
    call.charge(count)?;
    let mut out = Vec::with_capacity(count);
    for _ in 0..count {
        let index = usize::try_from(below(call, alphabet.len() as u64)?).unwrap_or(0);
        out.push(alphabet.get(index).copied().unwrap_or(b'a'));
    }
    string(out)
}

const ALPHANUMERIC: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

pub(super) fn alphanumeric(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    characters(call, args, ALPHANUMERIC)
}

pub(super) fn alpha(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    characters(call, args, ALPHANUMERIC.get(10..).unwrap_or(ALPHANUMERIC))
}

pub(super) fn numeric(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    characters(call, args, ALPHANUMERIC.get(..10).unwrap_or(ALPHANUMERIC))
}

pub(super) fn ascii(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let printable: Vec<u8> = (b' '..=b'~').collect();
    characters(call, args, &printable)
}

pub(super) fn rand_bytes(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let count = usize::try_from(int(args, 0))
        .map_err(|_| FuncError::new("runtime error: makeslice: len out of range"))?;
    string(base64(&bytes(call, count)?))
}

pub(super) fn rand_int(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let (min, max) = (int(args, 0), int(args, 1));
    let bound = u64::try_from(max.wrapping_sub(min)).ok().filter(|b| *b > 0);
    let bound = bound.ok_or_else(|| FuncError::new("invalid argument to Intn"))?;
    let offset = i64::try_from(below(call, bound)?).unwrap_or(0);
    Ok(Value::Int(min.wrapping_add(offset)))
}

pub(super) fn shuffle(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    call.charge(text(args, 0).len().saturating_mul(size_of::<char>()))?;
    let mut runes: Vec<char> = convoy_gotemplate::runes(&text(args, 0)).collect();
    for index in (1..runes.len()).rev() {
        let other = usize::try_from(below(call, index as u64 + 1)?).unwrap_or(0);
        runes.swap(index, other);
    }
    string(runes.into_iter().collect::<String>())
}

pub(super) fn uuidv4(call: Ctx<'_, '_, '_>, _: &[Value]) -> Outcome {
    let mut id = [0; 16];
    context(call)?.entropy.fill(&mut id);
    id[6] = id[6] & 0x0f | 0x40;
    id[8] = id[8] & 0x3f | 0x80;
    let hex = super::encoding::hex(&id);
    let parts = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)];
    let parts: Vec<&str> = parts.iter().filter_map(|(from, to)| hex.get(*from..*to)).collect();
    string(parts.join("-"))
}
