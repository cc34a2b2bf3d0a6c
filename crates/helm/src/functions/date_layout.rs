//! Go's time layouts: the moment `Mon Jan 2 15:04:05 MST 2006`, written as the wanted text would be.

use jiff::Zoned;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

use super::dates::zero;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    LongMonth,
    Month,
    NumMonth,
    ZeroMonth,
    LongWeekDay,
    WeekDay,
    Day,
    UnderDay,
    ZeroDay,
    UnderYearDay,
    ZeroYearDay,
    Hour,
    Hour12,
    ZeroHour12,
    Minute,
    ZeroMinute,
    Second,
    ZeroSecond,
    LongYear,
    Year,
    Pm,
    SmallPm,
    Zone,
    /// An offset: with `Z` for UTC, with colons, and how many fields.
    Offset {
        iso: bool,
        colon: bool,
        fields: u8,
    },
    /// Digits after a point or comma; zeros stay or go.
    Fraction {
        digits: usize,
        keep_zeros: bool,
    },
}

// Longest first where one begins another.
const PARTS: &[(&str, Part)] = &[
    ("January", Part::LongMonth),
    ("Jan", Part::Month),
    ("Monday", Part::LongWeekDay),
    ("Mon", Part::WeekDay),
    ("MST", Part::Zone),
    ("002", Part::ZeroYearDay),
    ("01", Part::ZeroMonth),
    ("02", Part::ZeroDay),
    ("03", Part::ZeroHour12),
    ("04", Part::ZeroMinute),
    ("05", Part::ZeroSecond),
    ("06", Part::Year),
    ("15", Part::Hour),
    ("1", Part::NumMonth),
    ("2006", Part::LongYear),
    ("2", Part::Day),
    ("__2", Part::UnderYearDay),
    ("_2006", Part::LongYear),
    ("_2", Part::UnderDay),
    ("3", Part::Hour12),
    ("4", Part::Minute),
    ("5", Part::Second),
    ("PM", Part::Pm),
    ("pm", Part::SmallPm),
    ("-07:00:00", Part::Offset { iso: false, colon: true, fields: 3 }),
    ("-070000", Part::Offset { iso: false, colon: false, fields: 3 }),
    ("-07:00", Part::Offset { iso: false, colon: true, fields: 2 }),
    ("-0700", Part::Offset { iso: false, colon: false, fields: 2 }),
    ("-07", Part::Offset { iso: false, colon: false, fields: 1 }),
    ("Z07:00:00", Part::Offset { iso: true, colon: true, fields: 3 }),
    ("Z070000", Part::Offset { iso: true, colon: false, fields: 3 }),
    ("Z07:00", Part::Offset { iso: true, colon: true, fields: 2 }),
    ("Z0700", Part::Offset { iso: true, colon: false, fields: 2 }),
    ("Z07", Part::Offset { iso: true, colon: false, fields: 1 }),
];

// The text before the next part, the part, and what follows.
fn next_part(layout: &[u8]) -> Option<(&[u8], Part, &[u8])> {
    for at in 0..layout.len() {
        let rest = layout.get(at..)?;
        if let [b'.' | b',', digit @ (b'0' | b'9'), ..] = rest {
            let count = rest.iter().skip(1).take_while(|b| *b == digit).count();
            if !rest.get(1 + count).is_some_and(u8::is_ascii_digit) {
                let part = Part::Fraction { digits: count, keep_zeros: *digit == b'0' };
                return Some((layout.get(..at)?, part, rest.get(1 + count..)?));
            }
        }
        for (text, part) in PARTS {
            if !rest.starts_with(text.as_bytes()) {
                continue;
            }
            // `Jan` is none inside a word such as `Janet`.
            if *text == "Jan" && rest.get(3).is_some_and(u8::is_ascii_lowercase) {
                continue;
            }
            if *text == "_2006" {
                return Some((layout.get(..=at)?, *part, rest.get(5..)?));
            }
            if *text == "Mon" && rest.get(3).is_some_and(u8::is_ascii_lowercase) {
                continue;
            }
            return Some((layout.get(..at)?, *part, rest.get(text.len()..)?));
        }
    }
    None
}

