//! Values as validation looks at them: types, numbers, equality.

use num_bigint::BigInt;
use serde_json::{Number, Value as Json};
use std::cmp::Ordering;
use std::str::FromStr as _;

/// Names of the types, in the order in which they are listed; the bit of each is its place.
pub(super) const TYPES: [&str; 7] = ["null", "boolean", "number", "integer", "string", "array", "object"];
/// The bit of `integer`.
pub(super) const INTEGER: u8 = 1 << 3;

/// The bit of a value's type; a whole number is a `number` first.
pub(super) fn type_bit(value: &Json) -> u8 {
    match value {
        Json::Null => 1,
        Json::Bool(_) => 1 << 1,
        Json::Number(_) => 1 << 2,
        Json::String(_) => 1 << 4,
        Json::Array(_) => 1 << 5,
        Json::Object(_) => 1 << 6,
    }
}

/// The bit of a type's name.
pub(super) fn bit_of(name: &str) -> u8 {
    TYPES.iter().position(|known| *known == name).map_or(0, |at| 1 << at)
}

/// The names of the types with these bits.
pub(super) fn type_names(bits: u8) -> Vec<&'static str> {
    TYPES.iter().enumerate().filter(|(at, _)| bits & (1 << at) != 0).map(|(_, name)| *name).collect()
}

/// As a float; 0 for what is no number.
pub(super) fn float(value: &Json) -> f64 {
    value.as_f64().unwrap_or_default()
}

/// Whether a number has no fraction.
pub(super) fn is_whole(value: &Json) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|float| float.fract() == 0.0)
}

/// A number as digits and a power of ten.
struct Decimal(BigInt, i64);

/// Larger differences of powers are compared as floats.
const MOST_DIGITS: i64 = 700;

fn decimal(number: &Number) -> Option<Decimal> {
    let text = number.to_string();
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = BigInt::from_str(&format!("{whole}{fraction}")).ok()?;
    let exponent = exponent.parse::<i64>().ok()?;
    Some(Decimal(digits, exponent - i64::try_from(fraction.len()).ok()?))
}

/// Both over one power of ten.
fn aligned(a: &Json, b: &Json) -> Option<(BigInt, BigInt)> {
    let (a, b) = (decimal(a.as_number()?)?, decimal(b.as_number()?)?);
    let least = a.1.min(b.1);
    let scaled = |Decimal(digits, exponent): Decimal| {
        let more = exponent - least;
        (more <= MOST_DIGITS).then(|| digits * BigInt::from(10).pow(u32::try_from(more).unwrap_or(0)))
    };
    Some((scaled(a)?, scaled(b)?))
}

/// Which of two numbers is larger.
pub(super) fn compare(a: &Json, b: &Json) -> Ordering {
    match aligned(a, b) {
        Some((a, b)) => a.cmp(&b),
        None => float(a).total_cmp(&float(b)),
    }
}

/// Whether a number is a multiple of another.
pub(super) fn is_multiple(of: &Json, value: &Json) -> bool {
    match aligned(value, of) {
        Some((_, of)) if of == BigInt::ZERO => true,
        Some((value, of)) => value % of == BigInt::ZERO,
        None => (float(value) / float(of)).fract() == 0.0,
    }
}

/// Equality of JSON: 1 and 1.0 are one number.
pub(super) fn equal(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(x), Json::Number(y)) => x == y || compare(a, b) == Ordering::Equal,
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        _ => a == b,
    }
}
