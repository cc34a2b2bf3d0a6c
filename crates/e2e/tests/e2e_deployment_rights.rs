//! What `deploy/` gives on a real API server: all objects are taken, pods are admitted, and each component may do what it
//! does and nothing else.

#![allow(clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use convoy_e2e::deployment::{OVERLAYS, definitions, folder, kustomize};
use convoy_e2e::{Kubectl, until};
use convoy_testkit::{ControlPlane, HttpsClient, Options, leave_out, program};
use serde_json::json;

const CONVOY: &str = "convoy.kumodo.io";
const HOME: &str = "convoy-system";
/// Kinds of convoy whose objects have a status.
const WITH_STATUS: [&str; 5] = ["clusters", "gitrepositories", "helmregistries", "ociregistries", "releases"];
const VERBS: [&str; 11] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "impersonate",
    "bind",
    "escalate",
];

/// What is asked about: group, resource with subresource, namespace; an empty one is for all.
fn everything() -> Vec<(&'static str, String, &'static str)> {
    let mut all = Vec::new();
    for kind in WITH_STATUS {
        all.extend([(CONVOY, kind.to_owned(), "team"), (CONVOY, format!("{kind}/status"), "team")]);
    }
    for kind in ["releaseinventories", "releases/preview", "releases/rollback", "releases/diff"] {
        all.push((CONVOY, kind.to_owned(), "team"));
    }
    for resource in ["shardings", "healthrulesets", "healthrulesets/status"] {
        all.push((CONVOY, resource.to_owned(), ""));
    }
    for (group, resource) in [
        ("", "secrets"),
        ("", "configmaps"),
        ("", "events"),
        ("", "pods"),
        ("", "pods/exec"),
        ("", "serviceaccounts"),
        ("", "serviceaccounts/token"),
        ("apps", "deployments"),
        ("rbac.authorization.k8s.io", "rolebindings"),
        ("coordination.k8s.io", "leases"),
    ] {
        for namespace in ["team", HOME, "kube-system"] {
            all.push((group, resource.to_owned(), namespace));
        }
    }
    for (group, resource) in [
        ("", "namespaces"),
        ("", "nodes"),
        ("", "users"),
        ("rbac.authorization.k8s.io", "clusterroles"),
        ("rbac.authorization.k8s.io", "clusterrolebindings"),
        ("apiregistration.k8s.io", "apiservices"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    ] {
        all.push((group, resource.to_owned(), ""));
    }
    all
}

/// Those of [`everything`] that somebody may, as `verb group/resource namespace`.
fn may(client: &HttpsClient, user: &str, groups: &[&str], of: &str) -> BTreeSet<String> {
    let mut allowed = BTreeSet::new();
    for (group, resource, namespace) in everything().into_iter().filter(|(group, ..)| group.starts_with(of)) {
        for verb in VERBS {
            let (name, subresource) = resource.split_once('/').unwrap_or((&resource, ""));
            let review = json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                "spec": {"user": user, "groups": groups, "resourceAttributes": {
                    "verb": verb, "group": group, "resource": name, "subresource": subresource, "namespace": namespace,
                }},
            });
            let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
            let answer = client.send("POST", path, "application/json", &review).unwrap();
            assert_eq!(answer.status, 201, "{}", answer.text());
            if answer.json()["status"]["allowed"] == true {
                allowed.insert(format!("{verb} {group}/{resource} {namespace}"));
            }
        }
    }
    allowed
}

/// The same, of a table of verbs, groups with resources, and namespaces.
fn table(lines: &[(&str, &[&str], &[&str])]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for (verbs, resources, namespaces) in lines {
        for verb in verbs.split(' ') {
            for (resource, namespace) in
                resources.iter().flat_map(|resource| namespaces.iter().map(move |n| (resource, n)))
            {
                all.insert(format!("{verb} {resource} {namespace}"));
            }
        }
    }
    all
}

const EVERYWHERE: &[&str] = &["team", HOME, "kube-system"];
const SOURCES: &[&str] = &[
    "convoy.kumodo.io/gitrepositories",
    "convoy.kumodo.io/helmregistries",
    "convoy.kumodo.io/ociregistries",
];
const RELEASES: &[&str] = &["convoy.kumodo.io/releases"];
const CLUSTERS: &[&str] = &["convoy.kumodo.io/clusters"];
const INVENTORIES: &[&str] = &["convoy.kumodo.io/releaseinventories"];
const STATUSES: &[&str] = &[
    "convoy.kumodo.io/clusters/status",
    "convoy.kumodo.io/gitrepositories/status",
    "convoy.kumodo.io/helmregistries/status",
    "convoy.kumodo.io/ociregistries/status",
    "convoy.kumodo.io/releases/status",
];

fn account(client: &HttpsClient, component: &str) -> BTreeSet<String> {
    let user = format!("system:serviceaccount:{HOME}:convoy-{component}");
    may(
        client,
        &user,
        &["system:serviceaccounts", "system:serviceaccounts:convoy-system", "system:authenticated"],
        "",
    )
}

fn control_plane() -> Option<(ControlPlane, Kubectl)> {
    let program = program("kubectl").inspect_err(|missing| leave_out(missing)).ok()?;
    let options = Options { controller_manager: true, ..Options::default() };
    let plane = ControlPlane::start_or_leave_out(&options)?;
    let kubectl = Kubectl::new(&program, &plane.kubeconfig());
    kubectl.ok_with(&["apply", "-f", "-"], &definitions());
    kubectl.ok(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]);
    Some((plane, kubectl))
}