fn name(names: &[&'static str], index: i64) -> &'static str {
    usize::try_from(index).ok().and_then(|i| names.get(i).copied()).unwrap_or_default()
}

fn short(name: &str) -> &str {
    name.get(..3).unwrap_or(name)
}

/// Go's `Time.Format`.
pub(super) fn format(time: &Zoned, layout: &[u8]) -> String {
    let mut out = String::new();
    let mut rest = layout;
    let month = name(&MONTHS, i64::from(time.month()) - 1);
    let day = name(&DAYS, i64::from(time.weekday().to_sunday_zero_offset()));
    let hour12 = match time.hour() % 12 {
        0 => 12,
        hour => hour,
    };
    while let Some((before, part, after)) = next_part(rest) {
        out.push_str(&String::from_utf8_lossy(before));
        rest = after;
        match part {
            Part::LongMonth => out.push_str(month),
            Part::Month => out.push_str(short(month)),
            Part::NumMonth => out.push_str(&time.month().to_string()),
            Part::ZeroMonth => out.push_str(&format!("{:02}", time.month())),
            Part::LongWeekDay => out.push_str(day),
            Part::WeekDay => out.push_str(short(day)),
            Part::Day => out.push_str(&time.day().to_string()),
            Part::UnderDay => out.push_str(&format!("{:2}", time.day())),
            Part::ZeroDay => out.push_str(&format!("{:02}", time.day())),
            Part::UnderYearDay => out.push_str(&format!("{:3}", time.day_of_year())),
            Part::ZeroYearDay => out.push_str(&format!("{:03}", time.day_of_year())),
            Part::Hour => out.push_str(&format!("{:02}", time.hour())),
            Part::Hour12 => out.push_str(&hour12.to_string()),
            Part::ZeroHour12 => out.push_str(&format!("{hour12:02}")),
            Part::Minute => out.push_str(&time.minute().to_string()),
            Part::ZeroMinute => out.push_str(&format!("{:02}", time.minute())),
            Part::Second => out.push_str(&time.second().to_string()),
            Part::ZeroSecond => out.push_str(&format!("{:02}", time.second())),
            Part::LongYear => out.push_str(&format!("{:04}", time.year())),
            Part::Year => out.push_str(&format!("{:02}", time.year().rem_euclid(100))),
            Part::Pm => out.push_str(if time.hour() >= 12 { "PM" } else { "AM" }),
            Part::SmallPm => out.push_str(if time.hour() >= 12 { "pm" } else { "am" }),
            Part::Zone => out.push_str(&zone_name(time)),
            Part::Offset { iso, colon, fields } => {
                let seconds = time.offset().seconds();
                if iso && seconds == 0 {
                    out.push('Z');
                    continue;
                }
                out.push(if seconds < 0 { '-' } else { '+' });
                let seconds = seconds.unsigned_abs();
                let values = [seconds / 3600, seconds / 60 % 60, seconds % 60];
                for (index, value) in values.iter().take(usize::from(fields)).enumerate() {
                    if index > 0 && colon {
                        out.push(':');
                    }
                    out.push_str(&format!("{value:02}"));
                }
            }
            Part::Fraction { digits, keep_zeros } => {
                let separator = layout.get(layout.len() - rest.len() - digits - 1).copied().unwrap_or(b'.');
                let nanoseconds = format!("{:09}", time.subsec_nanosecond());
                let shown = nanoseconds.get(..digits.min(9)).unwrap_or(&nanoseconds);
                let shown = if keep_zeros { shown } else { shown.trim_end_matches('0') };
                if !shown.is_empty() {
                    out.push(char::from(separator));
                    out.push_str(shown);
                }
            }
        }
    }
    out.push_str(&String::from_utf8_lossy(rest));
    out
}

fn zone_name(time: &Zoned) -> String {
    let info = time.time_zone().to_offset_info(time.timestamp());
    let name = info.abbreviation();
    if time.time_zone() == &TimeZone::UTC || name == "UTC" {
        return "UTC".into();
    }
    // Zones without letters in their name are shown by their offset, as `+0530` or `+03`.
    if let Some(sign @ ('+' | '-')) = name.chars().next() {
        let digits: String = name.chars().filter(char::is_ascii_digit).collect();
        return format!("{sign}{digits}");
    }
    name.to_owned()
}

/// What a parsed text says.
#[derive(Default)]
struct Fields {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    year_day: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    nanosecond: i64,
    pm: Option<bool>,
    offset: Option<i32>,
}

/// Go's `time.ParseInLocation` in UTC.
///
/// # Errors
/// Go's text.
pub(super) fn parse(layout: &[u8], text: &[u8]) -> Result<Zoned, String> {
    let quoted = |bytes: &[u8]| String::from_utf8_lossy(&convoy_gotemplate::quote(bytes)).into_owned();
    let failed = |element: &[u8], rest: &[u8]| {
        format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quoted(text),
            quoted(layout),
            quoted(rest),
            quoted(element)
        )
    };
    let out_of_range = |what: &str| format!("parsing time {}: {what} out of range", quoted(text));
    let mut fields = Fields::default();
    let mut value = text;
    let mut rest = layout;
    loop {
        let (prefix, part, after) = match next_part(rest) {
            Some((prefix, part, after)) => (prefix, Some(part), after),
            None => (rest, None, &[][..]),
        };
        value = skip(value, prefix).ok_or_else(|| failed(prefix, value))?;
        let Some(part) = part else {
            if value.is_empty() {
                break;
            }
            return Err(format!("parsing time {}: extra text: {}", quoted(text), quoted(value)));
        };
        let element = rest.get(prefix.len()..rest.len() - after.len()).unwrap_or_default();
        let hold = value;
        let fraction_follows = matches!(next_part(after), Some((b"", Part::Fraction { .. }, _)));
        value = read_part(&mut fields, part, value, fraction_follows)
            .map_err(|bad| bad.map_or_else(|| failed(element, hold), out_of_range))?;
        rest = after;
    }
    build(&fields).map_err(out_of_range)
}

// Space in the layout stands for any space.
fn skip<'v>(mut value: &'v [u8], mut prefix: &[u8]) -> Option<&'v [u8]> {
    while let Some((first, after)) = prefix.split_first() {
        if *first == b' ' {
            if value.first().is_some_and(|b| *b != b' ') {
                return None;
            }
            prefix = trim_spaces(prefix);
            value = trim_spaces(value);
            continue;
        }
        value = value.strip_prefix(&[*first])?;
        prefix = after;
    }
    Some(value)
}

