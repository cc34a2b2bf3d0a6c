//! Cases from the field about objects that targets refuse, on a real kube-apiserver and, where the target decides, on a
//! sandbox too.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::needless_pass_by_value,
    reason = "helpers of tests fail by panicking, and make objects as others do"
)]

#[path = "support/places.rs"]
mod places;
mod support;

use std::time::Duration;

use convoy_testkit::{ControlPlane, Options};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use places::{Place, deployment, here, map};
use support::{NAMESPACE, World, condition, until};

impl World {
    /// Writes of the controller-manager into a namespace of the kube-apiserver.
    fn writes_into(&self, namespace: &str) -> Vec<String> {
        let within = format!("/namespaces/{namespace}/");
        let mut all = self.target_requests();
        all.retain(|request| {
            request.contains(&within) && !request.starts_with("get") && !request.starts_with("list")
        });
        all
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn case_105_keys_that_stand_twice_are_a_fault_of_the_manifest() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let fine = deployment(
        "web",
        "",
        ", ports: [{containerPort: 7001, protocol: TCP}, {containerPort: 7001, protocol: UDP}, {containerPort: 7002, name: http}]",
        "",
    );
    let mut world = World::start(plane, &[("m/web.yaml", &fine)]).await;
    let places = [here(&world), world.sandbox().await];
    for place in &places {
        let name = place.cluster;
        world.commit(&[("m/web.yaml", &fine)]);
        world.release(name, "m", place.release(json!({}))).await;
        world.says(name, "True/Succeeded", "2 objects").await;
        let live = || async { place.deployments().get("web").await.unwrap() };
        let before = live().await;
        assert_eq!(
            before.data["spec"]["template"]["spec"]["containers"][0]["ports"].as_array().unwrap().len(),
            3
        );
        world.asked(name, "again").await;
        world.says(name, "True/Succeeded", "2 objects").await;
        assert_eq!(live().await.metadata.generation, before.metadata.generation);

        let doubled = [
            deployment(
                "web",
                "",
                ", ports: [{containerPort: 53, name: a}, {containerPort: 53, name: b}]",
                "",
            ),
            deployment("web", "", ", env: [{name: A, value: '1'}, {name: A, value: '2'}]", ""),
            deployment(
                "web",
                "",
                ", volumeMounts: [{name: v, mountPath: /a}]",
                "      volumes: [{name: v, emptyDir: {}}, {name: v, configMap: {name: x}}]\n",
            ),
        ];
        for (number, (text, key)) in
            doubled.iter().zip(["containerPort=53", "name=\"A\"", "name=\"v\""]).enumerate()
        {
            world.commit(&[("m/web.yaml", text)]);
            let status = world.says(name, "False/ApplyRejected", key).await;
            let message = condition(&status, "Ready")["message"].as_str().unwrap();
            assert!(message.contains("duplicate entries for key"), "{message}");
            assert_eq!(condition(&status, "Stalled")["status"], "True", "{status:#}");
            assert_eq!(live().await.metadata.generation, before.metadata.generation);
            // It is no trouble of the server: it is not tried again and again.
            let tried = world.writes_into("web").len();
            world.clock.jump(Duration::from_secs(20));
            world.asked(name, &format!("{number}")).await;
            assert!(world.writes_into("web").len() <= tried + 1, "{:?}", world.writes_into("web"));
        }
        world.commit(&[("m/web.yaml", &fine)]);
        world.says(name, "True/Succeeded", "2 objects").await;
    }

    // A plain POST of such an object is taken, and so is an apply on top of it.
    let place = &places[0];
    let twice = json!([{"containerPort": 53, "name": "a"}, {"containerPort": 53, "name": "b"}]);
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "posted"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "registry.example/web:0", "ports": twice}]},
            },
        },
    });
    let object = serde_json::from_value(object).unwrap();
    place.deployments().create(&PostParams::default(), &object).await.unwrap();
    let adopted = deployment("posted", "", ", ports: [{containerPort: 7001}]", "");
    world.commit(&[("m/web.yaml", &fine), ("adopted/d.yaml", &adopted)]);
    world.release("adopted", "adopted", place.release(json!({"createNamespace": false}))).await;
    world.says("adopted", "True/Succeeded", "1 object").await;
    let before = place.deployments().get("posted").await.unwrap().metadata.resource_version;
    world.asked("adopted", "again").await;
    assert_eq!(place.deployments().get("posted").await.unwrap().metadata.resource_version, before);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_108_a_namespace_that_nobody_makes_is_named_and_one_of_the_same_release_is_there_first() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let inside = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: own}\ndata: {value: '1'}\n";
    let own = "apiVersion: v1\nkind: Namespace\nmetadata: {name: own}\n";
    let other = map("b", "1");
    let files = [("m/a.yaml", inside), ("m/z.yaml", own), ("none/b.yaml", other.as_str())];
    let mut world = World::start(plane, &files).await;
    for place in [here(&world), world.sandbox().await] {
        let (whole, none) = (format!("whole-{}", place.cluster), format!("none-{}", place.cluster));
        world
            .release(&whole, "m", place.release(json!({"targetNamespace": "own", "createNamespace": false})))
            .await;
        world.says(&whole, "True/Succeeded", "2 objects").await;
        assert_eq!(place.text("own", "a").await, json!({"value": "1"}));

        let spec = place.release(json!({"targetNamespace": "nobody", "createNamespace": false}));
        world.release(&none, "none", spec).await;
        let status = world.says(&none, "False/ApplyFailed", "nobody").await;
        let message = condition(&status, "Ready")["message"].as_str().unwrap();
        assert!(message.contains("createNamespace"), "{message}");
        // Somebody makes it: no other revision is needed.
        let namespaces = place.api("v1", "Namespace", "namespaces", None);
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "nobody"}});
        namespaces.create(&PostParams::default(), &serde_json::from_value(namespace).unwrap()).await.unwrap();
        world.clock.jump(Duration::from_secs(301));
        world.says(&none, "True/Succeeded", "1 object").await;
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_110_large_objects_are_applied_too_large_ones_are_named_and_records_stay_small() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let of = |name: &str, bytes: usize| map(name, &"x".repeat(bytes));
    let (big, huge, request) = (of("big", 400 << 10), of("huge", (1 << 20) + 1), of("request", 3 << 20));
    let annotated = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: annotated, annotations: {{note: {}}}}}\n",
        "x".repeat(256 << 10)
    );
    let small = map("small", "1");
    let mut world = World::start(plane, &[("m/big.yaml", &big), ("m/small.yaml", &small)]).await;
    for place in [here(&world), world.sandbox().await] {
        let name = place.cluster;
        world.commit(&[("m/big.yaml", &big), ("m/small.yaml", &small)]);
        world.release(name, "m", place.release(json!({}))).await;
        world.says(name, "True/Succeeded", "3 objects").await;
        let live = place.maps("web").get("big").await.unwrap();
        assert_eq!(live.data["data"]["value"].as_str().unwrap().len(), 400 << 10);
        assert!(
            live.metadata.annotations.is_none_or(|all| !all.keys().any(|name| name.contains("last-applied")))
        );
        // A sandbox has no such limits.
        let refused = if name == "sandbox" { 0 } else { 3 };
        for (number, (text, words)) in [(&huge, "1048576"), (&annotated, "262144"), (&request, "too large")]
            .into_iter()
            .take(refused)
            .enumerate()
        {
            let changed = map("small", &format!("changed {number}"));
            world.commit(&[("m/big.yaml", &big), ("m/small.yaml", &changed), ("m/a-too-big.yaml", text)]);
            let status = world.says(name, "False/ApplyRejected", words).await;
            assert_eq!(condition(&status, "Stalled")["status"], "True", "{status:#}");
            assert_eq!(place.text("web", "small").await, json!({"value": format!("changed {number}")}));
            let inventories = world.inventories().list(&Default::default()).await.unwrap().items;
            for object in [serde_json::to_value(&inventories).unwrap(), status] {
                assert!(object.to_string().len() < 20_000, "{} bytes", object.to_string().len());
            }
        }
        world.commit(&[("m/big.yaml", &big), ("m/small.yaml", &small)]);
        world.says(name, "True/Succeeded", "3 objects").await;
        world.delete(&world.releases(), name).await;
        until("the Release is gone", || async { world.releases().get_opt(name).await.unwrap().is_none() })
            .await;
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_113_an_object_has_one_release_and_the_second_names_the_first() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shared}\n";
    let common = |owner: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: common, namespace: shared}}\ndata: {{owner: {owner}}}\n"
        )
    };
    let (of_a, of_b) = (common("a"), common("b"));
    let rest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: rest, namespace: shared}\ndata: {a: '1'}\n";
    let first = [
        ("a/ns.yaml", namespace),
        ("a/cm.yaml", of_a.as_str()),
        ("a/rest.yaml", rest),
        ("b/ns.yaml", namespace),
        ("b/cm.yaml", of_b.as_str()),
    ];
    let mut world = World::start(plane, &first).await;
    // A second Cluster that is the same API server.
    world.cluster("also", &std::fs::read_to_string(world.plane.kubeconfig()).unwrap()).await;
    let spec = |cluster: &str| json!({"clusterRef": {"name": cluster}, "apply": {"wait": false}});
    let maps = world.api("v1", "ConfigMap", "configmaps", Some("shared"));
    world.release("a", "a", spec("here")).await;
    world.says("a", "True/Succeeded", "3 objects").await;
    let uid = maps.get("common").await.unwrap().metadata.uid;
    for cluster in ["here", "also"] {
        world.release("b", "b", spec(cluster)).await;
        let status = world.says("b", "False/ApplyConflict", "the Release team/a").await;
        let message = condition(&status, "Ready")["message"].as_str().unwrap();
        assert!(
            message.contains("ConfigMap shared/common") && message.contains("Namespace shared"),
            "{message}"
        );
        // Neither gives way, however often they look.
        for at in ["1", "2"] {
            world.clock.jump(Duration::from_secs(400));
            world.asked("b", at).await;
            world.asked("a", &format!("{cluster}{at}")).await;
            assert_eq!(world.config_map("shared", "common").await, json!({"owner": "a"}));
        }
        world.delete(&world.releases(), "b").await;
        until("b is gone", || async { world.releases().get_opt("b").await.unwrap().is_none() }).await;
        assert_eq!(maps.get("common").await.unwrap().metadata.uid, uid);
        world.says("a", "True/Succeeded", "3 objects").await;
    }

    // One commit moves it. Whoever is to have it says so; while the first still wants it, it waits.
    let (of_a, of_b) = (rest, common("b"));
    world
        .convoy(
            "Release",
            json!({
                "metadata": {"name": "b", "annotations": {"convoy.kumodo.io/adopt": "true"}},
                "spec": {
                    "clusterRef": {"name": "here"}, "apply": {"wait": false}, "suspend": true,
                    "source": {"git": {"repositoryRef": {"name": "apps"}, "path": "b"}},
                },
            }),
        )
        .await;
    world.says("b", "False/Suspended", "").await;
    world.patch(&world.releases(), "a", json!({"spec": {"suspend": true}})).await;
    world.says("a", "False/Suspended", "").await;
    world.commit(&[("a/ns.yaml", namespace), ("a/rest.yaml", of_a), ("b/cm.yaml", &of_b)]);
    world.patch(&world.releases(), "b", json!({"spec": {"suspend": false}})).await;
    world.says("b", "True/Succeeded", "1 object").await;
    world.patch(&world.releases(), "a", json!({"spec": {"suspend": false}})).await;
    let status = world.says("a", "True/Succeeded", "2 objects").await;
    let applied = condition(&status, "Applied")["message"].as_str().unwrap();
    assert!(applied.contains("ConfigMap shared/common stays"), "{applied}");
    assert_eq!(maps.get("common").await.unwrap().metadata.uid, uid);
    assert_eq!(world.config_map("shared", "common").await, json!({"owner": "b"}));
    let inventories = world.inventories().list(&Default::default()).await.unwrap().items;
    let holders: Vec<String> = inventories
        .iter()
        .filter(|inventory| {
            let entries = inventory.data["spec"]["entries"].as_array().unwrap();
            entries.iter().any(|entry| entry["name"] == "common")
        })
        .filter_map(|inventory| inventory.metadata.name.clone())
        .collect();
    assert_eq!(holders, ["b.here"]);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_114_replicas_of_an_autoscaler_are_a_conflict_that_is_named_or_taken_back_or_left() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let fixed = deployment("web", "  replicas: 2\n", "", "");
    let free = deployment("web", "", "", "");
    let mut world = World::start(plane, &[("m/web.yaml", &fixed)]).await;
    for place in [here(&world), world.sandbox().await] {
        let name = place.cluster;
        world.commit(&[("m/web.yaml", &fixed)]);
        world.release(name, "m", place.release(json!({"apply": {"wait": false, "conflicts": "Fail"}}))).await;
        world.says(name, "True/Succeeded", "2 objects").await;
        let replicas =
            || async { place.deployments().get("web").await.unwrap().data["spec"]["replicas"].clone() };
        let scale = |count: i32| {
            let (deployments, patch) = (place.deployments(), json!({"spec": {"replicas": count}}));
            async move {
                let params = PatchParams { field_manager: Some("hpa".to_owned()), ..PatchParams::default() };
                deployments.patch_subresource("scale", "web", &params, &Patch::Merge(&patch)).await.unwrap()
            }
        };
        assert_eq!(replicas().await, 2);
        scale(5).await;
        // Nowhere the same: what the place before ended with would be no change here.
        let image = format!("web:{name}");
        let next = fixed.replace("web:1", &image);
        world.commit(&[("m/web.yaml", &next)]);
        let status = world.says(name, "False/ApplyConflict", ".spec.replicas").await;
        let message = condition(&status, "Ready")["message"].as_str().unwrap();
        assert!(message.contains("\"hpa\""), "{message}");
        // A sandbox does not name the subresource.
        assert!(message.contains("\"scale\"") || name == "sandbox", "{message}");
        assert_eq!(replicas().await, 5);

        // The manifest leaves it to the autoscaler: nothing but the image changes.
        world.commit(&[("m/web.yaml", &free.replace("web:1", &image))]);
        world.says(name, "True/Succeeded", "2 objects").await;
        assert_eq!(replicas().await, 5);

        // Or takes it back.
        world.commit(&[("m/web.yaml", &next)]);
        world.says(name, "False/ApplyConflict", ".spec.replicas").await;
        world.patch(&world.releases(), name, json!({"spec": {"apply": {"conflicts": "Force"}}})).await;
        world.says(name, "True/Succeeded", "2 objects").await;
        assert_eq!(replicas().await, 2);
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_123_kubeconfigs_are_taken_or_refused_with_the_reason() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let nothing = map("a", "1");
    let mut world = World::start(plane, &[("m/a.yaml", &nothing)]).await;
    let text = std::fs::read_to_string(world.plane.kubeconfig()).unwrap();
    let admin: Value = serde_json::from_str(&text).unwrap();
    let (cluster, user) = (admin["clusters"][0]["cluster"].clone(), admin["users"][0]["user"].clone());
    let config = |cluster: Value, user: Value| {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        })
    };
    let with = |object: &Value, more: Value| {
        let mut object = object.clone();
        object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        object
    };
    let token = json!({"token": "CANARY-TOKEN"});
    let mut two = config(cluster.clone(), user.clone());
    two["clusters"]
        .as_array_mut()
        .unwrap()
        .insert(0, json!({"name": "wrong", "cluster": {"server": "https://127.0.0.1:1"}}));
    two["users"].as_array_mut().unwrap().insert(0, json!({"name": "nobody", "user": token}));
    two["contexts"]
        .as_array_mut()
        .unwrap()
        .insert(0, json!({"name": "a", "context": {"cluster": "wrong", "user": "nobody"}}));
    let mut none = config(cluster.clone(), token.clone());
    none.as_object_mut().unwrap().remove("current-context");
    let ghost = json!({"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": [], "current-context": "ghost"});
    let owned = world.folder.path().join("owned");
    let exec = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": [owned], "interactiveMode": "Never",
    }});
    let provider = json!({"auth-provider": {"name": "oidc", "config": {"cmd-path": "/bin/sh"}}});
    // Any other authority: that of another control plane would take long to make.
    let wrong = user["client-certificate-data"].clone();
    let mut unknown = config(with(&cluster, json!({"future": 1})), user.clone());
    unknown["preferences"] = json!({});
    let cases = [
        ("two-contexts", two, "True"),
        ("no-current-context", none, "current-context"),
        ("ghost", ghost, "\"ghost\""),
        ("exec", config(cluster.clone(), exec), "exec"),
        ("auth-provider", config(cluster.clone(), provider), "auth-provider"),
        (
            "ca-file",
            config(
                json!({"server": cluster["server"], "certificate-authority": "/etc/hostname"}),
                token.clone(),
            ),
            "certificate-authority",
        ),
        ("token-file", config(cluster.clone(), json!({"tokenFile": "/etc/hostname"})), "tokenFile"),
        (
            "insecure",
            config(json!({"server": cluster["server"], "insecure-skip-tls-verify": true}), token.clone()),
            "insecure-skip-tls-verify",
        ),
        (
            "wrong-ca",
            config(with(&cluster, json!({"certificate-authority-data": wrong})), token.clone()),
            "certificate",
        ),
        (
            "server-name",
            config(with(&cluster, json!({"tls-server-name": "kubernetes.default.svc"})), user.clone()),
            "True",
        ),
        (
            "proxy",
            config(with(&cluster, json!({"proxy-url": "http://169.254.169.254:80"})), token.clone()),
            "proxy-url",
        ),
        (
            "impersonate",
            config(
                cluster.clone(),
                with(&user, json!({"as": "system:admin", "as-groups": ["system:masters"]})),
            ),
            "users[u].as",
        ),
        ("unknown", unknown, "True"),
        ("metadata", config(json!({"server": "http://169.254.169.254/latest"}), json!({})), "http"),
        (
            "link-local",
            config(with(&cluster, json!({"server": "https://169.254.169.254"})), token.clone()),
            "169.254.169.254",
        ),
        (
            "base64",
            config(json!({"server": cluster["server"], "certificate-authority-data": "!!!"}), token.clone()),
            "base64",
        ),
    ];
    for (name, kubeconfig, _) in &cases {
        world.cluster(name, &kubeconfig.to_string()).await;
    }
    let clusters = world.api(convoy_api::API_VERSION, "Cluster", "clusters", Some(NAMESPACE));
    for (name, _, wanted) in &cases {
        let mut said = String::new();
        let found = until_some(|| async {
            let status = clusters.get(name).await.unwrap().data["status"].clone();
            let ready = condition(&status, "Ready");
            (!ready.is_null()).then(|| ready.clone())
        })
        .await;
        said.push_str(&found.to_string());
        if *wanted == "True" {
            until(&format!("{name} is Ready"), || async {
                condition(&clusters.get(name).await.unwrap().data["status"], "Ready")["status"] == "True"
            })
            .await;
        } else {
            assert_eq!(found["status"], "False", "{name}: {said}");
            assert!(found["message"].as_str().unwrap().contains(wanted), "{name}: {said}");
        }
        assert!(!said.contains("CANARY"), "{name}: {said}");
    }
    assert!(!owned.exists(), "a program was run");
    let hostname = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    let events = world.api("v1", "Event", "events", Some(NAMESPACE)).list(&Default::default()).await.unwrap();
    let all = clusters.list(&Default::default()).await.unwrap();
    let told = format!(
        "{}{}",
        serde_json::to_string(&events.items).unwrap(),
        serde_json::to_string(&all.items).unwrap()
    );
    assert!(!told.contains("CANARY"));
    assert!(hostname.trim().is_empty() || !told.contains(&format!("\"{}\"", hostname.trim())));
    world.stop().await;
}

