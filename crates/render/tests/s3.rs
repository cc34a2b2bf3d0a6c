//! A render store in a bucket of a real S3 server, and what becomes of it when the server is away, slow or refuses.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytes::Bytes;
use convoy_api::Artifact;
use convoy_render::{References, RenderStore, S3Options, StoreError};
use convoy_testkit::{Authority, FaultyLink, LinkMode, S3Server, WebAnswer, WebServer};

const URL: &str = "s3://bucket/convoy";

fn artifact(text: &str) -> Artifact {
    Artifact::new("r", BTreeMap::from([("a".to_owned(), Bytes::copy_from_slice(text.as_bytes()))]))
}

fn options(endpoint: String) -> S3Options {
    S3Options { endpoint: Some(endpoint), allow_http: true, ..S3Options::default() }
}

fn as_user(options: S3Options) -> S3Options {
    options.with_environment(|name| match name {
        "AWS_ACCESS_KEY_ID" => Some(S3Server::KEY.to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some(S3Server::SECRET.to_owned()),
        _ => None,
    })
}

/// An error with its causes; nothing of the credentials may be in it.
fn said(error: &StoreError) -> String {
    let mut text = format!("{error} {error:?}");
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    assert!(!text.contains("CANARY") && !text.contains("Signature="), "{text}");
    text
}

/// A server that says the same to everybody.
fn answering(answer: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let _ = connection.read(&mut [0; 4096]);
            let _ = connection.write_all(answer.as_bytes());
        }
    });
    address
}

#[tokio::test]
async fn two_replicas_share_a_bucket_and_its_other_prefixes_are_left_alone() {
    let Some(server) = S3Server::start_or_leave_out("bucket").unwrap() else { return };
    let open = |url: &str| RenderStore::open(url, &as_user(options(server.endpoint()))).unwrap();
    let (one, other, elsewhere) = (open(URL), open(URL), open("s3://bucket/elsewhere"));
    let artifact = artifact("x");
    one.put_artifact(&artifact).await.unwrap();
    elsewhere.put_artifact(&artifact).await.unwrap();
    assert_eq!(other.artifact(artifact.digest(), "r").await.unwrap(), Some(artifact.clone()));
    let (mine, theirs) = tokio::join!(one.seed([1; 32]), other.seed([2; 32]));
    assert_eq!(mine.unwrap(), theirs.unwrap());
    for _ in 0..2 {
        one.collect(References::default(), Duration::ZERO, &|| true).await.unwrap();
    }
    assert!(!other.has_artifact(artifact.digest()).await.unwrap());
    assert!(elsewhere.has_artifact(artifact.digest()).await.unwrap());
}

#[tokio::test]
async fn more_than_a_page_of_objects_is_listed() {
    let Some(server) = S3Server::start_or_leave_out("bucket").unwrap() else { return };
    let store = RenderStore::open(URL, &as_user(options(server.endpoint()))).unwrap();
    // A page has 1,000.
    let folder = server.file("bucket", "convoy/artifacts");
    std::fs::create_dir_all(&folder).unwrap();
    for number in 0..1100 {
        std::fs::write(folder.join(format!("{number:064x}")), "x").unwrap();
    }
    let collected = store.collect(References::default(), Duration::from_secs(3600), &|| true).await.unwrap();
    assert_eq!(collected.kept, 1100);
}

#[tokio::test]
async fn tls_is_checked_by_the_ca_file() {
    let authority = Authority::new("ca").unwrap();
    let identity = authority.server(&["127.0.0.1"]).unwrap();
    let server =
        S3Server::start_with_tls_or_leave_out("bucket", &identity.certificate, &identity.key).unwrap();
    let Some(server) = server else { return };
    let ca_file = server.folder().join("ca.crt");
    std::fs::write(&ca_file, authority.certificate()).unwrap();
    let open = |ca_file: Option<PathBuf>| {
        let options = S3Options { endpoint: Some(server.endpoint()), ca_file, ..S3Options::default() };
        RenderStore::open(URL, &as_user(options)).unwrap()
    };
    let trusting = open(Some(ca_file));
    trusting.put_artifact(&artifact("x")).await.unwrap();
    assert!(trusting.has_artifact(artifact("x").digest()).await.unwrap());
    let refused = open(None).put_artifact(&artifact("x")).await.unwrap_err();
    assert!(said(&refused).contains("invalid peer certificate"), "{}", said(&refused));
}

