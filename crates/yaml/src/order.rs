use std::cmp::Ordering;

/// The order in which Go's `yaml` package writes the keys of a map: letters after everything else, and digits
/// by the number they make (`a2` before `a10`).
pub fn natural_order(a: &str, b: &str) -> Ordering {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let digit = |at: Option<&char>| at.copied().filter(|c| c.is_numeric() && is_go_digit(*c));
    for (i, (&x, &y)) in a.iter().zip(&b).enumerate() {
        if x == y {
            continue;
        }
        match (x.is_alphabetic() && is_go_letter(x), y.is_alphabetic() && is_go_letter(y)) {
            (true, true) => return x.cmp(&y),
            (true, false) => return Ordering::Greater,
            (false, true) => return Ordering::Less,
            (false, false) => {}
        }
        let (mut x_number, mut y_number) = (0_i64, 0_i64);
        if x == '0' || y == '0' {
            // A zero counts as a digit of a number only when the number has begun before it.
            let begun = a.iter().take(i).rev().map_while(|c| digit(Some(c))).any(|c| c != '0');
            if begun {
                (x_number, y_number) = (1, 1);
            }
        }
        let number = |chars: &[char], mut number: i64| {
            let mut at = i;
            while let Some(c) = digit(chars.get(at)) {
                let value = i64::from(u32::from(c)) - i64::from(u32::from('0'));
                number = number.wrapping_mul(10).wrapping_add(value);
                at += 1;
            }
            (number, at)
        };
        let (x_number, x_end) = number(&a, x_number);
        let (y_number, y_end) = number(&b, y_number);
        return x_number.cmp(&y_number).then(x_end.cmp(&y_end)).then(x.cmp(&y));
    }
    a.len().cmp(&b.len())
}

/// So few are put into their places one by one, as Go does.
const FEW: usize = 12;

/// Sorts by keys in natural order. That is no order in the strict sense, as Go's is none: three keys can each come before the next
/// one, in a circle. The standard library's sort may panic then.
pub fn sort_naturally<T>(mut items: Vec<T>, key: impl Fn(&T) -> &str + Copy) -> Vec<T> {
    if items.len() <= FEW {
        for end in 1..items.len() {
            let before = |at: usize| {
                let (one, other) = (items.get(at - 1), items.get(end));
                one.zip(other).is_some_and(|(one, other)| natural_order(key(other), key(one)).is_lt())
            };
            let place = (1..=end).rev().take_while(|at| before(*at)).last().map_or(end, |at| at - 1);
            if let Some(moved) = items.get_mut(place..=end) {
                moved.rotate_right(1);
            }
        }
        return items;
    }
    let second = items.split_off(items.len() / 2);
    let mut first = sort_naturally(items, key).into_iter().peekable();
    let mut second = sort_naturally(second, key).into_iter().peekable();
    let mut sorted = Vec::with_capacity(first.len() + second.len());
    while let (Some(one), Some(other)) = (first.peek(), second.peek()) {
        let is_second = natural_order(key(other), key(one)).is_lt();
        sorted.extend(if is_second { second.next() } else { first.next() });
    }
    sorted.extend(first.chain(second));
    sorted
}

/// Go's letters are those of the category L; Rust's `is_alphabetic` also takes letter numbers and some marks,
/// which are rare enough to tell apart by block.
fn is_go_letter(c: char) -> bool {
    !matches!(c, '\u{2160}'..='\u{2188}' | '\u{24b6}'..='\u{24e9}' | '\u{3007}' | '\u{3021}'..='\u{3029}')
}

/// Go's digits are those of the category Nd.
fn is_go_digit(c: char) -> bool {
    c.is_ascii_digit()
        || (!c.is_ascii() && DIGIT_ZEROS.iter().any(|zero| (*zero..zero + 10).contains(&u32::from(c))))
}

/// The zeros of the scripts' decimal digits in the basic plane.
const DIGIT_ZEROS: [u32; 37] = [
    0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50, 0xed0,
    0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40, 0x1c50,
    0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10, 0xff10,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_and_no_keys_make_it_panic() {
        let keys = |count: usize| (0..count).map(|at| format!("k{}", at * 7_919 % count)).collect::<Vec<_>>();
        for count in [0, 1, 2, 12, 13, 1_000] {
            let sorted = sort_naturally(keys(count), |key| key);
            assert_eq!(sorted, (0..count).map(|number| format!("k{number}")).collect::<Vec<_>>());
        }
        // Found by the fuzz target `yaml`: the standard library's sort panics.
        let odd = [
            "2788a",
            "3787777777a",
            "37\u{feff}a258068102a:7777777777&737\u{feff}a3:885a7a",
            "37\u{feff}a3788?5$a7a",
            "7\u{27e}77777777777a",
            "37885a7777777a",
            "3788bas:e",
            "37\u{feff}a37885$a7a",
            "3=7\u{feff}a37885a7a",
            "?",
            "b",
            "o  <#####XXXXXXXXXXXXXXXXXXX",
            "o\\ <<",
            "27885777a777777102a:7773777777&737\u{feff}a3:885a7a",
            "3789bas:e",
            "37\u{feff}a2580687a",
            "37\u{feff}a378777775a:7777777777777a",
            "37\u{feff}a37885$a7a5777a77777777:5a777777777a",
            ":+xa",
            ":xa",
            "b:tw<",
            "377777a",
            "37885a",
            "37885a:777777a",
            "o\\ <<85a77a",
        ];
        let mut odd = odd.to_vec();
        odd.sort_unstable();
        assert_eq!(sort_naturally(odd.clone(), |key| key).len(), odd.len());
    }
}