async fn until_some<T, F: Future<Output = Option<T>>>(mut look: impl FnMut() -> F) -> T {
    let deadline = tokio::time::Instant::now() + support::PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < deadline, "not in time");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn case_125_what_an_identity_may_not_do_is_said_in_the_servers_words_and_nothing_is_half_applied() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let (first, second) = (map("a", "1"), map("b", "1"));
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: CANARY-125}\n";
    let files = [("m/a.yaml", first.as_str()), ("m/b.yaml", second.as_str()), ("m/s.yaml", secret)];
    let mut world = World::start(plane, &files).await;
    for namespace in ["web"] {
        world.create("v1", "Namespace", "namespaces", json!({"metadata": {"name": namespace}})).await;
    }
    world.create("v1", "ServiceAccount", "serviceaccounts", json!({"metadata": {"name": "deployer"}})).await;
    let accounts = world.api("v1", "ServiceAccount", "serviceaccounts", Some(NAMESPACE));
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}});
    let answer: Value =
        accounts.create_subresource("token", "deployer", &PostParams::default(), &request).await.unwrap();
    let mut kubeconfig: Value =
        serde_json::from_str(&std::fs::read_to_string(world.plane.kubeconfig()).unwrap()).unwrap();
    kubeconfig["users"][0]["user"] = json!({"token": answer["status"]["token"]});
    world.cluster("limited", &kubeconfig.to_string()).await;
    let place = Place { cluster: "limited", client: world.client.clone(), _sandbox: None };
    world.release("m", "m", place.release(json!({"createNamespace": false}))).await;

    let roles = world.api("rbac.authorization.k8s.io/v1", "Role", "roles", Some("web"));
    let allow = |verbs: Value, resources: Value| {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "deployer"},
            "rules": [{"apiGroups": [""], "resources": resources, "verbs": verbs}],
        });
        let (roles, params) = (roles.clone(), PatchParams::apply("test").force());
        async move { roles.patch("deployer", &params, &Patch::Apply(&role)).await.unwrap() }
    };
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "deployer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deployer"},
        "subjects": [{"kind": "ServiceAccount", "name": "deployer", "namespace": NAMESPACE}],
    });
    let bindings = world.api("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", Some("web"));
    let who = "User \"system:serviceaccount:team:deployer\" cannot";
    let denied = |verb: &str, resource: &str| {
        format!("{who} {verb} resource \"{resource}\" in API group \"\" in the namespace \"web\"")
    };
    // It may do nothing.
    world.says("m", "False/ApplyRejected", who).await;
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
    let both = json!(["configmaps", "secrets"]);
    for (number, (verbs, resources, words)) in [
        (json!(["get", "patch"]), json!(["configmaps"]), denied("get", "secrets")),
        (json!(["get"]), both.clone(), denied("patch", "secrets")),
        (json!(["get", "patch"]), both.clone(), denied("create", "secrets")),
    ]
    .into_iter()
    .enumerate()
    {
        allow(verbs, resources).await;
        let tried = world.writes_into("web").len();
        world.asked("m", &format!("{number}")).await;
        world.says("m", "False/ApplyRejected", &words).await;
        // The first object tells: no other is tried, and none is there.
        let writes = world.writes_into("web");
        assert!(writes.len() <= tried + 1, "{writes:?}");
        for name in ["a", "b"] {
            assert_eq!(world.config_map("web", name).await, Value::Null);
        }
        // Somebody has to act: it is tried again slowly.
        world.clock.jump(Duration::from_secs(15));
        world
            .patch(&world.releases(), "m", json!({"metadata": {"labels": {"look": format!("{number}")}}}))
            .await;
        let status = world.says("m", "False/ApplyRejected", &words).await;
        assert!(world.writes_into("web").len() <= writes.len(), "{status:#}");
    }
    allow(json!(["get", "patch", "create"]), both).await;
    world.clock.jump(Duration::from_secs(301));
    world.says("m", "True/Succeeded", "3 objects").await;
    assert_eq!(world.config_map("web", "b").await, json!({"value": "1"}));
    let events = world.api("v1", "Event", "events", Some(NAMESPACE)).list(&Default::default()).await.unwrap();
    let status = world.releases().get("m").await.unwrap();
    let told = format!(
        "{}{}",
        serde_json::to_string(&events.items).unwrap(),
        serde_json::to_string(&status).unwrap()
    );
    assert!(!told.contains("CANARY-125"));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_125_a_release_acts_as_its_service_account_in_all_that_it_does() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let hook = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: hook\n  annotations: {helm.sh/hook: \"pre-install,pre-upgrade\"}\n";
    let (first, second) = (map("a", "1"), map("b", "1"));
    let chart = "apiVersion: v2\nname: m\nversion: 1.0.0\n";
    let files = [
        ("m/Chart.yaml", chart),
        ("m/templates/a.yaml", first.as_str()),
        ("m/templates/b.yaml", second.as_str()),
        ("m/templates/hook.yaml", hook),
    ];
    let mut world = World::start(plane, &files).await;
    let places = [here(&world), world.sandbox().await];
    for place in &places {
        acts_as_its_account(&mut world, place, &files).await;
    }

    let log = std::fs::read_to_string(world.plane.audit_log()).unwrap();
    let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_convoy = events.filter(|event| {
        event["userAgent"].as_str().is_some_and(|agent| agent.starts_with("convoy-controller-manager"))
            && event["requestURI"].as_str().is_some_and(|uri| uri.contains("/namespaces/web/"))
    });
    let mut verbs = std::collections::BTreeSet::new();
    for event in of_convoy {
        let user = event["impersonatedUser"]["username"].as_str().unwrap_or_default();
        assert!(user.starts_with("system:serviceaccount:team:"), "{event:#}");
        verbs.insert(event["verb"].as_str().unwrap().to_owned());
    }
    assert!(["get", "patch", "delete"].iter().all(|verb| verbs.contains(*verb)), "{verbs:?}");
    world.stop().await;
}