fn trim_spaces(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|b| *b != b' ').unwrap_or(bytes.len());
    bytes.get(start..).unwrap_or_default()
}

type Rest<'v> = Result<&'v [u8], Option<&'static str>>;

// One or two digits; exactly two when they are `fixed`.
fn two(value: &[u8], fixed: bool) -> Result<(i64, &[u8]), Option<&'static str>> {
    match value {
        [a @ b'0'..=b'9', b @ b'0'..=b'9', rest @ ..] => {
            Ok((i64::from(a - b'0') * 10 + i64::from(b - b'0'), rest))
        }
        [a @ b'0'..=b'9', rest @ ..] if !fixed => Ok((i64::from(a - b'0'), rest)),
        _ => Err(None),
    }
}

fn digits(value: &[u8], count: usize) -> Result<(i64, &[u8]), Option<&'static str>> {
    let (head, rest) = value.split_at_checked(count).ok_or(None)?;
    if !head.iter().all(u8::is_ascii_digit) {
        return Err(None);
    }
    Ok((head.iter().fold(0, |n, b| n * 10 + i64::from(b - b'0')), rest))
}

fn lookup<'v>(value: &'v [u8], names: &[&str], long: bool) -> Result<(i64, &'v [u8]), Option<&'static str>> {
    for (index, name) in names.iter().enumerate() {
        let name = if long { name } else { short(name) };
        if let Some((head, rest)) = value.split_at_checked(name.len())
            && head.eq_ignore_ascii_case(name.as_bytes())
        {
            return Ok((i64::try_from(index).unwrap_or(0), rest));
        }
    }
    Err(None)
}

fn read_part<'v>(f: &mut Fields, part: Part, value: &'v [u8], fraction_follows: bool) -> Rest<'v> {
    let in_range = |number: i64, low: i64, high: i64, what: &'static str| {
        if (low..=high).contains(&number) { Ok(number) } else { Err(Some(what)) }
    };
    let (number, rest) = match part {
        Part::LongMonth | Part::Month => {
            let (month, rest) = lookup(value, &MONTHS, part == Part::LongMonth)?;
            f.month = Some(month + 1);
            return Ok(rest);
        }
        Part::LongWeekDay | Part::WeekDay => return Ok(lookup(value, &DAYS, part == Part::LongWeekDay)?.1),
        Part::LongYear => {
            if !value.first().is_some_and(u8::is_ascii_digit) {
                return Err(None);
            }
            let (year, rest) = digits(value, 4)?;
            f.year = Some(year);
            return Ok(rest);
        }
        Part::Year => {
            let (year, rest) = digits(value, 2)?;
            f.year = Some(if year >= 69 { year + 1900 } else { year + 2000 });
            return Ok(rest);
        }
        Part::Pm | Part::SmallPm => {
            let (head, rest) = value.split_at_checked(2).ok_or(None)?;
            let (am, pm): (&[u8], &[u8]) = if part == Part::Pm { (b"AM", b"PM") } else { (b"am", b"pm") };
            f.pm = Some(if head == pm {
                true
            } else if head == am {
                false
            } else {
                return Err(None);
            });
            return Ok(rest);
        }
        Part::Zone => return zone(f, value),
        Part::Offset { iso, colon, fields } => return offset(f, value, iso, colon, fields),
        Part::Fraction { digits: count, keep_zeros } => {
            if !keep_zeros && !matches!(value, [b'.' | b',', b'0'..=b'9', ..]) {
                return Ok(value);
            }
            let count = if keep_zeros {
                count
            } else {
                value.iter().skip(1).take_while(|b| b.is_ascii_digit()).count()
            };
            return fraction(f, value, count);
        }
        Part::ZeroYearDay | Part::UnderYearDay => {
            let value = if part == Part::UnderYearDay { trim_spaces(value) } else { value };
            let count = value.iter().take(3).take_while(|b| b.is_ascii_digit()).count();
            let (day, rest) = digits(value, if part == Part::ZeroYearDay { 3 } else { count.max(1) })?;
            f.year_day = Some(day);
            return Ok(rest);
        }
        Part::UnderDay => two(value.strip_prefix(b" ").unwrap_or(value), false)?,
        Part::NumMonth | Part::Day | Part::Hour | Part::Hour12 | Part::Minute | Part::Second => {
            two(value, false)?
        }
        Part::ZeroMonth | Part::ZeroDay | Part::ZeroHour12 | Part::ZeroMinute | Part::ZeroSecond => {
            two(value, true)?
        }
    };
    match part {
        Part::NumMonth | Part::ZeroMonth => f.month = Some(in_range(number, 1, 12, "month")?),
        Part::Hour => f.hour = in_range(number, 0, 23, "hour")?,
        Part::Hour12 | Part::ZeroHour12 => f.hour = in_range(number, 0, 12, "hour")?,
        Part::Minute | Part::ZeroMinute => f.minute = in_range(number, 0, 59, "minute")?,
        Part::Second | Part::ZeroSecond => {
            f.second = in_range(number, 0, 59, "second")?;
            // Seconds may have a fraction that the layout does not name.
            if !fraction_follows && matches!(rest, [b'.' | b',', b'0'..=b'9', ..]) {
                let count = rest.iter().skip(1).take_while(|b| b.is_ascii_digit()).count();
                return fraction(f, rest, count);
            }
        }
        _ => f.day = Some(number),
    }
    Ok(rest)
}

