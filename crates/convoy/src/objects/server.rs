//! The API server that holds convoy's objects, as a person's command uses it.

use std::path::PathBuf;

use anyhow::Context as _;
use convoy_api::{API_VERSION, GROUP, KindInfo, Release, Scope, VERSION, field_manager};
use convoy_meta::{Table, TableRow};
use convoy_runtime::{ProcessIdentity, context_client};
use k8s_openapi::api::core::v1::Event;
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::Value;

use super::Misuse;
use super::arguments::Selection;
use super::what::{Wanted, shown};
use crate::arguments::Connection;

/// What the API server is asked to print: a table with the columns that it has for a kind.
const AS_TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// Objects in one request.
const PAGE: u32 = 500;

/// The API server, a namespace, and a choice of objects in it.
pub(super) struct Server {
    pub(super) client: Client,
    /// None for all.
    pub(super) namespace: Option<String>,
    selector: Option<String>,
}

impl Server {
    pub(super) async fn select(selection: &Selection) -> anyhow::Result<Self> {
        let mut server = Self::connect(&selection.connection).await?;
        if selection.all_namespaces {
            server.namespace = None;
        }
        server.selector.clone_from(&selection.selector);
        Ok(server)
    }

    pub(super) async fn connect(connection: &Connection) -> anyhow::Result<Self> {
        let identity = ProcessIdentity { process: "cli", replica_id: "cli".to_owned() };
        // As kubectl does when it is told nothing.
        let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".kube/config"));
        let kubeconfig = connection.kubeconfig.clone().or_else(|| home().filter(|path| path.exists()));
        let client = context_client(kubeconfig.as_deref(), connection.context.as_deref(), &identity)
            .await
            .context("connecting to the API server")?;
        let namespace = connection.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
        Ok(Self { client, namespace: Some(namespace), selector: None })
    }

    /// Objects are named, or chosen by labels, or all: not two of these.
    pub(super) fn check(&self, wanted: &[Wanted], may_be_all: bool) -> Result<(), Misuse> {
        let has_names = wanted.iter().any(|wanted| !wanted.names.is_empty());
        match (has_names, &self.selector) {
            (true, Some(_)) => Err(Misuse("give names or --selector, not both".to_owned())),
            (true, None) if self.namespace.is_none() => {
                Err(Misuse("a name stands for one object: give --namespace, not --all-namespaces".to_owned()))
            }
            (false, None) if !may_be_all => {
                Err(Misuse("give the names of the objects, or --selector".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// The API of a kind, in the namespace that was asked for.
    pub(super) fn api(&self, info: &KindInfo) -> Api<DynamicObject> {
        match self.namespace.as_ref().filter(|_| info.scope == Scope::Namespaced) {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource(info)),
            None => Api::all_with(self.client.clone(), &resource(info)),
        }
    }

    /// The API of a kind, in the namespace of an object.
    pub(super) fn api_beside(&self, info: &KindInfo, object: &DynamicObject) -> Api<DynamicObject> {
        match object.metadata.namespace.as_deref() {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource(info)),
            None => Api::all_with(self.client.clone(), &resource(info)),
        }
    }

    /// Objects of all namespaces.
    pub(super) fn api_everywhere(&self, info: &KindInfo) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &resource(info))
    }

    /// What to list or watch.
    pub(super) fn params(&self) -> ListParams {
        let params = ListParams::default().limit(PAGE);
        self.selector.as_ref().map_or_else(|| params.clone(), |selector| params.clone().labels(selector))
    }

    /// The objects that are wanted. What is not there is said on standard error, and makes the second answer
    /// false.
    pub(super) async fn objects(&self, wanted: &Wanted) -> anyhow::Result<(Vec<DynamicObject>, bool)> {
        let api = self.api(&wanted.info);
        let (mut objects, mut is_all) = (Vec::new(), true);
        for name in &wanted.names {
            let found = api.get_opt(name).await;
            match found.with_context(|| format!("reading {}", shown(&wanted.info, name)))? {
                Some(object) => objects.push(object),
                None => {
                    is_all = false;
                    not_found(&wanted.info, name);
                }
            }
        }
        if wanted.names.is_empty() {
            let mut params = self.params();
            loop {
                let page =
                    api.list(&params).await.with_context(|| format!("listing {}", wanted.info.plural))?;
                objects.extend(page.items);
                match page.metadata.continue_.filter(|token| !token.is_empty()) {
                    Some(token) => params = params.continue_token(&token),
                    None => break,
                }
            }
        }
        // A list does not say in each object what it is.
        for object in &mut objects {
            object.types = Some(kube::api::TypeMeta {
                api_version: API_VERSION.to_owned(),
                kind: wanted.info.kind.to_owned(),
            });
        }
        Ok((objects, is_all))
    }

    /// The same as the API server prints it.
    pub(super) async fn table(&self, wanted: &Wanted) -> anyhow::Result<(Table, bool)> {
        let base = match &self.namespace {
            Some(namespace) => format!("/apis/{API_VERSION}/namespaces/{namespace}/{}", wanted.info.plural),
            None => format!("/apis/{API_VERSION}/{}", wanted.info.plural),
        };
        let (mut table, mut is_all) = (Table::default(), true);
        for name in &wanted.names {
            match self.page(&format!("{base}/{name}")).await {
                Ok(page) => add(&mut table, page),
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    is_all = false;
                    not_found(&wanted.info, name);
                }
                Err(error) => {
                    return Err(error).with_context(|| format!("reading {}", shown(&wanted.info, name)));
                }
            }
        }
        if wanted.names.is_empty() {
            let mut params = self.params();
            loop {
                let request = kube::core::Request::new(&base).list(&params);
                let request = request.with_context(|| format!("listing {}", wanted.info.plural))?;
                let path = request.uri().to_string();
                let page =
                    self.page(&path).await.with_context(|| format!("listing {}", wanted.info.plural))?;
                let token =
                    page.metadata.get("continue").and_then(Value::as_str).unwrap_or_default().to_owned();
                add(&mut table, page);
                if token.is_empty() {
                    break;
                }
                params = params.continue_token(&token);
            }
        }
        Ok((table, is_all))
    }

    #[expect(clippy::disallowed_methods, reason = "it only reads; kube has no way to ask for a table")]
    async fn page(&self, path: &str) -> Result<Table, kube::Error> {
        let request = http::Request::get(path).header(http::header::ACCEPT, AS_TABLE).body(Vec::new());
        let request = request.map_err(kube::Error::HttpError)?;
        self.client.request(request).await
    }

    /// What is answered about a Release.
    pub(super) async fn observed(&self, name: &str, subresource: &str, query: &str) -> anyhow::Result<Value> {
        let mark = if query.is_empty() { "" } else { "?" };
        let path = format!("{}{mark}{query}", self.path_of(name, subresource));
        self.answer(http::Request::get(path).body(Vec::new()), name, subresource).await
    }

    /// What is answered about a Release if its source had these files.
    pub(super) async fn observed_of(
        &self,
        name: &str,
        subresource: &str,
        archive: Vec<u8>,
    ) -> anyhow::Result<Value> {
        let request = http::Request::post(self.path_of(name, subresource))
            .header(http::header::CONTENT_TYPE, "application/gzip")
            .body(archive);
        self.answer(request, name, subresource).await
    }

    fn path_of(&self, name: &str, subresource: &str) -> String {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        format!("/apis/{API_VERSION}/namespaces/{namespace}/{}/{name}/{subresource}", Release::PLURAL)
    }

    #[expect(clippy::disallowed_methods, reason = "it only asks")]
    async fn answer(
        &self,
        request: http::Result<http::Request<Vec<u8>>>,
        name: &str,
        subresource: &str,
    ) -> anyhow::Result<Value> {
        let answer = self.client.request::<Value>(request.context("making the request")?).await;
        let namespace = self.namespace.as_deref().unwrap_or_default();
        answer.with_context(|| format!("asking for the {subresource} of the Release {namespace}/{name}"))
    }

    /// Changes an object as a merge patch says.
    #[expect(clippy::disallowed_methods, reason = "a person writes, who owns no shard")]
    pub(super) async fn patch(
        &self,
        info: &KindInfo,
        object: &DynamicObject,
        patch: &Value,
    ) -> anyhow::Result<DynamicObject> {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let params =
            PatchParams { field_manager: Some(field_manager::CLI.to_owned()), ..PatchParams::default() };
        let patched = self.api_beside(info, object).patch(name, &params, &Patch::Merge(patch)).await;
        patched.with_context(|| format!("changing {}", shown(info, name)))
    }

    /// Deletes this very object.
    #[expect(clippy::disallowed_methods, reason = "a person writes, who owns no shard")]
    pub(super) async fn delete(&self, info: &KindInfo, object: &DynamicObject) -> anyhow::Result<()> {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let preconditions =
            kube::api::Preconditions { uid: object.metadata.uid.clone(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match self.api_beside(info, object).delete(name, &params).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            deleted => deleted.map(drop).with_context(|| format!("deleting {}", shown(info, name))),
        }
    }

    /// The events about an object, the oldest first. Nobody needs to be allowed to see them.
    pub(super) async fn events(&self, object: &DynamicObject) -> Vec<Event> {
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let uid = object.metadata.uid.as_deref().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let params = ListParams::default().fields(&format!("involvedObject.uid={uid}"));
        let mut events = api.list(&params).await.map(|list| list.items).unwrap_or_default();
        events.sort_by_key(|event| event.last_timestamp.as_ref().map(|time| time.0));
        events
    }
}

fn add(table: &mut Table, page: Table) {
    if table.column_definitions.is_empty() {
        table.column_definitions = page.column_definitions;
    }
    table.rows.extend(page.rows);
}

fn not_found(info: &KindInfo, name: &str) {
    eprintln!("convoy: there is no {}", shown(info, name));
}

/// Namespace and name of the object of a row.
pub(super) fn object_of(row: &TableRow) -> (String, String) {
    let field = |name: &str| {
        let found = row.object.pointer(&format!("/metadata/{name}")).and_then(Value::as_str);
        found.unwrap_or_default().to_owned()
    };
    (field("namespace"), field("name"))
}

/// A resource of convoy's group.
fn resource(info: &KindInfo) -> ApiResource {
    ApiResource {
        group: GROUP.to_owned(),
        version: VERSION.to_owned(),
        api_version: API_VERSION.to_owned(),
        kind: info.kind.to_owned(),
        plural: info.plural.to_owned(),
    }
}