/// Both as the service account that the Release names, and as the one that the Cluster does.
async fn acts_as_its_account(world: &mut World, place: &Place, files: &[(&str, &str)]) {
    let (name, other) = (format!("m-{}", place.cluster), format!("n-{}", place.cluster));
    let (name, other) = (name.as_str(), other.as_str());
    let create = |api_version: &'static str, kind: &'static str, plural: &'static str, object: Value| {
        let api = place.api(api_version, kind, plural, Some("web").filter(|_| kind != "Namespace"));
        async move { api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap() }
    };
    let text = |name: &'static str| place.text("web", name);
    world.commit(files);
    create(
        "v1",
        "Namespace",
        "namespaces",
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}}),
    )
    .await;
    let spec = json!({"createNamespace": false, "serviceAccountName": "deployer"});
    world.release(name, "m", place.release(spec)).await;
    // The Cluster's own identity may do anything, and that does not help the Release.
    world.says(name, "False/ApplyRejected", "User \"system:serviceaccount:team:deployer\" cannot").await;
    assert_eq!(text("a").await, Value::Null);

    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "deployer"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "patch", "create", "delete"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "deployer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deployer"},
        "subjects": [{"kind": "ServiceAccount", "name": "deployer", "namespace": NAMESPACE}],
    });
    for (kind, plural, object) in [("Role", "roles", role), ("RoleBinding", "rolebindings", binding)] {
        create("rbac.authorization.k8s.io/v1", kind, plural, object).await;
    }
    world.asked(name, "allowed").await;
    world.says(name, "True/Succeeded", "2 objects").await;
    assert_eq!(text("b").await, json!({"value": "1"}));

    // A prune, an apply of what seems to be right, and the end of the Release.
    let fewer: Vec<(&str, &str)> =
        files.iter().copied().filter(|(path, _)| !path.ends_with("b.yaml")).collect();
    world.commit(&fewer);
    until("b is pruned", || async { text("b").await == Value::Null }).await;
    world.says(name, "True/Succeeded", "1 object").await;
    place.maps("web").delete("a", &Default::default()).await.unwrap();
    let force = json!({"metadata": {"annotations": {"convoy.kumodo.io/force-at": "now"}}});
    world.patch(&world.releases(), name, force).await;
    until("a is made again", || async { text("a").await != Value::Null }).await;
    world.releases().delete(name, &Default::default()).await.unwrap();
    until("the Release is gone", || async { world.releases().get_opt(name).await.unwrap().is_none() }).await;
    assert_eq!(text("a").await, Value::Null);

    // A Cluster says as whom those act that name nobody.
    let clusters = world.api(convoy_api::API_VERSION, "Cluster", "clusters", Some(NAMESPACE));
    world.patch(&clusters, place.cluster, json!({"spec": {"serviceAccountName": "nobody"}})).await;
    world.release(other, "m", place.release(json!({"createNamespace": false}))).await;
    world.says(other, "False/ApplyRejected", "User \"system:serviceaccount:team:nobody\" cannot").await;
}
