//! Functions on times. The time that `now` gives is the render's, and `Local` is UTC.

use std::any::Any;

use convoy_gotemplate::{Call, FuncError, Kind, Object, Signature, Str, Type, Value};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};

use super::arguments::{Outcome, any, string, text};
use super::context;
use super::date_layout::{format, parse};
use super::duration::{self, Duration};

type Ctx<'a, 'c, 'r> = &'a mut Call<'c, 'r>;

/// `time.Time`.
pub(super) const TIME: &str = "time.Time";

/// A moment in a time zone, with the name that Go prints for the zone. `None` is Go's zero time, year 1.
#[derive(Debug, Clone)]
pub(super) struct Time(pub(super) Zoned);

/// Go's zero time.
/// Whether a text is a time in a layout.
///
/// # Errors
/// Go's text.
pub(crate) fn check_time(layout: &str, text: &str) -> Result<(), String> {
    super::date_layout::parse(layout.as_bytes(), text.as_bytes()).map(|_| ())
}

pub(super) fn zero() -> Zoned {
    let year_one = jiff::civil::date(1, 1, 1).at(0, 0, 0, 0);
    year_one.to_zoned(TimeZone::UTC).unwrap_or_default()
}

pub(super) fn now(call: Ctx<'_, '_, '_>, _: &[Value]) -> Outcome {
    let now = context(call)?.now;
    Ok(Value::object(Time(now.to_zoned(TimeZone::UTC))))
}

fn current(call: &mut Call<'_, '_>) -> Result<Zoned, FuncError> {
    Ok(context(call)?.now.to_zoned(TimeZone::UTC))
}

fn time_of(value: &Value) -> Option<Zoned> {
    match value {
        Value::Object(object) => object.as_any().downcast_ref::<Time>().map(|time| time.0.clone()),
        _ => None,
    }
}

fn from_seconds(seconds: i64) -> Zoned {
    Timestamp::from_second(seconds).unwrap_or_default().to_zoned(TimeZone::UTC)
}

// What the date functions take: a time or seconds since 1970; anything else means now.
fn any_time(call: &mut Call<'_, '_>, value: &Value) -> Result<Zoned, FuncError> {
    if let Some(time) = time_of(value) {
        return Ok(time);
    }
    match value {
        Value::Int(seconds) | Value::Int64(seconds) => Ok(from_seconds(*seconds)),
        Value::Int32(seconds) => Ok(from_seconds(i64::from(*seconds))),
        _ => current(call),
    }
}

fn zone(name: &str) -> TimeZone {
    match name {
        "" | "UTC" | "Local" => TimeZone::UTC,
        _ => TimeZone::get(name).unwrap_or(TimeZone::UTC),
    }
}

fn formatted(call: &mut Call<'_, '_>, layout: &[u8], value: &Value, zone_name: &str) -> Outcome {
    let time = any_time(call, value)?.with_time_zone(zone(zone_name));
    string(format(&time, layout))
}

pub(super) fn date(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    formatted(call, &text(args, 0), &any(args, 1), "Local")
}

pub(super) fn date_in_zone(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    formatted(call, &text(args, 0), &any(args, 1), &text(args, 2).to_text())
}

pub(super) fn html_date(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    formatted(call, b"2006-01-02", &any(args, 0), "Local")
}

pub(super) fn html_date_in_zone(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    formatted(call, b"2006-01-02", &any(args, 0), &text(args, 1).to_text())
}

fn shifted(time: &Zoned, by: Duration) -> Zoned {
    let span = Span::new().try_nanoseconds(by.0).unwrap_or_default();
    time.checked_add(span).unwrap_or_else(|_| time.clone())
}

pub(super) fn date_modify(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let time = time_of(&any(args, 1)).unwrap_or_else(zero);
    Ok(Value::object(Time(match duration::parse(&text(args, 0).to_text()) {
        Ok(by) => shifted(&time, by),
        Err(_) => time,
    })))
}

pub(super) fn must_date_modify(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let time = time_of(&any(args, 1)).unwrap_or_else(zero);
    let by = duration::parse(&text(args, 0).to_text()).map_err(FuncError::new)?;
    Ok(Value::object(Time(shifted(&time, by))))
}

fn since(call: &mut Call<'_, '_>, time: &Zoned) -> Result<Duration, FuncError> {
    let nanoseconds = current(call)?.timestamp().as_nanosecond() - time.timestamp().as_nanosecond();
    Ok(Duration(i64::try_from(nanoseconds).unwrap_or(if nanoseconds < 0 { i64::MIN } else { i64::MAX })))
}

pub(super) fn ago(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let time = any_time(call, &any(args, 0))?;
    string(since(call, &time)?.round_to_seconds().to_string())
}

pub(super) fn duration_function(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let seconds = match any(args, 0) {
        Value::String(digits) => digits.to_text().parse().unwrap_or(0),
        Value::Int64(seconds) => seconds,
        _ => 0,
    };
    string(Duration(i64::wrapping_mul(seconds, duration::SECOND)).to_string())
}

pub(super) fn duration_round(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let value = any(args, 0);
    let span = match &value {
        Value::String(text) => duration::parse(&text.to_text()).unwrap_or(Duration(0)),
        Value::Int64(nanoseconds) => Duration(*nanoseconds),
        other => match time_of(other) {
            Some(time) => since(call, &time)?,
            None => Duration(0),
        },
    };
    string(span.largest_unit())
}

