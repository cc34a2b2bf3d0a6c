//! What is put right of what was changed on a target, and what is left alone: on a real kube-apiserver and on a sandbox.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::needless_pass_by_value,
    reason = "helpers of tests fail by panicking, and make objects as others do"
)]

#[path = "support/places.rs"]
mod places;
mod support;

use convoy_testkit::{ControlPlane, Options};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use places::{deployment, here};
use support::{World, condition, until};

/// What a rule leaves alone is no drift, and stays as it is in every apply: of drift, of a new revision, on request.
#[tokio::test(flavor = "multi_thread")]
async fn case_114_what_a_rule_leaves_to_the_autoscaler_is_neither_drift_nor_taken_back() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let source = deployment("web", "  replicas: 2\n  revisionHistoryLimit: 5\n", "", "");
    let mut world = World::start(plane, &[("empty/README", "")]).await;
    world.start_observer();
    for place in [here(&world), world.sandbox().await] {
        let name = place.cluster;
        let status = || async { world.releases().get(name).await.unwrap().data["status"].clone() };
        // A folder of its own: what the place before ended with is nothing here.
        let file = format!("{name}/web.yaml");
        world.commit(&[(&file, &source)]);
        let target = json!({"group": "apps", "kind": "Deployment", "name": "web"});
        let rules = json!([{"target": target, "paths": ["/spec/replicas"]}]);
        let drift = json!({"mode": "Correct", "ignore": rules});
        world.release(name, name, place.release(json!({"drift": drift}))).await;
        world.says(name, "True/Succeeded", "2 objects").await;
        let read = || async { place.deployments().get("web").await.unwrap().data["spec"].clone() };
        let write = |manager: &str, subresource: Option<&str>, spec: Value| {
            let (deployments, patch) = (place.deployments(), json!({"spec": spec}));
            let params = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
            let subresource = subresource.map(str::to_owned);
            async move {
                match subresource {
                    Some(of) => {
                        deployments.patch_subresource(&of, "web", &params, &Patch::Merge(&patch)).await
                    }
                    None => deployments.patch("web", &params, &Patch::Merge(&patch)).await,
                }
                .unwrap()
            }
        };
        // On creation it is as the source has it.
        assert_eq!(read().await["replicas"], 2, "{name}");
        write("hpa", Some("scale"), json!({"replicas": 5})).await;

        // Drift beside it is put right, and it is not.
        write("hand", None, json!({"revisionHistoryLimit": 1})).await;
        until("what drifted is put right", || async { read().await["revisionHistoryLimit"] == 5 }).await;
        assert_eq!(read().await["replicas"], 5, "{name}");
        // A new revision, also of the very field.
        let next = source.replace("web:1", &format!("web:{name}")).replace("replicas: 2", "replicas: 3");
        world.commit(&[(&file, &next)]);
        until("the new revision is there", || async {
            read().await["template"]["spec"]["containers"][0]["image"]
                == format!("registry.example/web:{name}")
        })
        .await;
        // All is applied anew on request.
        let ask = json!({"metadata": {"annotations": {"convoy.kumodo.io/force-at": "now"}}});
        world.patch(&world.releases(), name, ask).await;
        until("it was forced", || async { status().await["lastHandledForceAt"] == "now" }).await;
        until("it is seen as it is to be", || async {
            let status = status().await;
            status["observedBundleDigest"] == status["bundleDigest"]
                && condition(&status, "Drifted")["status"] == "False"
                && status["driftedObjects"].is_null()
        })
        .await;
        assert_eq!(read().await["replicas"], 5, "{name}");

        // The source may even leave the field out: it is not set to what the server fills in.
        let free = next.replace("  replicas: 3\n", "").replace("web:", "free:");
        world.commit(&[(&file, &free)]);
        until("the revision without it is there", || async {
            read().await["template"]["spec"]["containers"][0]["image"]
                == format!("registry.example/free:{name}")
        })
        .await;
        assert_eq!(read().await["replicas"], 5, "{name}");
        world.commit(&[(&file, &next)]);

        // By the manager that set it.
        let by_manager = json!([{"managers": ["hpa"]}]);
        world.patch(&world.releases(), name, json!({"spec": {"drift": {"ignore": by_manager}}})).await;
        until("it is applied again", || async {
            read().await["template"]["spec"]["containers"][0]["image"]
                == format!("registry.example/web:{name}")
        })
        .await;
        assert_eq!(read().await["replicas"], 5, "{name}");
        write("hpa", Some("scale"), json!({"replicas": 6})).await;
        write("hand", None, json!({"revisionHistoryLimit": 1})).await;
        until("what drifted is put right", || async { read().await["revisionHistoryLimit"] == 5 }).await;
        assert_eq!(read().await["replicas"], 6, "{name}");

        // Nothing is compared, nothing is said.
        let ignore = json!({"spec": {"drift": {"mode": "Ignore", "ignore": null}}});
        world.patch(&world.releases(), name, ignore).await;
        until("Drifted is taken back", || async { condition(&status().await, "Drifted").is_null() }).await;
        // Without the rule it is the source's again.
        until("it is as the source has it", || async { read().await["replicas"] == 3 }).await;
        write("hand", None, json!({"revisionHistoryLimit": 1})).await;
        world.asked(name, "1").await;
        assert_eq!(read().await["revisionHistoryLimit"], 1, "{name}");

        // And with neither it is corrected, and who changed it is named.
        world.patch(&world.releases(), name, json!({"spec": {"drift": {"mode": "Report"}}})).await;
        until("who changed it is named", || async {
            let status = status().await;
            let said = condition(&status, "Drifted")["message"].as_str().unwrap_or_default().to_owned();
            said.contains(r#""hand" after "convoy""#) && status["driftedObjects"][0]["manager"] == "hand"
        })
        .await;
        assert_eq!(read().await["revisionHistoryLimit"], 1, "{name}");
        world.patch(&world.releases(), name, json!({"spec": {"drift": {"mode": "Correct"}}})).await;
        until("it is put right", || async { read().await["revisionHistoryLimit"] == 5 }).await;
        world.patch(&world.releases(), name, json!({"spec": {"suspend": true}})).await;
        world.says(name, "False/Suspended", "").await;
    }
    world.stop().await;
}
