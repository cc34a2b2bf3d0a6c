//! Parsed templates, kept with their chart from one render to the next.

use convoy_gotemplate::{Functions, ParseError, Parsed, Str, Templates, parse};
use std::collections::HashMap;
use std::fmt;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// What was parsed for a chart so far. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct ParsedTemplates(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    texts: HashMap<String, (Str, Parsed)>,
    /// The set of the last render: which dependencies are enabled seldom changes.
    last: Option<Set>,
}

struct Set {
    /// Names and texts, in order.
    wanted: Vec<(String, Str)>,
    templates: Arc<Templates>,
}

/// Texts kept beyond the set of one render: aliases give one file several names.
const MAX_TEXTS: usize = 20_000;

impl fmt::Debug for ParsedTemplates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ParsedTemplates")
    }
}

impl ParsedTemplates {
    /// The set of these templates (name and text), later ones replacing what earlier ones define.
    ///
    /// # Errors
    ///
    /// The name of the template that cannot be parsed, and why; no reason when it was stopped there.
    pub(crate) fn set(
        &self,
        wanted: Vec<(String, Str)>,
        functions: &Functions,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Arc<Templates>, (String, Option<ParseError>)> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = &kept.last
            && last.wanted == wanted
        {
            return Ok(Arc::clone(&last.templates));
        }
        let is_new = |(name, text): &&(String, Str)| kept.texts.get(name).is_none_or(|(old, _)| old != text);
        let new: Vec<&(String, Str)> = wanted.iter().filter(is_new).collect();
        let mut new = Parsing::of(&new, functions).run(is_stopped)?.into_iter().peekable();
        let mut templates = Templates::new();
        for (name, text) in &wanted {
            if let Some((_, parsed)) = new.next_if(|(new, _)| *new == name) {
                templates.add(&parsed);
                if kept.texts.len() < MAX_TEXTS {
                    kept.texts.insert(name.clone(), (text.clone(), parsed));
                }
            } else if let Some((_, parsed)) = kept.texts.get(name) {
                templates.add(parsed);
            }
        }
        let templates = Arc::new(templates);
        kept.last = Some(Set { wanted, templates: Arc::clone(&templates) });
        Ok(templates)
    }
}

/// Fewer bytes are parsed before a second thread has begun.
const WORTH_A_THREAD: usize = 128 << 10;

/// Texts that two threads parse together: for a large chart that is more than half of its first render.
struct Parsing<'p> {
    texts: &'p [&'p (String, Str)],
    functions: &'p Functions,
    /// The next one that nobody has taken.
    next: AtomicUsize,
    is_over: AtomicBool,
}

type Failure = (String, Option<ParseError>);

impl<'p> Parsing<'p> {
    fn of(texts: &'p [&'p (String, Str)], functions: &'p Functions) -> Self {
        Self { texts, functions, next: AtomicUsize::new(0), is_over: AtomicBool::new(false) }
    }

    /// All texts by name, in their order.
    ///
    /// # Errors
    ///
    /// The first that cannot be parsed, whichever thread came to its end first.
    fn run(&self, is_stopped: &dyn Fn() -> bool) -> Result<Vec<(&'p String, Parsed)>, Failure> {
        let length: usize = self.texts.iter().map(|(_, text)| text.len()).sum();
        let mut done = match length {
            0..WORTH_A_THREAD => self.take_turns(is_stopped),
            _ => thread::scope(|scope| {
                let other = scope.spawn(|| self.take_turns(&|| false));
                let mut done = self.take_turns(is_stopped);
                done.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
                done
            }),
        };
        // Each text before one that failed was taken by somebody, and parsed to its end.
        done.sort_unstable_by_key(|(index, ..)| *index);
        done.into_iter().map(|(_, name, parsed)| Ok((name, parsed?))).collect()
    }

    /// Parses one text after another that no other thread has taken.
    fn take_turns(&self, is_stopped: &dyn Fn() -> bool) -> Vec<(usize, &'p String, Result<Parsed, Failure>)> {
        let mut done = Vec::new();
        while !self.is_over.load(Ordering::Relaxed) {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some((name, text)) = self.texts.get(index) else { break };
            let parsed = match is_stopped() {
                true => Err((name.clone(), None)),
                false => {
                    parse(name.as_str(), text, self.functions).map_err(|error| (name.clone(), Some(error)))
                }
            };
            self.is_over.fetch_or(parsed.is_err(), Ordering::Relaxed);
            done.push((index, name, parsed));
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::functions;

    #[test]
    fn what_was_parsed_for_one_render_serves_the_next() {
        let wanted = |text: &str| {
            vec![("x/a.yaml".to_owned(), Str::from("a: 1")), ("x/b.yaml".to_owned(), text.into())]
        };
        let parsed = ParsedTemplates::default();
        let one = parsed.set(wanted("b: {{ 1 }}"), functions(), &|| false).map_err(|_| ()).unwrap();
        // Nothing is parsed any more, or it would be stopped.
        let other = parsed.set(wanted("b: {{ 1 }}"), functions(), &|| true).map_err(|_| ()).unwrap();
        assert!(Arc::ptr_eq(&one, &other));
        let (stopped, why) = parsed.set(wanted("b: {{ 2 }}"), functions(), &|| true).map(|_| ()).unwrap_err();
        assert_eq!((stopped.as_str(), why.is_none()), ("x/b.yaml", true));
        // A text that is not reached is parsed all the same: Helm reports what is wrong with it.
        let (broken, why) = parsed
            .set(wanted("{{ define \"unused\" }}{{ }}{{ end }}"), functions(), &|| false)
            .map(|_| ())
            .unwrap_err();
        assert_eq!((broken.as_str(), why.is_some()), ("x/b.yaml", true));
    }

    #[test]
    fn two_threads_tell_of_the_first_text_that_is_broken() {
        let long = "{{ .Values.a }}".repeat(1_000);
        let text = |number: usize| match number {
            30 | 31 | 50 => format!("{long}{{{{ }}}}"),
            _ => long.clone(),
        };
        let name = |number: usize| format!("x/{number:02}.yaml");
        let wanted = |numbers: std::ops::Range<usize>| -> Vec<(String, Str)> {
            numbers.map(|number| (name(number), text(number).into())).collect()
        };
        assert!(wanted(0..60).iter().map(|(_, text)| text.len()).sum::<usize>() > WORTH_A_THREAD);
        for _ in 0..20 {
            let parsed = ParsedTemplates::default();
            let failed = parsed.set(wanted(0..60), functions(), &|| false);
            let (broken, why) = failed.map(|_| ()).unwrap_err();
            assert_eq!((broken, why.is_some()), (name(30), true));
            assert!(parsed.set(wanted(0..30), functions(), &|| false).is_ok());
        }
    }
}
