//! Waiting for CustomResourceDefinitions.

use std::time::Duration;

use convoy_plan::ObjectRef;
use serde_json::Value;
use tokio::time::Instant;

use crate::{Class, RequestError, Target};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

impl Target {
    /// Waits until a CustomResourceDefinition is Established and discovery lists what it serves.
    ///
    /// # Errors
    /// [`Class::Transient`] when it is not by then, with what the target says of it; [`Class::Invalid`]
    /// when its names are taken; else see [`Class`].
    pub async fn await_established(&self, at: &ObjectRef, patience: Duration) -> Result<(), RequestError> {
        let deadline = Instant::now() + patience;
        let mut pause = FIRST_PAUSE;
        loop {
            let crd = self.get(&at.path(), Some(at)).await?;
            match judge(&crd) {
                Judgement::Established if self.is_discovered(&crd).await? => return Ok(()),
                Judgement::Refused(why) => {
                    return Err(RequestError::new(
                        Class::Invalid { immutable: false },
                        format!("the target does not accept its names: {why}"),
                    ));
                }
                Judgement::Established | Judgement::Waiting => {}
            }
            if Instant::now() + pause > deadline {
                let message = format!("it is not Established after {} s", patience.as_secs());
                return Err(RequestError::new(Class::Transient, message));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn is_discovered(&self, crd: &Value) -> Result<bool, RequestError> {
        let group = crd["spec"]["group"].as_str().unwrap_or_default();
        let plural = &crd["spec"]["names"]["plural"];
        let versions = crd["spec"]["versions"].as_array().map_or(&[][..], Vec::as_slice);
        for version in versions.iter().filter(|version| version["served"] == true) {
            let version = version["name"].as_str().unwrap_or_default();
            let list = match self.get(&format!("/apis/{group}/{version}"), None).await {
                Ok(list) => list,
                Err(error)
                    if matches!(error.class, Class::KindUnknown | Class::NotFound | Class::Transient) =>
                {
                    return Ok(false);
                }
                Err(error) => return Err(error),
            };
            let resources = list["resources"].as_array().map_or(&[][..], Vec::as_slice);
            if !resources.iter().any(|resource| resource["name"] == *plural) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Judgement {
    Established,
    Waiting,
    Refused(String),
}

fn judge(crd: &Value) -> Judgement {
    let conditions = crd["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let find = |type_: &str| conditions.iter().find(|condition| condition["type"] == type_);
    if let Some(refused) = find("NamesAccepted").filter(|condition| condition["status"] == "False") {
        return Judgement::Refused(refused["message"].as_str().unwrap_or_default().to_owned());
    }
    match find("Established") {
        Some(condition) if condition["status"] == "True" => Judgement::Established,
        _ => Judgement::Waiting,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_definition_is_judged_by_its_conditions() {
        let with = |conditions: Value| judge(&json!({"status": {"conditions": conditions}}));
        assert_eq!(judge(&json!({})), Judgement::Waiting);
        assert_eq!(with(json!([{"type": "Established", "status": "False"}])), Judgement::Waiting);
        assert_eq!(with(json!([{"type": "Established", "status": "True"}])), Judgement::Established);
        assert_eq!(
            with(
                json!([{"type": "NamesAccepted", "status": "False", "message": "\"widgets\" is already in use"}])
            ),
            Judgement::Refused("\"widgets\" is already in use".to_owned())
        );
    }
}