#[tokio::test]
async fn credentials_in_a_file_are_read_anew() {
    let Some(server) = S3Server::start_or_leave_out("bucket").unwrap() else { return };
    let file = server.folder().join("credentials");
    let write = |secret: &str| {
        let text =
            format!("[default]\naws_access_key_id = {}\naws_secret_access_key = {secret}\n", S3Server::KEY);
        std::fs::write(&file, text).unwrap();
    };
    write("CANARY-wrong");
    let given = S3Options { credentials_file: Some(file.clone()), ..options(server.endpoint()) };
    let store = RenderStore::open(URL, &given).unwrap();
    let refused = store.put_artifact(&artifact("x")).await.unwrap_err();
    assert!(said(&refused).contains("SignatureDoesNotMatch"), "{}", said(&refused));
    write(S3Server::SECRET);
    store.put_artifact(&artifact("x")).await.unwrap();
    std::fs::remove_file(&file).unwrap();
    let missing = store.put_artifact(&artifact("x")).await.unwrap_err();
    assert!(said(&missing).contains("cannot read the credentials file"), "{}", said(&missing));
}

/// Options whose environment says nothing but this.
fn with_variables(options: S3Options, variables: &[(&str, String)]) -> S3Options {
    let value =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
    options.with_environment(value)
}

/// What this server says to credentials that are right but for their token: it knows none, so that it shows that the token
/// came along.
const SHOWN: &str = "400 Bad Request: InvalidToken";

/// Role credentials as AWS's services hand them out.
fn handed_out(form: &str) -> String {
    form.replace("ID", S3Server::KEY).replace("SECRET", S3Server::SECRET)
}

#[tokio::test]
async fn a_pod_gets_its_credentials_from_the_agent_of_its_node() {
    let Some(server) = S3Server::start_or_leave_out("bucket").unwrap() else { return };
    let answer = handed_out(
        r#"{"AccessKeyId":"ID","SecretAccessKey":"SECRET","Token":"CANARY","Expiration":"2099-01-01T00:00:00Z"}"#,
    );
    let agent = WebServer::start(move |request| match request.header("authorization") {
        Some("of the pod") => WebAnswer::ok(answer.clone()),
        _ => WebAnswer::status(401),
    })
    .unwrap();
    let token = server.folder().join("token");
    std::fs::write(&token, "of the pod").unwrap();
    let variables = [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", agent.url("/v1/credentials")),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.display().to_string()),
    ];
    let store = RenderStore::open(URL, &with_variables(options(server.endpoint()), &variables)).unwrap();
    let shown = store.put_artifact(&artifact("x")).await.unwrap_err();
    assert!(said(&shown).contains(SHOWN), "{}", said(&shown));
    std::fs::write(&token, "CANARY").unwrap();
    let store = RenderStore::open(URL, &with_variables(options(server.endpoint()), &variables)).unwrap();
    let refused = store.put_artifact(&artifact("x")).await.unwrap_err();
    assert!(said(&refused).contains("401"), "{}", said(&refused));
}

#[tokio::test]
async fn a_service_account_takes_on_a_role_by_its_token() {
    let Some(server) = S3Server::start_or_leave_out("bucket").unwrap() else { return };
    let authority = Authority::new("ca").unwrap();
    let answer = handed_out(
        "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ID</AccessKeyId><SecretAccessKey>SECRET</SecretAccessKey><SessionToken>CANARY</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>",
    );
    let identity = authority.server(&["localhost"]).unwrap();
    let sts = WebServer::start_tls(&identity, None, move |request| {
        let asks = |what: &str| request.path.contains(what);
        if asks("WebIdentityToken=CANARY") && asks("RoleArn=role") {
            return WebAnswer::ok(answer.clone());
        }
        let words =
            format!("<Error><Code>InvalidIdentityToken</Code><Message>no</Message>{}</Error>", request.path);
        WebAnswer { body: words.into_bytes(), ..WebAnswer::status(400) }
    })
    .unwrap();
    let (token, ca_file) = (server.folder().join("token"), server.folder().join("ca.crt"));
    std::fs::write(&token, "CANARY").unwrap();
    std::fs::write(&ca_file, authority.certificate()).unwrap();
    let open = |role: &str| {
        let variables = [
            ("AWS_ENDPOINT_URL_STS", sts.https_url("")),
            ("AWS_WEB_IDENTITY_TOKEN_FILE", token.display().to_string()),
            ("AWS_ROLE_ARN", role.to_owned()),
        ];
        let options = S3Options { ca_file: Some(ca_file.clone()), ..options(server.endpoint()) };
        RenderStore::open(URL, &with_variables(options, &variables)).unwrap()
    };
    let shown = open("role").put_artifact(&artifact("x")).await.unwrap_err();
    assert!(said(&shown).contains(SHOWN), "{}", said(&shown));
    let refused = open("other").put_artifact(&artifact("x")).await.unwrap_err();
    assert!(said(&refused).contains("InvalidIdentityToken"), "{}", said(&refused));
}

