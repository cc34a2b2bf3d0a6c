//! Patches and applies that cannot be carried out, as answers.

use convoy_meta::{Reason, Status, StatusCause, StatusDetails};
use convoy_smd::{ApplyError, JsonPatchError, MergePatchError, StrategicPatchError};

pub(crate) fn apply_status(error: ApplyError) -> Status {
    match error {
        ApplyError::Conflict(conflicts) => {
            let causes = conflicts
                .causes
                .iter()
                .map(|conflict| StatusCause {
                    reason: "FieldManagerConflict".into(),
                    message: conflict.message(),
                    field: conflict.field.clone(),
                })
                .collect();
            Status::apply_conflict(causes, conflicts.to_string())
        }
        ApplyError::BadRequest(text) => Status::bad_request(text),
        other => Status::failure(Reason::Unknown, other.to_string()),
    }
}

pub(crate) fn json_patch_status(error: JsonPatchError) -> Status {
    match error {
        JsonPatchError::NotAPatch { .. } => Status::bad_request(format!("error decoding patch: {error}")),
        JsonPatchError::TooManyOperations { .. } => Status::request_entity_too_large(error),
        other => unprocessable(&other),
    }
}

pub(crate) fn strategic_patch_status(error: StrategicPatchError) -> Status {
    match error {
        StrategicPatchError::Format(_) => Status::bad_request(error.to_string()),
        StrategicPatchError::ListOfLists => unprocessable(&error),
        other => Status::failure(Reason::Unknown, other.to_string()),
    }
}

fn unprocessable(error: &dyn std::error::Error) -> Status {
    let cause = StatusCause { message: error.to_string(), ..StatusCause::default() };
    Status::failure(Reason::Invalid, "the server rejected our request due to an error in our request")
        .with_details(StatusDetails { causes: vec![cause], ..StatusDetails::default() })
}

pub(crate) fn merge_patch_status(error: &MergePatchError) -> Status {
    Status::bad_request(format!("error decoding patch: {error}"))
}
