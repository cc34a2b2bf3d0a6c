//! Whether a text is a timestamp to Go's `yaml` package: four layouts of Go's `time.Parse`.

/// `2006-1-2T15:4:5.999999999Z07:00` (also with a small `t`), `2006-1-2 15:4:5.999999999` and `2006-1-2`.
pub(crate) fn is_timestamp(text: &str) -> bool {
    let Some((year, rest)) = text.split_once('-') else { return false };
    if year.len() != 4 || !year.bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let Ok(year) = year.parse::<u32>() else { return false };
    date(year, rest).is_some_and(|rest| rest.is_empty() || time(rest))
}

fn date(year: u32, text: &str) -> Option<&str> {
    let (month, text) = number(text)?;
    let (day, text) = number(text.strip_prefix('-')?)?;
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        1..=12 => 31,
        _ => return None,
    };
    (1..=days).contains(&day).then_some(text)
}

fn time(text: &str) -> bool {
    let (zoned, text) = match text.as_bytes().first() {
        Some(b'T' | b't') => (true, text.get(1..).unwrap_or_default()),
        Some(b' ') => (false, text.trim_start_matches(' ')),
        _ => return false,
    };
    clock(text).is_some_and(|rest| if zoned { zone(rest) } else { rest.is_empty() })
}

fn clock(text: &str) -> Option<&str> {
    let (hour, text) = number(text)?;
    let (minute, text) = number(text.strip_prefix(':')?)?;
    let (second, text) = number(text.strip_prefix(':')?)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    match text.as_bytes() {
        [b'.' | b',', b'0'..=b'9', ..] => {
            Some(text.get(1..).unwrap_or_default().trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        _ => Some(text),
    }
}

fn zone(text: &str) -> bool {
    match text.as_bytes() {
        b"Z" => true,
        [b'+' | b'-', h1, h2, b':', m1, m2] => {
            let two = |a: &u8, b: &u8| {
                (a.is_ascii_digit() && b.is_ascii_digit())
                    .then(|| u32::from(a - b'0') * 10 + u32::from(b - b'0'))
            };
            two(h1, h2).is_some_and(|hours| hours <= 24) && two(m1, m2).is_some_and(|minutes| minutes <= 60)
        }
        _ => false,
    }
}

/// One or two digits.
fn number(text: &str) -> Option<(u32, &str)> {
    let digits = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, rest))
}