#[tokio::test]
async fn a_missing_bucket_and_refused_access_are_said_and_are_no_missing_objects() {
    let Some(server) = S3Server::start_or_leave_out("bucket").unwrap() else { return };
    let digest = artifact("x").digest().to_owned();
    let open = |url: &str, options| RenderStore::open(url, &options).unwrap();
    let nowhere = open("s3://nowhere/convoy", as_user(options(server.endpoint())));
    for error in [
        nowhere.put_artifact(&artifact("x")).await.unwrap_err(),
        nowhere.collect(References::default(), Duration::ZERO, &|| true).await.unwrap_err(),
    ] {
        assert!(said(&error).contains("NoSuchBucket"), "{}", said(&error));
    }
    // This server says NoSuchKey to a read in a bucket that is not there; AWS says what is so.
    let words = "<Error><Code>NoSuchBucket</Code></Error>";
    let address =
        answering(format!("HTTP/1.1 404 Not Found\r\nContent-Length: {}\r\n\r\n{words}", words.len()));
    let nowhere = open(URL, as_user(options(format!("http://{address}"))));
    assert!(said(&nowhere.artifact(&digest, "r").await.unwrap_err()).contains("NoSuchBucket"));
    let keys = |id: &'static str| {
        options(server.endpoint()).with_environment(move |name| match name {
            "AWS_ACCESS_KEY_ID" => Some(id.to_owned()),
            "AWS_SECRET_ACCESS_KEY" => Some("CANARY".to_owned()),
            _ => None,
        })
    };
    for (user, words) in
        [("nobody", "the server says 404 and"), (S3Server::KEY, "403 Forbidden: SignatureDoesNotMatch")]
    {
        let store = open(URL, keys(user));
        let put = store.put_artifact(&artifact("x")).await.unwrap_err();
        let read = store.artifact(&digest, "r").await.unwrap_err();
        assert!(said(&put).contains(words) && said(&read).contains(words), "{} {}", said(&put), said(&read));
    }
    assert!(open(URL, keys(S3Server::KEY)).has_artifact(&digest).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_is_tried_again_and_then_said_to_be_away() {
    let Some(server) = S3Server::start_or_leave_out("bucket").unwrap() else { return };
    let link = FaultyLink::to(server.address()).unwrap();
    let store = RenderStore::open(URL, &as_user(options(format!("http://{}", link.address())))).unwrap();
    store.put_artifact(&artifact("x")).await.unwrap();
    let read = async || store.artifact(artifact("x").digest(), "r").await;

    for (mode, words) in
        [(LinkMode::Refuse, "cannot reach 127.0.0.1"), (LinkMode::Error, "500 Internal Server")]
    {
        link.set(mode);
        let began = Instant::now();
        let (first, second) = (read().await.unwrap_err(), read().await.unwrap_err());
        assert!(said(&first).contains(words), "{}", said(&first));
        assert_eq!(said(&first), said(&second), "a message that changes would be written each time");
        let took = began.elapsed();
        assert!(took > Duration::from_millis(200) && took < Duration::from_secs(60), "{mode:?}: {took:?}");
    }

    // What ends while it is tried again is not noticed.
    link.set(LinkMode::Refuse);
    let (read, ()) = tokio::join!(read(), async { link.set(LinkMode::Good) });
    assert_eq!(read.unwrap(), Some(artifact("x")));
}

#[tokio::test]
async fn an_answer_that_never_comes_is_waited_for_for_a_bounded_time() {
    // Takes connections, and what is sent, and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            std::thread::spawn(move || std::io::copy(&mut (&connection), &mut std::io::sink()));
        }
    });
    let store = RenderStore::open(URL, &as_user(options(format!("http://{address}")))).unwrap();
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let error = store.has_artifact(artifact("x").digest()).await.unwrap_err();
    assert!(said(&error).contains("did not answer in time"), "{}", said(&error));
    assert!(began.elapsed() < Duration::from_secs(150), "{:?}", began.elapsed());
}

#[tokio::test]
async fn an_object_that_is_too_large_is_not_read() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 9000000000\r\nETag: \"x\"\r\nLast-Modified: Tue, 01 Dec 2026 00:00:00 GMT\r\n\r\n";
    let address = answering(head.to_owned());
    let store = RenderStore::open(URL, &as_user(options(format!("http://{address}")))).unwrap();
    let error = store.bundle(artifact("x").digest()).await.unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{}", said(&error));
}
