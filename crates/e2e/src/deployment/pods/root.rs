//! The folder that a pod's process takes for `/`, and what is mounted there.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use super::Shared;

/// Where the container's program is.
pub(super) const PROGRAM: &str = "/program";
/// Where a ServiceAccount's token is.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Makes the root of a pod out of `$1`, with the mounts that its file `mounts` lists, and becomes the program: as user `$2`, with the
/// environment before `--`. Nothing of it is seen outside of this process's own mounts.
pub(super) const ENTER: &str = r#"
set -e
pod=$1; user=$2; shift 2
root=$pod/root
mount --bind "$root" "$root"
for system in usr lib lib64 bin dev proc; do
  [ -d /$system ] || continue
  mount --rbind /$system "$root/$system"
done
while read -r mode from to; do
  mount --bind "$from" "$root$to"
  [ "$mode" = rw ] || mount -o remount,bind,ro "$root$to"
done < "$pod/mounts"
mount -o remount,bind,ro "$root"
# The variables stand before --.
set -f
IFS='
'
variables=
while [ "$1" != -- ]; do
  variables="$variables$1
"
  shift
done
shift
exec env -i $variables /usr/sbin/chroot --userspec="$user" "$root" "$@"
"#;

/// Writes names of Services where the pod's programs look for them.
pub(super) fn write_hosts(pod: &Path, hosts: &str) {
    let path = pod.join("root/etc/hosts");
    if path.exists() && fs::read_to_string(&path).is_ok_and(|written| written != hosts) {
        let _ = fs::write(path, hosts);
    }
}

/// `uid:gid` of the container's process.
pub(super) fn user(object: &Value) -> String {
    let number = |field: &str| object["spec"]["securityContext"][field].as_u64().unwrap_or(0);
    format!("{}:{}", number("runAsUser"), number("runAsGroup"))
}

/// Makes the folder of a pod, with all that is mounted in it.
pub(super) fn prepare(
    shared: &Shared,
    object: &Value,
    pod: &Path,
    program: &Path,
    hosts: &str,
) -> Result<(), String> {
    let said = |error: std::io::Error| error.to_string();
    let root = pod.join("root");
    for folder in ["usr", "lib", "lib64", "bin", "dev", "proc", "etc"] {
        fs::create_dir_all(root.join(folder)).map_err(said)?;
    }
    fs::create_dir_all(shared.folder.path().join("logs")).map_err(said)?;
    fs::write(root.join("etc/hosts"), hosts).map_err(said)?;
    fs::write(root.join("etc/nsswitch.conf"), "hosts: files\n").map_err(said)?;
    fs::write(root.join("program"), "").map_err(said)?;
    let mut mounts = format!("ro {} {PROGRAM}\n", program.display());

    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let group =
        object["spec"]["securityContext"]["fsGroup"].as_u64().and_then(|group| u32::try_from(group).ok());
    let container = &object["spec"]["containers"][0];
    for mount in container["volumeMounts"].as_array().into_iter().flatten() {
        let name = mount["name"].as_str().unwrap_or_default();
        let volumes = object["spec"]["volumes"].as_array().into_iter().flatten();
        let volume = volumes.clone().find(|volume| volume["name"] == name);
        let volume = volume.ok_or_else(|| format!("there is no volume {name}"))?;
        let from = if let Some(claim) = volume["persistentVolumeClaim"]["claimName"].as_str() {
            // One folder for all who mount it.
            shared.folder.path().join("claims").join(claim)
        } else {
            pod.join("volumes").join(name)
        };
        fs::create_dir_all(&from).map_err(said)?;
        for (file, content) in volume_files(shared, namespace, object, volume)? {
            fs::write(from.join(&file), content).map_err(said)?;
            fs::set_permissions(from.join(&file), fs::Permissions::from_mode(0o440)).map_err(said)?;
            chown(from.join(&file), Some(0), group).map_err(said)?;
        }
        chown(&from, Some(0), group).map_err(said)?;
        fs::set_permissions(&from, fs::Permissions::from_mode(0o2775)).map_err(said)?;
        let to = mount["mountPath"].as_str().unwrap_or_default();
        fs::create_dir_all(root.join(to.trim_start_matches('/'))).map_err(said)?;
        let is_written =
            mount["readOnly"] != true && volume.get("secret").is_none() && volume.get("projected").is_none();
        mounts.push_str(&format!("{} {} {to}\n", if is_written { "rw" } else { "ro" }, from.display()));
    }
    fs::write(pod.join("mounts"), mounts).map_err(said)
}

/// What the files of a volume are; none of one that begins empty.
fn volume_files(
    shared: &Shared,
    namespace: &str,
    object: &Value,
    volume: &Value,
) -> Result<Vec<(String, Vec<u8>)>, String> {
    if let Some(name) = volume["secret"]["secretName"].as_str() {
        let secret = get(shared, &format!("/api/v1/namespaces/{namespace}/secrets/{name}"))?;
        let data = secret["data"].as_object().into_iter().flatten();
        return data
            .map(|(key, value)| {
                let content = BASE64.decode(value.as_str().unwrap_or_default());
                content.map(|content| (key.clone(), content)).map_err(|error| error.to_string())
            })
            .collect();
    }
    if let Some(name) = volume["configMap"]["name"].as_str() {
        let is_optional = volume["configMap"]["optional"] == true;
        let map = match get(shared, &format!("/api/v1/namespaces/{namespace}/configmaps/{name}")) {
            Err(_) if is_optional => return Ok(Vec::new()),
            found => found?,
        };
        let data = map["data"].as_object().into_iter().flatten();
        return Ok(data.map(|(key, text)| (key.clone(), text.as_str().unwrap_or_default().into())).collect());
    }
    if volume.get("projected").is_some() {
        return account(shared, namespace, object);
    }
    if volume.get("emptyDir").is_some() || volume.get("persistentVolumeClaim").is_some() {
        return Ok(Vec::new());
    }
    Err(format!("a volume of an unknown kind: {volume}"))
}

/// What the API server's own admission mounts at [`ACCOUNT`]: a token of the pod's ServiceAccount, the CA, the namespace.
fn account(shared: &Shared, namespace: &str, object: &Value) -> Result<Vec<(String, Vec<u8>)>, String> {
    let name = object["spec"]["serviceAccountName"].as_str().unwrap_or("default");
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600, "boundObjectRef": {
            "apiVersion": "v1", "kind": "Pod", "name": object["metadata"]["name"], "uid": object["metadata"]["uid"],
        }},
    });
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
    let answer =
        shared.client.send("POST", &path, "application/json", &request).map_err(|error| error.to_string())?;
    let token = answer.json()["status"]["token"].as_str().map(str::to_owned);
    let token = token.ok_or_else(|| format!("no token for {ACCOUNT}: {}", answer.text()))?;
    Ok(vec![
        ("token".to_owned(), token.into_bytes()),
        ("ca.crt".to_owned(), shared.authority.clone().into_bytes()),
        ("namespace".to_owned(), namespace.as_bytes().to_vec()),
    ])
}

fn get(shared: &Shared, path: &str) -> Result<Value, String> {
    let answer = shared.client.get(path).map_err(|error| error.to_string())?;
    if answer.status == 200 { Ok(answer.json()) } else { Err(format!("{path}: {}", answer.status)) }
}