pub(super) fn to_date(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(Value::object(Time(parse(&text(args, 0), &text(args, 1)).unwrap_or_else(|_| zero()))))
}

pub(super) fn must_to_date(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    parse(&text(args, 0), &text(args, 1)).map(|time| Value::object(Time(time))).map_err(FuncError::new)
}

pub(super) fn unix_epoch(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    string(time_of(&any(args, 0)).unwrap_or_else(zero).timestamp().as_second().to_string())
}

static NUMBER: Signature = Signature::new(&[], Type::Int);
static SECONDS: Signature = Signature::new(&[], Type::Int64);
static TEXT: Signature = Signature::new(&[], Type::String);
static FORMAT: Signature = Signature::new(&[Type::String], Type::String);
static TEST: Signature = Signature::new(&[], Type::Bool);
static RELATION: Signature = Signature::new(&[Type::Object(TIME)], Type::Bool);
static ITSELF: Signature = Signature::new(&[], Type::Object(TIME));
static ADD_DATE: Signature = Signature::new(&[Type::Int, Type::Int, Type::Int], Type::Object(TIME));
static NAMED: Signature = Signature::new(&[], Type::Object("time.Month"));

impl Object for Time {
    fn type_name(&self) -> &str {
        TIME
    }

    fn kind(&self) -> Kind {
        Kind::Struct
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn display(&self) -> Option<Str> {
        Some(format(&self.0, b"2006-01-02 15:04:05.999999999 -0700 MST").into())
    }

    fn json(&self) -> Option<Str> {
        Some(format(&self.0, b"2006-01-02T15:04:05.999999999Z07:00").into())
    }

    fn method(&self, name: &str) -> Option<&'static Signature> {
        Some(match name {
            "Year" | "Day" | "Hour" | "Minute" | "Second" | "Nanosecond" | "YearDay" => &NUMBER,
            "Unix" | "UnixMilli" | "UnixMicro" | "UnixNano" => &SECONDS,
            "String" => &TEXT,
            "Format" => &FORMAT,
            "IsZero" => &TEST,
            "Before" | "After" | "Equal" => &RELATION,
            "UTC" | "Local" => &ITSELF,
            "AddDate" => &ADD_DATE,
            "Month" | "Weekday" => &NAMED,
            _ => return None,
        })
    }

    fn call(&self, name: &str, _: &mut Call<'_, '_>, args: &[Value]) -> Result<Value, FuncError> {
        let time = &self.0;
        let other = args.first().and_then(time_of).unwrap_or_else(zero);
        let int = |number: i64| Ok(Value::Int(number));
        let wide = |number: i128| Ok(Value::Int64(i64::try_from(number).unwrap_or_default()));
        let nanoseconds = time.timestamp().as_nanosecond();
        match name {
            "Year" => int(i64::from(time.year())),
            "Day" => int(i64::from(time.day())),
            "Hour" => int(i64::from(time.hour())),
            "Minute" => int(i64::from(time.minute())),
            "Second" => int(i64::from(time.second())),
            "Nanosecond" => int(i64::from(time.subsec_nanosecond())),
            "YearDay" => int(i64::from(time.day_of_year())),
            "Unix" => wide(nanoseconds.div_euclid(1_000_000_000)),
            "UnixMilli" => wide(nanoseconds.div_euclid(1_000_000)),
            "UnixMicro" => wide(nanoseconds.div_euclid(1_000)),
            "UnixNano" => wide(nanoseconds),
            "Format" => string(format(time, &text(args, 0))),
            "IsZero" => Ok(Value::Bool(*time == zero())),
            "Before" => Ok(Value::Bool(*time < other)),
            "After" => Ok(Value::Bool(*time > other)),
            "Equal" => Ok(Value::Bool(*time == other)),
            "UTC" | "Local" => Ok(Value::object(Self(time.with_time_zone(TimeZone::UTC)))),
            "Month" => Ok(Value::object(Named {
                type_name: "time.Month",
                number: i64::from(time.month()),
                name: format(time, b"January"),
            })),
            "Weekday" => Ok(Value::object(Named {
                type_name: "time.Weekday",
                number: i64::from(time.weekday().to_sunday_zero_offset()),
                name: format(time, b"Monday"),
            })),
            "AddDate" => {
                let part = |index: usize| super::arguments::int(args, index);
                let span = Span::new()
                    .try_years(part(0))
                    .and_then(|s| s.try_months(part(1)))
                    .and_then(|s| s.try_days(part(2)))
                    .unwrap_or_default();
                Ok(Value::object(Self(time.checked_add(span).unwrap_or_else(|_| time.clone()))))
            }
            _ => string(self.display().unwrap_or_default()),
        }
    }
}

/// A month or a day of the week: a number with a name.
struct Named {
    type_name: &'static str,
    number: i64,
    name: String,
}

impl Object for Named {
    fn type_name(&self) -> &str {
        self.type_name
    }

    fn kind(&self) -> Kind {
        Kind::Int
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn display(&self) -> Option<Str> {
        Some(self.name.as_str().into())
    }

    fn as_int(&self) -> Option<i64> {
        Some(self.number)
    }

    fn method(&self, name: &str) -> Option<&'static Signature> {
        (name == "String").then_some(&TEXT)
    }

    fn call(&self, _: &str, _: &mut Call<'_, '_>, _: &[Value]) -> Result<Value, FuncError> {
        string(self.name.as_str())
    }
}
