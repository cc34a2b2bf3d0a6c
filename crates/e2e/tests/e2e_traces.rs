//! What a collector gets of a delivery: one trace for each piece of work, with its steps in it, and no secret.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests fail by panicking, and run git"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use convoy_e2e::{Convoy, Kubectl, until};
use convoy_testkit::{OtlpReceiver, leave_out, program};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::{Value, json};

fn git(folder: &Path, arguments: &[&str]) {
    let identity = ["-c", "user.name=test", "-c", "user.email=test@example.invalid"];
    let status = Command::new("git").arg("-C").arg(folder).args(identity).args(arguments).status();
    assert!(status.unwrap().success(), "git {arguments:?}");
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |attribute: &KeyValue| match attribute.value.as_ref()?.value.as_ref()? {
        Any::StringValue(text) => Some(text.clone()),
        Any::IntValue(number) => Some(number.to_string()),
        Any::BoolValue(is_so) => Some(is_so.to_string()),
        other => panic!("{}: {other:?}", attribute.key),
    };
    attributes.iter().filter_map(|attribute| Some((attribute.key.clone(), text(attribute)?))).collect()
}

/// All spans so far.
fn spans(receiver: &OtlpReceiver) -> Vec<Span> {
    let mut spans = Vec::new();
    for request in receiver.taken() {
        assert!(request.head.contains("application/x-protobuf"), "{}", request.head);
        let message = ExportTraceServiceRequest::decode(request.body.as_slice()).unwrap();
        for of_resource in message.resource_spans {
            let resource = texts(&of_resource.resource.unwrap().attributes);
            assert_eq!(resource["service.name"], "convoy-standalone");
            spans.extend(of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    }
    spans
}

#[test]
fn a_delivery_is_a_trace_of_its_steps_and_a_request_a_span_and_neither_has_a_secret() {
    let Some(kubectl) = program("kubectl").inspect_err(|missing| leave_out(missing)).ok() else { return };
    let receiver = OtlpReceiver::start(200).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let convoy = Convoy::standalone(
        &at("convoy"),
        &["--sandbox", "1", "--tracing-otlp-endpoint", &receiver.endpoint()],
    )
    .unwrap();
    let host = Kubectl::new(&kubectl, &at("convoy/admin.kubeconfig"));
    let target = std::fs::read_dir(at("convoy/sandbox"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .find(|path| path.extension().is_some_and(|extension| extension == "kubeconfig"))
        .unwrap();
    let repository = at("apps");
    std::fs::create_dir_all(repository.join("templates")).unwrap();
    git(&repository, &["init", "--quiet", "--initial-branch", "main"]);
    std::fs::write(repository.join("Chart.yaml"), "apiVersion: v2\nname: web\nversion: 1.0.0\n").unwrap();
    let template =
        "apiVersion: v1\nkind: Secret\nmetadata: {name: web}\nstringData: {token: {{ .Values.token }}}\n";
    std::fs::write(repository.join("templates/secret.yaml"), template).unwrap();
    git(&repository, &["add", "--all"]);
    git(&repository, &["commit", "--quiet", "--message", "1"]);
    let apply = |object: Value| host.ok_with(&["apply", "-f", "-"], &object.to_string());
    let ours = |kind: &str, name: &str, spec: Value| {
        apply(json!({
            "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec,
        }));
    };
    apply(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "k"},
        "stringData": {"kubeconfig": std::fs::read_to_string(&target).unwrap(), "more": "CANARY"},
    }));
    ours("Cluster", "c", json!({"kubeconfig": {"secretRef": {"name": "k"}}}));
    ours(
        "GitRepository",
        "apps",
        json!({"url": format!("file://{}", repository.display()), "interval": "1h"}),
    );
    let source = json!({"git": {"repositoryRef": {"name": "apps"}}});
    let values = json!({"helm": {"values": {"token": "CANARY"}}});
    ours("Release", "web", json!({"clusterRef": {"name": "c"}, "source": source, "render": values}));

    let named = |spans: &[Span], name: &str, object: &str| {
        let found = spans.iter().find(|span| {
            span.name == name
                && texts(&span.attributes).get("convoy.object").is_some_and(|found| found == object)
        });
        found.cloned()
    };
    let (apply, spans_then) = until("an apply is told of", || {
        let spans = spans(&receiver);
        let apply = spans.iter().find(|span| span.name == "apply")?.clone();
        // It is sent when it ends, after its parts.
        spans.iter().any(|span| span.span_id == apply.parent_span_id).then_some((apply, spans))
    });
    let parent = |span: &Span| {
        let parent = spans_then.iter().find(|other| other.span_id == span.parent_span_id).unwrap();
        assert_eq!(parent.trace_id, span.trace_id);
        assert!(parent.start_time_unix_nano <= span.start_time_unix_nano);
        assert!(span.end_time_unix_nano <= parent.end_time_unix_nano);
        parent.clone()
    };
    let reconcile = parent(&apply);
    assert_eq!((reconcile.name.as_str(), reconcile.parent_span_id.len()), ("reconcile", 0));
    assert_eq!(texts(&reconcile.attributes)["convoy.object"], "default/web");
    assert_eq!(texts(&apply.attributes)["convoy.objects"], "1");
    let siblings: Vec<&str> = spans_then
        .iter()
        .filter(|span| span.parent_span_id == reconcile.span_id)
        .map(|span| span.name.as_str())
        .collect();
    assert!(siblings.contains(&"plan"), "{siblings:?}");
    let render = spans_then.iter().find(|span| span.name == "render").unwrap();
    assert_eq!(texts(&render.attributes)["convoy.rendered"], "true");
    assert_eq!(texts(&parent(render).attributes)["convoy.object"], "default/web");
    let fetch = named(&spans_then, "fetch", "default/apps").unwrap();
    assert_eq!(parent(&fetch).name, "reconcile");

    let request = until("a request is told of", || {
        spans(&receiver).into_iter().find(|span| {
            let texts = texts(&span.attributes);
            span.name == "request"
                && texts.get("k8s.name").is_some_and(|name| name == "web")
                && texts.get("k8s.resource").is_some_and(|resource| resource == "releases.convoy.kumodo.io")
        })
    });
    let code = &texts(&request.attributes)["http.response.status_code"];
    assert!(code.starts_with('2') || code == "404", "kubectl asks whether it is there first: {code}");
    let metrics = host.ok(&["get", "--raw", "/metrics"]);
    let exported = metrics.lines().find_map(|line| line.strip_prefix("convoy_trace_spans_exported_total "));
    assert!(exported.unwrap().parse::<u64>().unwrap() > 0);

    assert_eq!(convoy.terminate(), Some(0));
    for request in receiver.taken() {
        let has_secret = request.body.windows(6).any(|bytes| bytes == b"CANARY");
        assert!(!has_secret, "{:?}", String::from_utf8_lossy(&request.body));
    }
}
