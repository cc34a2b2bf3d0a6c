//! Parsed templates, kept with their chart from one render to the next.

use convoy_gotemplate::{Functions, ParseError, Parsed, Str, Templates, parse};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

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
        let mut templates = Templates::new();
        for (name, text) in &wanted {
            match kept.texts.get(name) {
                Some((known, parsed)) if known == text => templates.add(parsed),
                _ if is_stopped() => return Err((name.clone(), None)),
                _ => {
                    let parsed =
                        parse(name.as_str(), text, functions).map_err(|error| (name.clone(), Some(error)))?;
                    templates.add(&parsed);
                    if kept.texts.len() < MAX_TEXTS {
                        kept.texts.insert(name.clone(), (text.clone(), parsed));
                    }
                }
            }
        }
        let templates = Arc::new(templates);
        kept.last = Some(Set { wanted, templates: Arc::clone(&templates) });
        Ok(templates)
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
}