fn fraction<'v>(f: &mut Fields, value: &'v [u8], count: usize) -> Rest<'v> {
    let body = match value {
        [b'.' | b',', body @ ..] => body,
        _ => return Err(None),
    };
    let (head, rest) = body.split_at_checked(count).ok_or(None)?;
    if !head.iter().all(u8::is_ascii_digit) {
        return Err(None);
    }
    f.nanosecond = (0..9).fold(0, |n, i| n * 10 + head.get(i).map_or(0, |b| i64::from(b - b'0')));
    Ok(rest)
}

fn zone<'v>(f: &mut Fields, value: &'v [u8]) -> Rest<'v> {
    if let Some(rest) = value.strip_prefix(b"UTC") {
        f.offset = Some(0);
        return Ok(rest);
    }
    let letters = value.iter().take_while(|b| b.is_ascii_uppercase()).count();
    match letters {
        // A name that UTC does not know means no offset.
        3..=5 => Ok(value.get(letters..).unwrap_or_default()),
        _ => Err(None),
    }
}

fn offset<'v>(f: &mut Fields, value: &'v [u8], iso: bool, colon: bool, fields: u8) -> Rest<'v> {
    if iso && let Some(rest) = value.strip_prefix(b"Z") {
        f.offset = Some(0);
        return Ok(rest);
    }
    let (sign, mut rest) = match value {
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return Err(None),
    };
    let mut seconds: i64 = 0;
    let sizes = [3600, 60, 1];
    for (index, size) in sizes.iter().take(usize::from(fields)).enumerate() {
        if index > 0 && colon {
            rest = rest.strip_prefix(b":").ok_or(None)?;
        }
        let (number, after) = two(rest, true)?;
        let (limit, what) =
            if index == 0 { (24, "time zone offset hour") } else { (60, "time zone offset minute") };
        if number > limit {
            return Err(Some(what));
        }
        seconds += number * size;
        rest = after;
    }
    f.offset = i32::try_from(sign * seconds).ok();
    Ok(rest)
}

