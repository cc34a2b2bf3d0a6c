//! Helm's way of wording what text/template reports.

use crate::version::HelmVersion;

const WARN_START: &str = "HELM_ERR_START";
const WARN_END: &str = "HELM_ERR_END";

/// The text for a template that cannot be parsed.
pub(crate) fn parse_error(file: &str, text: &str) -> String {
    let parts: Vec<&str> = text.split(": ").collect();
    match parts.as_slice() {
        [_, location, .., last] => format!("parse error at ({location}): {last}"),
        [_, location] => format!("parse error at ({location}): {location}"),
        _ => format!("parse error in ({file}): {text}"),
    }
}

/// The text for a template that fails: one block of lines for each template on the way to the failure; for Helm 3
/// the text of Go as it is.
pub(crate) fn exec_error(file: &str, text: &str, helm: HelmVersion) -> String {
    let mut parts = text.splitn(3, ": ");
    let (Some(_), Some(location), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return format!("execution error in ({file}): {text}");
    };
    // What `fail` and `required` say is all that matters.
    if let (Some(start), Some(end)) = (rest.find(WARN_START), rest.rfind(WARN_END))
        && let Some(message) = rest.get(start + WARN_START.len()..end)
    {
        return format!("execution error at ({location}): {message}");
    }
    if helm == HelmVersion::V3 {
        return text.to_owned();
    }
    let mut traces: Vec<Trace<'_>> = Vec::new();
    let mut current = Some(text);
    while let Some(error) = current {
        let Some(trace) = Trace::parse(error) else { return text.to_owned() };
        current = trace.inner;
        if traces.last() != Some(&trace) {
            traces.push(trace);
        }
    }
    let mut lines = String::new();
    for trace in traces {
        if !trace.location.is_empty() {
            lines.push_str(trace.location);
            lines.push_str("\n  ");
        }
        if !trace.executing.is_empty() {
            lines.push_str(&trace.executing);
            lines.push_str("\n    ");
        }
        if !trace.message.is_empty() {
            lines.push_str(trace.message);
            lines.push('\n');
        }
    }
    lines.trim().to_owned()
}

#[derive(Debug)]
struct Trace<'t> {
    location: &'t str,
    executing: String,
    message: &'t str,
    /// The error that the message wraps.
    inner: Option<&'t str>,
}

impl PartialEq for Trace<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.location, &self.executing, self.message) == (other.location, &other.executing, other.message)
    }
}

impl<'t> Trace<'t> {
    fn parse(text: &'t str) -> Option<Self> {
        let rest = text.strip_prefix("template: ")?;
        if rest.starts_with("no template ") {
            return Some(Self { location: "", executing: String::new(), message: text, inner: None });
        }
        if let Some((location, after)) = rest.split_once(": executing ") {
            let (name, after) = after.strip_prefix('"')?.split_once('"')?;
            let (at, message) = after.strip_prefix(" at <")?.split_once(">: ")?;
            let inner = message
                .strip_prefix("error calling ")
                .and_then(|rest| rest.split_once(": "))
                .map(|(_, inner)| inner);
            let executing = format!("executing \"{name}\" at <{at}>:");
            return Some(Self { location, executing, message: cut(message), inner });
        }
        let (location, message) = rest.rsplit_once(": ")?;
        Some(Self { location, executing: String::new(), message: cut(message), inner: None })
    }
}

/// Without the error of an inner template.
fn cut(message: &str) -> &str {
    message.split_once(" template:").map_or(message, |(message, _)| message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_worded_as_helm_words_them() {
        let text = "template: a/t.yaml:3:5: executing \"a/t.yaml\" at <include \"x\" .>: error calling include: template: a/_h.tpl:2:3: executing \"x\" at <.Values.a.b>: nil pointer evaluating interface {}.b";
        assert_eq!(
            exec_error("a/t.yaml", text, HelmVersion::V4),
            "a/t.yaml:3:5\n  executing \"a/t.yaml\" at <include \"x\" .>:\n    error calling include:\na/_h.tpl:2:3\n  executing \"x\" at <.Values.a.b>:\n    nil pointer evaluating interface {}.b"
        );
        let text = "template: a/t.yaml:3:5: executing \"a/t.yaml\" at <fail \"x\">: error calling fail: HELM_ERR_STARTno: wayHELM_ERR_END";
        assert_eq!(
            exec_error("a/t.yaml", text, HelmVersion::V4),
            "execution error at (a/t.yaml:3:5): no: way"
        );
        assert_eq!(
            parse_error("a/t.yaml", "template: a/t.yaml:3: unexpected \"}\" in operand"),
            "parse error at (a/t.yaml:3): unexpected \"}\" in operand"
        );
    }
}
