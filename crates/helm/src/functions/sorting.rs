//! Keys in the order that YAML is written in, sorted in parts: a sort cannot be left on its way.

use convoy_gotemplate::{FuncError, Value};
use convoy_yaml::{natural_order, sort_naturally};

use super::room::Room;

/// So many are sorted or merged between two looks at whether the render is still wanted.
const PART: usize = 4_096;

/// Entries by their keys, in natural order.
pub(super) fn in_natural_order(
    mut entries: Vec<(String, Value)>,
    room: &mut Room<'_, '_, '_>,
) -> Result<Vec<(String, Value)>, FuncError> {
    let mut parts: Vec<Vec<(String, Value)>> = Vec::new();
    while entries.len() > PART {
        let part = entries.split_off(entries.len() - PART);
        parts.push(sort_naturally(part, |(key, _)| key));
        room.steps(PART as u64)?;
    }
    parts.push(sort_naturally(entries, |(key, _)| key));
    while parts.len() > 1 {
        let mut merged = Vec::with_capacity(parts.len().div_ceil(2));
        let mut rest = parts.into_iter();
        while let Some(one) = rest.next() {
            merged.push(match rest.next() {
                Some(other) => merge(one, other, room)?,
                None => one,
            });
        }
        parts = merged;
    }
    Ok(parts.pop().unwrap_or_default())
}

fn merge(
    one: Vec<(String, Value)>,
    other: Vec<(String, Value)>,
    room: &mut Room<'_, '_, '_>,
) -> Result<Vec<(String, Value)>, FuncError> {
    let mut merged = Vec::with_capacity(one.len() + other.len());
    let (mut one, mut other) = (one.into_iter().peekable(), other.into_iter().peekable());
    loop {
        if merged.len() % PART == 0 {
            room.steps(PART as u64 / 4)?;
        }
        let next = match (one.peek(), other.peek()) {
            (Some(a), Some(b)) if natural_order(&a.0, &b.0).is_gt() => other.next(),
            (Some(_), _) => one.next(),
            (None, _) => other.next(),
        };
        match next {
            Some(entry) => merged.push(entry),
            None => return Ok(merged),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_together_in_order() {
        let entry = |number: usize| (format!("k{number}"), Value::Nil);
        let count = 3 * PART + 17;
        // A step that has no divisor in common with the count visits all.
        let entries = (0..count).map(|at| entry(at * 7_919 % count)).collect();
        let sorted = in_natural_order(entries, &mut Room::endless()).map_err(|_| ()).unwrap();
        let keys: Vec<String> = sorted.into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, (0..count).map(|number| format!("k{number}")).collect::<Vec<_>>());
    }
}
