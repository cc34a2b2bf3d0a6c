//! Decimal numbers of any length, for Sprig's float arithmetic: `0.1 + 0.2` is `0.3` there.

use convoy_gotemplate::FuncError;
use num_bigint::{BigInt, Sign};

// Quotients have this many digits after the point, as in shopspring/decimal.
const QUOTIENT_DIGITS: i32 = 16;
// Products grow with every factor; beyond this no float is left in them anyway.
const MOST_BITS: u64 = 1 << 16;

/// `digits` × 10^`exponent`.
pub(super) struct Decimal {
    digits: BigInt,
    exponent: i32,
}

fn ten_to(power: u32) -> BigInt {
    BigInt::from(10).pow(power)
}

impl Decimal {
    /// The shortest decimal that reads back as `float`.
    pub(super) fn from_float(float: f64) -> Result<Self, FuncError> {
        if !float.is_finite() {
            return Err(FuncError::new(format!(
                "Cannot create a Decimal from {}",
                convoy_gotemplate::format_float(float, 'g', -1)
            )));
        }
        let text = format!("{float:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}").parse().unwrap_or_default();
        let places = i32::try_from(fraction.len()).unwrap_or(0);
        Ok(Self { digits, exponent: exponent - places })
    }

    /// The nearest float.
    pub(super) fn to_float(&self) -> f64 {
        format!("{}e{}", self.digits, self.exponent).parse().unwrap_or(0.0)
    }

    // The digits when written with a smaller exponent.
    fn at(&self, exponent: i32) -> BigInt {
        let shift = u32::try_from(self.exponent - exponent).unwrap_or(0);
        &self.digits * ten_to(shift)
    }

    pub(super) fn add(&self, other: &Self) -> Self {
        let exponent = self.exponent.min(other.exponent);
        Self { digits: self.at(exponent) + other.at(exponent), exponent }
    }

    pub(super) fn sub(&self, other: &Self) -> Self {
        let exponent = self.exponent.min(other.exponent);
        Self { digits: self.at(exponent) - other.at(exponent), exponent }
    }

    pub(super) fn mul(&self, other: &Self) -> Result<Self, FuncError> {
        if self.digits.bits() + other.digits.bits() > MOST_BITS {
            return Err(FuncError::new("the product has too many digits"));
        }
        Ok(Self {
            digits: &self.digits * &other.digits,
            exponent: self.exponent.saturating_add(other.exponent),
        })
    }

    pub(super) fn div(&self, other: &Self) -> Result<Self, FuncError> {
        if other.digits.sign() == Sign::NoSign {
            return Err(FuncError::new("decimal division by 0"));
        }
        let shift = self.exponent - other.exponent + QUOTIENT_DIGITS;
        let power = ten_to(shift.unsigned_abs().min(1_000));
        let (dividend, divisor) = if shift >= 0 {
            (&self.digits * power, other.digits.clone())
        } else {
            (self.digits.clone(), &other.digits * power)
        };
        let mut digits = &dividend / &divisor;
        let rest: BigInt = &dividend - &digits * &divisor;
        // Halves are rounded away from zero.
        if rest.magnitude() * 2u32 >= *divisor.magnitude() {
            digits += if dividend.sign() == divisor.sign() { 1 } else { -1 };
        }
        Ok(Self { digits, exponent: -QUOTIENT_DIGITS })
    }
}
