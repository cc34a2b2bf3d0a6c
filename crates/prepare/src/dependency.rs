use convoy_api::{
    ConditionStatus, Dependency, Release, condition_status, condition_type, encode, find_condition,
};
use convoy_cel::Expression;

/// Whether a Release is ready for those that wait for it; if not, why not.
///
/// # Errors
/// Why not, in words.
pub fn is_ready(dependency: &Dependency, release: &Release) -> Result<(), String> {
    if let Some(text) = &dependency.ready_when {
        let failed = |error: &dyn std::error::Error| format!("readyWhen has no answer for it: {error}");
        let expression = Expression::compile(text).map_err(|error| failed(&error))?;
        return match expression.is_true(&encode(release)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("readyWhen is not true: {text}")),
            Err(error) => Err(failed(&error)),
        };
    }
    let conditions = release.status.as_ref().map_or(&[][..], |status| status.conditions.as_slice());
    let seen = release.status.as_ref().and_then(|status| status.observed_generation);
    if seen != release.metadata.generation {
        return Err("its spec changed a moment ago".to_owned());
    }
    match condition_status(conditions, condition_type::READY) {
        ConditionStatus::True => Ok(()),
        ConditionStatus::False | ConditionStatus::Unknown => {
            Err(find_condition(conditions, condition_type::READY).map_or_else(
                || "nothing is known of it yet".to_owned(),
                |ready| format!("{}: {}", ready.reason, ready.message.chars().take(300).collect::<String>()),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use convoy_api::{ReleaseStatus, set_condition};
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn ready_is_ready_for_the_present_spec_or_what_ready_when_says() {
        let with = |generation: i64, status: ConditionStatus| {
            let mut release = Release::default();
            release.metadata.generation = Some(2);
            let mut new = ReleaseStatus { observed_generation: Some(generation), ..ReleaseStatus::default() };
            let now = Timestamp::UNIX_EPOCH;
            set_condition(&mut new.conditions, "Ready", status, "HealthTimeout", "0 of 1", 1, now);
            new.source_revision = Some("main@sha1:a".to_owned());
            release.status = Some(new);
            release
        };
        let plain = Dependency { name: "db".to_owned(), ready_when: None };
        assert_eq!(is_ready(&plain, &with(2, ConditionStatus::True)), Ok(()));
        assert!(is_ready(&plain, &with(1, ConditionStatus::True)).unwrap_err().contains("a moment ago"));
        let unready = is_ready(&plain, &with(2, ConditionStatus::False)).unwrap_err();
        assert_eq!(unready, "HealthTimeout: 0 of 1");
        let when = |text: &str| Dependency { name: "db".to_owned(), ready_when: Some(text.to_owned()) };
        let unready = with(1, ConditionStatus::False);
        assert_eq!(is_ready(&when("object.status.sourceRevision == 'main@sha1:a'"), &unready), Ok(()));
        let not_true = is_ready(&when("size(object.status.history) > 0"), &unready).unwrap_err();
        assert!(not_true.contains("no answer"), "{not_true}");
        assert!(is_ready(&when("has(object.status.history)"), &unready).unwrap_err().contains("not true"));
    }
}