#[test]
fn sc34_sc35_sc36_a_real_api_server_takes_all_overlays_and_gives_each_component_what_it_needs_and_no_more() {
    let Some((plane, kubectl)) = control_plane() else { return };
    let program = program("kubectl").unwrap();
    kubectl.ok(&["create", "namespace", HOME]);
    for name in OVERLAYS {
        let objects = kustomize(&program, &folder().join("overlays").join(name));
        let said = kubectl.command(
            &[
                "apply",
                "--server-side",
                "--force-conflicts",
                "--dry-run=server",
                "--validate=strict",
                "-f",
                "-",
            ],
            &objects.list(),
        );
        let errors = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success() && errors.is_empty(), "{name}: {errors}");
    }
    let objects = kustomize(&program, &folder().join("overlays/production"));
    kubectl.ok_with(
        &["apply", "--server-side", "--force-conflicts", "--validate=strict", "-f", "-"],
        &objects.list(),
    );
    // Pod security is asked when the pods are made.
    for component in ["apiserver", "controller-manager", "observer"] {
        until(&format!("three pods of the {component}"), || {
            let label = format!("app.kubernetes.io/component={component}");
            let pods = kubectl.ok(&["get", "pods", "-n", HOME, "-l", &label, "-o", "name"]);
            (pods.lines().count() == 3).then_some(())
        });
    }

    let client = plane.client();
    let leases = &["coordination.k8s.io/leases"];
    assert_eq!(
        account(client, "controller-manager"),
        table(&[
            ("get list watch patch", SOURCES, &["team"]),
            ("get list watch patch", RELEASES, &["team"]),
            ("get list watch patch", CLUSTERS, &["team"]),
            ("patch", STATUSES, &["team"]),
            ("get list watch create update delete", INVENTORIES, &["team"]),
            ("get list watch", &["convoy.kumodo.io/healthrulesets"], &[""]),
            ("get", &["convoy.kumodo.io/shardings"], &[""]),
            ("get", &["/secrets", "/configmaps"], EVERYWHERE),
            ("get", &["/namespaces"], &[""]),
            ("create", &["/events"], EVERYWHERE),
            ("get list watch create update delete", leases, &[HOME]),
        ])
    );
    assert_eq!(
        account(client, "observer"),
        table(&[
            ("get list watch", SOURCES, &["team"]),
            ("get list watch", RELEASES, &["team"]),
            ("get list watch", CLUSTERS, &["team"]),
            ("get list watch", INVENTORIES, &["team"]),
            ("patch", &["convoy.kumodo.io/clusters/status", "convoy.kumodo.io/releases/status"], &["team"]),
            ("get list watch", &["convoy.kumodo.io/healthrulesets"], &[""]),
            ("patch", &["convoy.kumodo.io/healthrulesets/status"], &[""]),
            ("get", &["convoy.kumodo.io/shardings"], &[""]),
            ("get", &["/secrets", "/configmaps"], EVERYWHERE),
            ("get", &["/namespaces"], &[""]),
            ("create", &["/events"], &[HOME]),
            ("get list watch create update delete", leases, &[HOME]),
        ])
    );
    assert_eq!(
        account(client, "apiserver"),
        table(&[
            ("get list watch", &["/namespaces"], &[""]),
            (
                "create",
                &["authentication.k8s.io/tokenreviews", "authorization.k8s.io/subjectaccessreviews"],
                &[""]
            ),
            // The production overlay routes by owner.
            ("get", leases, &[HOME]),
        ])
    );
    // Only the ConfigMap of the front proxy's CA is readable.
    let one = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": format!("system:serviceaccount:{HOME}:convoy-apiserver"), "resourceAttributes": {
            "verb": "watch", "resource": "configmaps", "namespace": "kube-system",
            "name": "extension-apiserver-authentication",
        }},
    });
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let answer = client.send("POST", path, "application/json", &one).unwrap();
    assert_eq!(answer.json()["status"]["allowed"], true, "{}", answer.text());
}

#[test]
fn view_edit_and_admin_of_the_host_have_convoys_kinds() {
    let Some((plane, kubectl)) = control_plane() else { return };
    let program = program("kubectl").unwrap();
    let objects = kustomize(&program, &folder().join("overlays/single-replica"));
    kubectl.ok_with(&["apply", "--server-side", "--validate=strict", "-f", "-"], &objects.list());
    kubectl.ok(&["create", "namespace", "team"]);
    for role in ["view", "edit", "admin"] {
        let user = format!("--user={role}er");
        kubectl.ok(&["create", "rolebinding", role, "-n", "team", &format!("--clusterrole={role}"), &user]);
    }
    let convoys =
        |user: &str| -> BTreeSet<String> { may(plane.client(), user, &["system:authenticated"], CONVOY) };
    let mut wanted = table(&[
        ("get list watch", SOURCES, &["team"]),
        ("get list watch", RELEASES, &["team"]),
        ("get list watch", CLUSTERS, &["team"]),
        ("get list watch", INVENTORIES, &["team"]),
        ("get", STATUSES, &["team"]),
        ("get", &["convoy.kumodo.io/releases/preview", "convoy.kumodo.io/releases/diff"], &["team"]),
    ]);
    until("view is aggregated", || (convoys("viewer") == wanted).then_some(()));
    let write = "create update patch delete deletecollection";
    wanted.extend(table(&[
        (write, SOURCES, &["team"]),
        (write, RELEASES, &["team"]),
        (
            "create",
            &[
                "convoy.kumodo.io/releases/preview",
                "convoy.kumodo.io/releases/diff",
                "convoy.kumodo.io/releases/rollback",
            ],
            &["team"],
        ),
    ]));
    until("edit is aggregated", || (convoys("editer") == wanted).then_some(()));
    wanted.extend(table(&[(write, CLUSTERS, &["team"]), ("delete", INVENTORIES, &["team"])]));
    until("admin is aggregated", || (convoys("adminer") == wanted).then_some(()));
}
