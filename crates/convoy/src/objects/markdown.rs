//! A diff as a comment on a pull request: short first, each object to be opened, and never too long.

use std::fmt::Write as _;

use convoy_api::{PreviewObject, ReleaseDiff};

/// The longest comment that is made: GitHub takes 65,536 characters.
const LONGEST_COMMENT: usize = 60_000;
/// What is kept for saying what was left out.
const LAST_WORDS: usize = 300;
/// The longest text of a problem or a remark.
const LONGEST_WORDS: usize = 2000;

/// The comment. What comes from objects cannot end the fence or the element that it stands in.
pub(super) fn markdown(release: &str, diff: &ReleaseDiff) -> String {
    let summary = if diff.is_empty() && diff.problems.is_empty() { "no differences" } else { &diff.summary };
    let mut comment = Comment { text: format!("### {release} on {}: {}\n", diff.cluster, escaped(summary)) };
    if diff.source_revision.starts_with("given@") {
        comment.add("\nOf the files that were handed in, compared with what is on the target now.\n");
    }
    let mut words_left_out = 0;
    for problem in &diff.problems {
        let words = quoted(&cut(&problem.message));
        words_left_out +=
            u32::from(!comment.add(&format!("\n> **{}**: {words}\n", escaped(&problem.reason))));
    }
    let (mut without_diff, mut objects_left_out) = (0, diff.omitted_objects);
    for object in &diff.objects {
        if comment.add(&part(object, &object.diff)) {
            continue;
        }
        if comment.add(&part(object, "")) {
            without_diff += 1;
        } else {
            objects_left_out += 1;
        }
    }
    for remark in &diff.remarks {
        words_left_out +=
            u32::from(!comment.add(&format!("\n_{}_\n", escaped(&cut(remark)).replace('\n', " "))));
    }
    let left_out = [
        (i64::from(words_left_out), "problems and remarks"),
        (without_diff, "diffs of objects that are named above"),
        (objects_left_out, "objects"),
    ];
    let left_out: Vec<String> = left_out
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let mut text = comment.text;
    if !left_out.is_empty() {
        _ = writeln!(text, "\nLeft out to keep the comment short: {}.", left_out.join(", "));
    }
    text
}

struct Comment {
    text: String,
}

impl Comment {
    /// False when there is no room for it.
    fn add(&mut self, part: &str) -> bool {
        let has_room = self.text.len() + part.len() + LAST_WORDS <= LONGEST_COMMENT;
        if has_room {
            self.text.push_str(part);
        }
        has_room
    }
}

fn part(object: &PreviewObject, diff: &str) -> String {
    let mut part = format!(
        "\n<details><summary>{} <code>{}</code>: {}</summary>\n\n",
        object.action.as_words(),
        escaped(&object.named()),
        escaped(&object.reason).replace('\n', " ")
    );
    if !object.problem.is_empty() {
        _ = write!(part, "> {}\n\n", quoted(&cut(&object.problem)));
    }
    if !diff.is_empty() {
        // A fence that the content cannot end.
        let longest = diff.lines().map(|line| line.chars().filter(|c| *c == '`').count()).max();
        let fence = "`".repeat(longest.unwrap_or(0).max(2) + 1);
        let end = if diff.ends_with('\n') { "" } else { "\n" };
        _ = write!(part, "{fence}diff\n{diff}{end}{fence}\n\n");
    }
    part.push_str("</details>\n");
    part
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST_WORDS) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Lines that stay in a quotation.
fn quoted(text: &str) -> String {
    escaped(text).replace('\n', "\n> ")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use convoy_api::{PreviewAction, PreviewProblem};

    use super::*;

    fn object(action: PreviewAction, name: &str, diff: &str) -> PreviewObject {
        PreviewObject {
            action,
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: "web".to_owned(),
            name: name.to_owned(),
            reason: "because of <b>".to_owned(),
            diff: diff.to_owned(),
            ..PreviewObject::default()
        }
    }

    fn diff(objects: Vec<PreviewObject>) -> ReleaseDiff {
        ReleaseDiff {
            cluster: "prod".to_owned(),
            summary: "1 to change".to_owned(),
            objects,
            ..ReleaseDiff::default()
        }
    }

    #[test]
    fn a_comment_is_short_first_and_cannot_be_broken_out_of() {
        let mut refused = object(PreviewAction::Keep, "b", "");
        refused.problem = "no </details>\nat all".to_owned();
        let changed = "@@ -1,3 +1,3 @@\n data:\n-  a: ```\n+  a: </details>\n";
        let mut told = diff(vec![object(PreviewAction::Change, "a", changed), refused]);
        told.source_revision = "given@sha256:1".to_owned();
        told.problems = vec![PreviewProblem { reason: "Bad".to_owned(), message: "<img>\n# one".to_owned() }];
        told.remarks = vec!["a\n# remark".to_owned()];
        let want = "\
### web on prod: 1 to change

Of the files that were handed in, compared with what is on the target now.

> **Bad**: &lt;img&gt;
> # one

<details><summary>change <code>ConfigMap web/a</code>: because of &lt;b&gt;</summary>

````diff
@@ -1,3 +1,3 @@
 data:
-  a: ```
+  a: </details>
````

</details>

<details><summary>keep <code>ConfigMap web/b</code>: because of &lt;b&gt;</summary>

> no &lt;/details&gt;
> at all

</details>

_a # remark_
";
        assert_eq!(markdown("web", &told), want);
        assert_eq!(markdown("web", &ReleaseDiff::default()), "### web on : no differences\n");
    }

    #[test]
    fn a_comment_is_bounded_and_says_what_it_leaves_out() {
        let huge = object(PreviewAction::Change, "huge", &"+ x\n".repeat(LONGEST_COMMENT));
        let text = markdown("web", &diff(vec![huge, object(PreviewAction::Change, "small", "+ y\n")]));
        assert!(text.contains("ConfigMap web/huge") && text.contains("```diff\n+ y\n```"), "{text}");
        assert!(text.ends_with("short: 1 diffs of objects that are named above.\n"), "{text}");
        let mut many = diff(vec![object(PreviewAction::Change, "a", "+ a\n"); 3000]);
        many.remarks = vec!["x".repeat(LONGEST_COMMENT); 50];
        many.problems = vec![PreviewProblem { reason: "Bad".to_owned(), message: "y".repeat(5000) }; 50];
        let text = markdown("web", &many);
        assert!(text.len() <= LONGEST_COMMENT, "{}", text.len());
        assert!(text.contains("problems and remarks") && text.ends_with(" objects.\n"), "{text}");
    }
}