fn build(f: &Fields) -> Result<Zoned, &'static str> {
    let mut hour = f.hour;
    match f.pm {
        Some(true) if hour < 12 => hour += 12,
        Some(false) if hour == 12 => hour = 0,
        _ => {}
    }
    let year = i16::try_from(f.year.unwrap_or(0)).map_err(|_| "year")?;
    let small = |number: i64| i8::try_from(number).unwrap_or(-1);
    let date = match f.year_day {
        Some(day) => jiff::civil::date(year, 1, 1)
            .with()
            .day_of_year(i16::try_from(day).map_err(|_| "day-of-year")?)
            .build()
            .map_err(|_| "day-of-year")?,
        None => jiff::civil::Date::new(year, small(f.month.unwrap_or(1)), small(f.day.unwrap_or(1)))
            .map_err(|_| "day")?,
    };
    let nanosecond = i32::try_from(f.nanosecond).unwrap_or(0);
    let time = jiff::civil::Time::new(small(hour), small(f.minute), small(f.second), nanosecond)
        .map_err(|_| "hour")?;
    let zone = match f.offset {
        None | Some(0) => TimeZone::UTC,
        Some(seconds) => Offset::from_seconds(seconds).map_or(TimeZone::UTC, TimeZone::fixed),
    };
    DateTime::from_parts(date, time).to_zoned(zone).or_else(|_| Ok(zero()))
}
