//! Names in other cases: `snakecase`, `kebabcase` and `camelcase`, word by word as xstrings takes them.

use convoy_gotemplate::{Call, Value, is_letter, runes};
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

use super::arguments::{Outcome, string, text};
use super::strings::{is_space, lower_rune, upper_rune};

type Ctx<'a, 'c, 'r> = &'a mut Call<'c, 'r>;

fn is_connector(rune: char) -> bool {
    rune == '-' || rune == '_' || is_space(rune)
}

fn is_number(rune: char) -> bool {
    rune.general_category_group() == GeneralCategoryGroup::Number
}

fn is_punctuation(rune: char) -> bool {
    rune.general_category_group() == GeneralCategoryGroup::Punctuation
}

#[derive(Clone, Copy, PartialEq)]
enum Word {
    None,
    Number,
    Upper,
    Letters,
    Connector,
    Punctuation,
    Other,
}

// The kind of the first word and how many runes it has.
fn next_word(text: &[char]) -> (Word, usize) {
    let Some(first) = text.first().copied() else { return (Word::None, 0) };
    let run = |from: usize, is: &dyn Fn(char) -> bool| {
        from + text.iter().skip(from).take_while(|rune| is(**rune)).count()
    };
    let small = |rune: char| is_letter(rune) && !rune.is_uppercase();
    if is_connector(first) {
        (Word::Connector, run(1, &is_connector))
    } else if is_punctuation(first) {
        (Word::Punctuation, run(1, &is_punctuation))
    } else if first.is_uppercase() {
        match text.get(1).copied() {
            Some(second) if second.is_uppercase() => {
                let end = run(2, &|rune| rune.is_uppercase());
                // The last capital belongs to the small letters behind it.
                if text.get(end).copied().is_some_and(is_letter) {
                    (Word::Upper, end - 1)
                } else {
                    (Word::Upper, end)
                }
            }
            Some(second) if is_letter(second) => (Word::Upper, run(2, &small)),
            _ => (Word::Upper, 1),
        }
    } else if is_letter(first) {
        (Word::Letters, run(1, &small))
    } else if is_number(first) {
        (Word::Number, run(1, &is_number))
    } else {
        let other =
            |rune: char| !(is_connector(rune) || is_letter(rune) || is_number(rune) || is_punctuation(rune));
        (Word::Other, run(1, &other))
    }
}

struct Words<'t> {
    rest: &'t [char],
    connector: char,
    out: String,
}

impl<'t> Words<'t> {
    fn next(&mut self) -> (Word, &'t [char]) {
        let (kind, length) = next_word(self.rest);
        let (word, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, &[]));
        self.rest = rest;
        (kind, word)
    }

    fn push(&mut self, kind: Word, word: &[char]) {
        if kind != Word::Upper && kind != Word::Connector {
            self.out.extend(word);
            return;
        }
        let connector = self.connector;
        self.out
            .extend(word.iter().map(|rune| if is_connector(*rune) { connector } else { lower_rune(*rune) }));
    }

    // Writes words of letters and digits as one, and gives the one after them.
    fn push_run(&mut self, mut kind: Word, mut word: &'t [char]) -> (Word, &'t [char]) {
        while kind == Word::Letters || kind == Word::Number {
            self.push(kind, word);
            (kind, word) = self.next();
        }
        if !matches!(kind, Word::None | Word::Punctuation | Word::Connector) {
            self.out.push(self.connector);
        }
        (kind, word)
    }
}

fn lower_words(text: &[u8], connector: char) -> String {
    let text: Vec<char> = runes(text).filter(|r| *r != '\u{FFFD}').collect();
    let mut words = Words { rest: &text, connector, out: String::new() };
    let (mut kind, mut word) = words.next();
    while !words.rest.is_empty() {
        if kind != Word::Connector {
            words.push(kind, word);
        }
        let (before, last) = (kind, word);
        (kind, word) = words.next();
        match before {
            Word::Number => (kind, word) = words.push_run(kind, word),
            Word::Connector => words.push(before, last),
            Word::Punctuation => {}
            _ if kind != Word::Number => {
                if !matches!(kind, Word::Connector | Word::Punctuation) {
                    words.out.push(connector);
                }
            }
            _ if words.rest.is_empty() => {}
            _ => {
                let number = word;
                (kind, word) = words.next();
                if kind == Word::Letters {
                    words.out.push(connector);
                    words.push(Word::Number, number);
                    (kind, word) = words.push_run(kind, word);
                } else {
                    words.push(Word::Number, number);
                    if !matches!(kind, Word::Connector | Word::Punctuation) {
                        words.out.push(connector);
                    }
                }
            }
        }
    }
    words.push(kind, word);
    words.out
}

pub(super) fn snakecase(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    string(lower_words(&text(args, 0), '_'))
}

pub(super) fn kebabcase(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    string(lower_words(&text(args, 0), '-'))
}

pub(super) fn camelcase(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let text: Vec<char> = runes(&text(args, 0)).collect();
    let leading = text.iter().take_while(|rune| is_connector(**rune)).count();
    let mut out: String = text.iter().take(leading).collect();
    let mut rest = text.iter().skip(leading).copied();
    let Some(first) = rest.next() else { return string(out) };
    let mut in_capitals = first.is_uppercase();
    let mut current = upper_rune(first);
    for next in rest {
        let previous = std::mem::replace(&mut current, next);
        if is_connector(current) && is_connector(previous) {
            out.push(previous);
            continue;
        }
        if is_connector(previous) {
            in_capitals = current.is_uppercase();
            current = upper_rune(current);
        } else {
            if in_capitals {
                if current.is_uppercase() {
                    current = lower_rune(current);
                } else {
                    in_capitals = false;
                }
            }
            out.push(previous);
        }
    }
    out.push(current);
    string(out)
}
