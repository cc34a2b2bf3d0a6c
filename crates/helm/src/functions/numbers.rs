//! Arithmetic on Go's `int`, `int64` and `float64`.

use convoy_gotemplate::{Call, FuncError, Value, parse_float, parse_int};

use super::arguments::{Outcome, any, int, text};
use super::decimal::Decimal;
use super::text::plain;

type Ctx<'a, 'c, 'r> = &'a mut Call<'c, 'r>;

/// Go's conversion of a float to an integer on amd64: what does not fit is the smallest integer.
#[allow(clippy::cast_possible_truncation)]
fn truncate(float: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&float) { float as i64 } else { i64::MIN }
}

// `1.00` is read as `1`.
fn without_zero_decimals(text: &str) -> &str {
    let trimmed = text.trim_end_matches('0');
    match trimmed.strip_suffix('.') {
        Some(whole) if trimmed.len() < text.len() => whole,
        _ => text,
    }
}

/// Sprig's `int64` of anything: what is no number is 0.
pub(super) fn to_int64(value: &Value) -> i64 {
    match value {
        Value::Int(i) | Value::Int64(i) => *i,
        Value::Int32(i) => i64::from(*i),
        Value::Uint8(u) => i64::from(*u),
        Value::Uint32(u) => i64::from(*u),
        Value::Uint64(u) => u.cast_signed(),
        Value::Float64(f) => truncate(*f),
        Value::String(s) => {
            std::str::from_utf8(s).ok().and_then(|s| parse_int(without_zero_decimals(s))).unwrap_or(0)
        }
        Value::Bool(b) => i64::from(*b),
        Value::Nil | Value::Bytes(_) | Value::List(_) | Value::Map(_) => 0,
        Value::Object(object) => object.as_int().unwrap_or(0),
    }
}

/// Sprig's `float64` of anything: what is no number is 0.
#[allow(clippy::cast_precision_loss)]
pub(super) fn to_float64(value: &Value) -> f64 {
    match value {
        Value::Float64(f) => *f,
        Value::Uint64(u) => *u as f64,
        Value::String(s) => std::str::from_utf8(s).ok().and_then(parse_float).unwrap_or(0.0),
        other => to_int64(other) as f64,
    }
}

pub(super) fn int64(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(Value::Int64(to_int64(&any(args, 0))))
}

pub(super) fn int_function(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(Value::Int(to_int64(&any(args, 0))))
}

pub(super) fn float64(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(Value::Float64(to_float64(&any(args, 0))))
}

pub(super) fn atoi(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let number = text(args, 0);
    let parsed = std::str::from_utf8(&number).ok().and_then(|s| s.parse::<i64>().ok());
    // Out of range, Go's Atoi gives the nearest number beside its error.
    let parsed = parsed.unwrap_or_else(|| {
        let digits = number.strip_prefix(b"-").or(number.strip_prefix(b"+")).unwrap_or(&number);
        match (!digits.is_empty() && digits.iter().all(u8::is_ascii_digit), number.first()) {
            (false, _) => 0,
            (true, Some(b'-')) => i64::MIN,
            (true, _) => i64::MAX,
        }
    });
    Ok(Value::Int(parsed))
}

pub(super) fn to_decimal(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let shown = plain(call, &any(args, 0))?;
    let number = std::str::from_utf8(&shown).ok().and_then(|s| i64::from_str_radix(s, 8).ok());
    Ok(Value::Int64(number.unwrap_or(0)))
}

pub(super) fn add1(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(Value::Int64(to_int64(&any(args, 0)).wrapping_add(1)))
}

pub(super) fn add(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(Value::Int64(args.iter().map(to_int64).fold(0, i64::wrapping_add)))
}

pub(super) fn sub(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(Value::Int64(to_int64(&any(args, 0)).wrapping_sub(to_int64(&any(args, 1)))))
}

fn divisor(args: &[Value]) -> Result<i64, FuncError> {
    match to_int64(&any(args, 1)) {
        0 => Err(FuncError::new("runtime error: integer divide by zero")),
        number => Ok(number),
    }
}

pub(super) fn div(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(Value::Int64(to_int64(&any(args, 0)).wrapping_div(divisor(args)?)))
}

pub(super) fn modulo(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(Value::Int64(to_int64(&any(args, 0)).wrapping_rem(divisor(args)?)))
}

pub(super) fn mul(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(Value::Int64(args.iter().map(to_int64).fold(1, i64::wrapping_mul)))
}

pub(super) fn max(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(Value::Int64(args.iter().map(to_int64).max().unwrap_or(0)))
}

pub(super) fn min(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(Value::Int64(args.iter().map(to_int64).min().unwrap_or(0)))
}

fn reduce(args: &[Value], pick: fn(f64, f64) -> f64) -> Outcome {
    // Unlike Rust's, Go's Max and Min give NaN when either is.
    let numbers = args.iter().map(to_float64);
    let result = numbers.reduce(|a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { pick(a, b) });
    Ok(Value::Float64(result.unwrap_or(0.0)))
}

pub(super) fn maxf(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    reduce(args, f64::max)
}

pub(super) fn minf(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    reduce(args, f64::min)
}

pub(super) fn ceil(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(Value::Float64(to_float64(&any(args, 0)).ceil()))
}

pub(super) fn floor(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(Value::Float64(to_float64(&any(args, 0)).floor()))
}

pub(super) fn round(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let round_on = match args.get(2) {
        Some(Value::Float64(f)) => *f,
        _ => 0.5,
    };
    let places = i32::try_from(int(args, 1)).unwrap_or(if int(args, 1) < 0 { -400 } else { 400 });
    let power = 10f64.powi(places);
    let digit = power * to_float64(&any(args, 0));
    let fraction = digit - digit.trunc();
    let rounded = if fraction >= round_on { digit.ceil() } else { digit.floor() };
    Ok(Value::Float64(rounded / power))
}

fn decimals(
    first: &Value,
    rest: &[Value],
    apply: fn(&Decimal, &Decimal) -> Result<Decimal, FuncError>,
) -> Outcome {
    let mut result = Decimal::from_float(to_float64(first))?;
    for value in rest {
        result = apply(&result, &Decimal::from_float(to_float64(value))?)?;
    }
    Ok(Value::Float64(result.to_float()))
}

pub(super) fn add1f(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    decimals(&any(args, 0), &[Value::Int(1)], |a, b| Ok(a.add(b)))
}

pub(super) fn addf(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    decimals(&Value::Float64(0.0), args, |a, b| Ok(a.add(b)))
}

pub(super) fn subf(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    decimals(&any(args, 0), args.get(1..).unwrap_or_default(), |a, b| Ok(a.sub(b)))
}

pub(super) fn mulf(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    decimals(&any(args, 0), args.get(1..).unwrap_or_default(), Decimal::mul)
}

pub(super) fn divf(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    decimals(&any(args, 0), args.get(1..).unwrap_or_default(), Decimal::div)
}
