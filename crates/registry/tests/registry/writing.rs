use convoy_meta::{FieldValidation, Object};
use convoy_registry::{Body, Patch};
use serde_json::{Value, json};

use crate::fixture::{Fixture, is, named, said};

#[tokio::test]
async fn a_created_object_gets_identity_defaults_and_generation_but_no_status() {
    let fixture = Fixture::new();
    let mut thing = named("a");
    thing["spec"] = json!({"color": "red"});
    thing["status"] = json!({"ok": true});
    let written = fixture.create(thing).await.unwrap();
    assert!(written.created);
    let object = written.object.to_value();
    assert_eq!(object["spec"], json!({"color": "red", "size": 3}));
    assert_eq!(object.get("status"), None);
    let metadata = &object["metadata"];
    assert_eq!(metadata["uid"], "00000000-0000-0000-0000-000000000001");
    assert_eq!(metadata["creationTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!((&metadata["generation"], &metadata["namespace"]), (&json!(1), &json!("default")));
    assert_eq!(metadata["resourceVersion"], written.object.revision().to_string());
    assert_eq!(fixture.get("a").await.unwrap(), object);
}

#[tokio::test]
async fn generated_names_end_in_a_suffix_and_are_cut_to_63_characters() {
    let fixture = Fixture::new();
    let object = json!({"metadata": {"generateName": "web-"}});
    let first = fixture.create(object.clone()).await.unwrap().object;
    let second = fixture.create(object).await.unwrap().object;
    assert!(first.name().starts_with("web-") && first.name().len() == 9, "{}", first.name());
    assert_ne!(first.name(), second.name());
    let long = json!({"metadata": {"generateName": "a".repeat(80)}});
    assert_eq!(fixture.create(long).await.unwrap().object.name().len(), 63);
}

#[tokio::test]
async fn a_create_that_cannot_be_is_refused_in_kubernetes_words() {
    let fixture = Fixture::new();
    fixture.create(named("a")).await.unwrap();
    let table = [
        (named("a"), is(409, "AlreadyExists", "things.ex.io \"a\" already exists")),
        (
            json!({"metadata": {"name": "rv", "resourceVersion": "5"}}),
            is(500, "", "resourceVersion should not be set on objects to be created"),
        ),
        (
            json!({"apiVersion": "ex.io/v1", "kind": "Other", "metadata": {"name": "a"}}),
            is(422, "Invalid", "Other.ex.io \"a\" is invalid: kind: Invalid value: \"Other\": must be Thing"),
        ),
        (
            json!({"apiVersion": "ex.io/v2", "kind": "Thing", "metadata": {"name": "a"}}),
            is(
                400,
                "BadRequest",
                "the API version in the data (ex.io/v2) does not match the expected API version (ex.io/v1)",
            ),
        ),
        (
            json!({"metadata": {"name": "b", "namespace": "other"}}),
            is(
                400,
                "BadRequest",
                "the namespace of the provided object does not match the namespace sent on the request",
            ),
        ),
        (
            json!({"metadata": {}}),
            is(
                422,
                "Invalid",
                "Thing.ex.io \"\" is invalid: metadata.name: Required value: name or generateName is required",
            ),
        ),
        (
            json!({"metadata": {"name": "big"}, "spec": {"size": 11}}),
            is(
                422,
                "Invalid",
                "Thing.ex.io \"big\" is invalid: spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10",
            ),
        ),
    ];
    for (object, expected) in table {
        assert_eq!(said(fixture.create(object.clone()).await), expected, "{object}");
    }
}

#[tokio::test]
async fn unknown_and_duplicate_fields_are_refused_warned_about_or_dropped() {
    let mut fixture = Fixture::new();
    let body = || Body {
        object: json!({"metadata": {"name": "s"}, "spec": {"colour": "x", "size": 2}}),
        duplicates: vec!["spec.size".into()],
    };
    fixture.context.field_validation = FieldValidation::Strict;
    let refused = fixture.registry.create(&fixture.context, &fixture.things(), "default", body()).await;
    let text = "Thing in version \"v1\" cannot be handled as a Thing: strict decoding error: duplicate field \"spec.size\", unknown field \"spec.colour\"";
    assert_eq!(said(refused), is(400, "BadRequest", text));
    fixture.context.field_validation = FieldValidation::Warn;
    let warned =
        fixture.registry.create(&fixture.context, &fixture.things(), "default", body()).await.unwrap();
    assert_eq!(warned.warnings, ["duplicate field \"spec.size\"", "unknown field \"spec.colour\""]);
    assert_eq!(warned.object.to_value()["spec"], json!({"size": 2}));
    fixture.context.field_validation = FieldValidation::Ignore;
    let patched = fixture.merge("s", "", json!({"spec": {"colour": "y"}})).await.unwrap();
    assert!(patched.warnings.is_empty());
    fixture.context.field_validation = FieldValidation::Strict;
    let refused = said(fixture.merge("s", "", json!({"spec": {"colour": "y"}})).await);
    assert_eq!((refused.0, refused.1.as_str()), (422, "Invalid"));
    assert!(refused.2.ends_with("strict decoding error: unknown field \"spec.colour\""), "{}", refused.2);
}

#[tokio::test]
async fn an_update_needs_the_version_that_was_read_unless_the_kind_says_otherwise() {
    let fixture = Fixture::new();
    fixture.create(named("a")).await.unwrap();
    let text = "things.ex.io \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update";
    assert_eq!(said(fixture.put("a", "", named("a")).await), is(422, "Invalid", text));
    let mut stale = named("a");
    stale["metadata"]["resourceVersion"] = json!("999");
    let text = "Operation cannot be fulfilled on things.ex.io \"a\": the object has been modified; please apply your changes to the latest version and try again";
    assert_eq!(said(fixture.put("a", "", stale).await), is(409, "Conflict", text));
    fixture.create_config(json!({"metadata": {"name": "c"}, "data": {"a": "1"}})).await.unwrap();
    let written =
        fixture.put_config("c", json!({"metadata": {"name": "c"}, "data": {"a": "2"}})).await.unwrap();
    assert_eq!(written.object.to_value()["data"], json!({"a": "2"}));
    let other = json!({"metadata": {"name": "c", "uid": "x"}});
    let text = "Operation cannot be fulfilled on configmaps \"c\": StorageError: invalid object, Code: 4, Key: /registry/configmaps/default/c, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: x, UID in object meta: 00000000-0000-0000-0000-000000000002";
    assert_eq!(said(fixture.put_config("c", other).await), is(409, "Conflict", text));
}

#[tokio::test]
async fn an_update_must_name_the_object_of_the_url() {
    let fixture = Fixture::new();
    fixture.create(named("a")).await.unwrap();
    let text = "the name of the object (zz) does not match the name on the URL (a)";
    assert_eq!(said(fixture.put("a", "", named("zz")).await), is(400, "BadRequest", text));
    let text = "the name of the object (a based on URL) was undeterminable: name must be provided";
    assert_eq!(said(fixture.put("a", "", json!({"metadata": {}})).await), is(400, "BadRequest", text));
    let text = "things.ex.io \"nope\" not found";
    assert_eq!(said(fixture.put("nope", "", named("nope")).await), is(404, "NotFound", text));
    assert_eq!(said(fixture.merge("nope", "", json!({})).await), is(404, "NotFound", text));
}

#[tokio::test]
async fn generation_counts_changes_of_the_spec_and_nothing_else() {
    let fixture = Fixture::new();
    fixture.create(named("a")).await.unwrap();
    let generation = |written: convoy_registry::Written| written.object.to_value().generation();
    let labelled = fixture.merge("a", "", json!({"metadata": {"labels": {"x": "y"}}})).await.unwrap();
    assert_eq!(generation(labelled), 1);
    let status = fixture.merge("a", "status", json!({"status": {"ok": true}})).await.unwrap();
    assert_eq!(generation(status), 1);
    let spec = fixture.merge("a", "", json!({"spec": {"size": 5}})).await.unwrap();
    assert_eq!(generation(spec), 2);
    let cheated = fixture.merge("a", "", json!({"metadata": {"generation": 77}})).await.unwrap();
    assert_eq!(generation(cheated), 2);
}

#[tokio::test]
async fn spec_and_status_are_written_through_their_own_endpoints_only() {
    let fixture = Fixture::new();
    fixture.create(named("a")).await.unwrap();
    let both = json!({"spec": {"size": 4}, "status": {"ok": true}, "metadata": {"labels": {"x": "y"}}});
    let status = fixture.merge("a", "status", both.clone()).await.unwrap().object.to_value();
    assert_eq!(status["status"], json!({"ok": true}));
    assert_eq!((status["spec"].get("size"), status.label("x")), (None, None));
    let spec = fixture.merge("a", "", json!({"spec": {"size": 4}, "status": {"ok": false}})).await.unwrap();
    let spec = spec.object.to_value();
    assert_eq!((&spec["spec"]["size"], &spec["status"]["ok"]), (&json!(4), &json!(true)));
}

#[tokio::test]
async fn a_write_that_changes_nothing_keeps_the_resource_version() {
    let mut fixture = Fixture::new();
    let created = fixture.create(named("a")).await.unwrap().object.revision();
    fixture.context.now = "2026-01-01T01:00:00Z".parse().unwrap();
    let again = fixture.put("a", "", fixture.get("a").await.unwrap()).await.unwrap();
    assert_eq!(again.object.revision(), created);
    assert_eq!(fixture.merge("a", "", json!({})).await.unwrap().object.revision(), created);
}

#[tokio::test]
async fn a_dry_run_stores_nothing() {
    let mut fixture = Fixture::new();
    fixture.create(named("a")).await.unwrap();
    let before = fixture.get("a").await.unwrap();
    fixture.context.dry_run = true;
    let created = fixture.create(named("b")).await.unwrap().object.to_value();
    assert_eq!(created["metadata"].get("resourceVersion"), None);
    assert_eq!(said(fixture.get("b").await).0, 404);
    assert_eq!(said(fixture.create(named("a")).await).0, 409);
    let patched = fixture.merge("a", "", json!({"spec": {"size": 5}})).await.unwrap().object.to_value();
    assert_eq!(patched["spec"]["size"], 5);
    assert_eq!(fixture.get("a").await.unwrap(), before);
}

#[tokio::test]
async fn patches_that_do_not_fit_are_refused_in_kubernetes_words() {
    let fixture = Fixture::new();
    fixture.create_config(json!({"metadata": {"name": "c"}, "data": {"a": "1"}})).await.unwrap();
    let json_patch = async |patch: Value| {
        let (context, configs) = (&fixture.context, fixture.configs());
        said(fixture.registry.patch(context, &configs, "default", "c", "", &Patch::Json(patch)).await)
    };
    let rejected = is(422, "Invalid", "the server rejected our request due to an error in our request");
    assert_eq!(json_patch(json!([{"op": "test", "path": "/data/a", "value": "9"}])).await, rejected);
    assert_eq!(json_patch(json!([{"op": "remove", "path": "/data/zzz"}])).await, rejected);
    assert_eq!(json_patch(json!({"op": "remove"})).await.0, 400);
    assert_eq!(
        said(fixture.merge_config("c", json!(5)).await),
        is(
            400,
            "BadRequest",
            "error decoding patch: json: cannot unmarshal number into Go value of type map[string]interface {}"
        )
    );
    assert_eq!(
        said(fixture.merge_config("c", json!({"metadata": {"name": "other"}})).await),
        is(400, "BadRequest", "the name of the object (other) does not match the name on the URL (c)")
    );
    let stale = said(fixture.merge_config("c", json!({"metadata": {"resourceVersion": "1000"}})).await);
    assert_eq!((stale.0, stale.1.as_str()), (409, "Conflict"));
    let uid = said(fixture.merge_config("c", json!({"metadata": {"uid": "x"}})).await);
    assert_eq!(
        uid,
        is(
            422,
            "Invalid",
            "ConfigMap \"c\" is invalid: metadata.uid: Invalid value: \"x\": field is immutable"
        )
    );
    let (context, things) = (&fixture.context, fixture.things());
    let strategic = Patch::Strategic(json!({}).into());
    let refused = said(fixture.registry.patch(context, &things, "default", "c", "", &strategic).await);
    let text = "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    assert_eq!(refused, is(415, "UnsupportedMediaType", text));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_patches_of_one_object_all_take_place() {
    let fixture = std::sync::Arc::new(Fixture::new());
    fixture.create_config(json!({"metadata": {"name": "c"}})).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for i in 0..4 {
        let fixture = std::sync::Arc::clone(&fixture);
        tasks.spawn(async move {
            for j in 0..10 {
                let key = format!("{i}-{j}");
                fixture.merge_config("c", json!({ "data": { key: "x" } })).await.unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let options = convoy_meta::GetOptions::default();
    let got = fixture.registry.get(&fixture.configs(), "default", "c", &options).await.unwrap();
    assert_eq!(got.to_value()["data"].as_object().unwrap().len(), 40);
}

async fn apply(
    fixture: &Fixture,
    manager: &str,
    force: bool,
    object: Value,
) -> Result<convoy_registry::Written, convoy_meta::Status> {
    let mut context = fixture.context.clone();
    context.field_manager = manager.into();
    let patch = Patch::Apply { body: object.into(), force };
    fixture.registry.patch(&context, &fixture.things(), "default", "a", "", &patch).await
}

#[tokio::test]
async fn an_apply_creates_takes_part_and_meets_conflicts() {
    let fixture = Fixture::new();
    let with = |spec: Value| {
        let mut thing = named("a");
        thing["spec"] = spec;
        thing
    };
    let created = apply(&fixture, "one", false, with(json!({"color": "red"}))).await.unwrap();
    assert!(created.created);
    let conflict = apply(&fixture, "two", false, with(json!({"color": "blue"}))).await.unwrap_err();
    assert_eq!(conflict.message, "Apply failed with 1 conflict: conflict with \"one\": .spec.color");
    let cause = &conflict.details.unwrap().causes[0];
    assert_eq!((cause.reason.as_str(), cause.field.as_str()), ("FieldManagerConflict", ".spec.color"));
    let forced = apply(&fixture, "two", true, with(json!({"color": "blue"}))).await.unwrap();
    assert_eq!(forced.object.to_value()["spec"]["color"], "blue");
    // Again: nothing to do.
    let again = apply(&fixture, "two", false, with(json!({"color": "blue"}))).await.unwrap();
    assert_eq!(again.object.revision(), forced.object.revision());
    // Left out by its only owner: gone.
    let left_out = apply(&fixture, "two", false, with(json!({"size": 4}))).await.unwrap();
    assert_eq!(left_out.object.to_value()["spec"], json!({"size": 4}));
}

#[tokio::test]
async fn an_apply_that_may_not_create_answers_404_and_first_what_else_is_wrong() {
    let mut fixture = Fixture::new();
    fixture.context.may_create = false;
    let absent = said(apply(&fixture, "one", false, named("a")).await);
    assert_eq!(absent, is(404, "NotFound", "things.ex.io \"a\" not found"));
    let mut of_a_uid = named("a");
    of_a_uid["metadata"]["uid"] = "x".into();
    assert_eq!(said(apply(&fixture, "one", false, of_a_uid).await).0, 409);
    fixture.context.may_create = true;
    apply(&fixture, "one", false, named("a")).await.unwrap();
    fixture.context.may_create = false;
    apply(&fixture, "one", false, named("a")).await.unwrap();
}

#[tokio::test]
async fn an_apply_that_cannot_be_is_refused_in_kubernetes_words() {
    let fixture = Fixture::new();
    let table = [
        (
            json!({"apiVersion": "ex.io/v1", "kind": "Other", "metadata": {"name": "a"}}),
            400,
            "invalid object type: ex.io/v1, Kind=Other",
        ),
        (json!({"kind": "Thing", "metadata": {"name": "a"}}), 400, "invalid object type: /, Kind=Thing"),
        (named("other"), 400, "the name of the object (other) does not match the name on the URL (a)"),
        (
            json!({"apiVersion": "ex.io/v1", "kind": "Thing"}),
            400,
            "the name of the object (a based on URL) was undeterminable: name must be provided",
        ),
        (
            json!({"apiVersion": "ex.io/v1", "kind": "Thing", "metadata": {"name": "a", "uid": "x"}}),
            409,
            "Operation cannot be fulfilled on things.ex.io \"a\": uid mismatch: the provided object specified uid x, and no existing object was found",
        ),
        (
            json!({"apiVersion": "ex.io/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"colour": "x"}}),
            500,
            "failed to create typed patch object (/a; ex.io/v1, Kind=Thing): .spec.colour: field not declared in schema",
        ),
    ];
    for (object, code, text) in table {
        let refused = said(apply(&fixture, "one", false, object.clone()).await);
        assert_eq!((refused.0, refused.2.as_str()), (code, text), "{object}");
    }
}

#[tokio::test]
async fn creating_what_is_being_deleted_says_so() {
    let fixture = Fixture::new();
    let mut thing = named("a");
    thing["metadata"]["finalizers"] = json!(["x.io/a"]);
    fixture.create(thing).await.unwrap();
    fixture.delete("a", &convoy_meta::DeleteOptions::default()).await.unwrap();
    let text = "object is being deleted: things.ex.io \"a\" already exists";
    assert_eq!(said(fixture.create(named("a")).await), is(409, "AlreadyExists", text));
}

#[tokio::test]
async fn null_is_absent_in_built_in_kinds_and_a_value_in_custom_ones() {
    let fixture = Fixture::new();
    let object = json!({"metadata": {"name": "c", "creationTimestamp": null}, "data": null, "x": {"y": [{"z": null}]}});
    let config = fixture.create_config(object).await.unwrap().object.to_value();
    assert_eq!((config.get("data"), &config["x"]), (None, &json!({"y": [{}]})));
    let mut thing = named("a");
    thing["spec"] = json!({"color": null});
    let refused = said(fixture.create(thing).await);
    assert_eq!((refused.0, refused.1.as_str()), (422, "Invalid"));
}
