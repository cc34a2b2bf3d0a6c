//! What the apiserver has an observer answer: certificates and addresses of both ends.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use convoy_apiserver::kinds::observed::{NoObserver, Observers, OneService};
use convoy_apiserver::kinds::shard_holder::{Leases, ShardHolder};
use convoy_apiserver::pki::Authority;
use convoy_observer::Serving;
use convoy_registry::Registry;
use convoy_render::RenderStore;
use convoy_runtime::{ProxiedTls, ProxyAddress, ProxyClient};
use jiff::Timestamp;
use tokio::net::TcpListener;

use crate::arguments::{ObserverRouting, ObserverService, ObserverServing};
use crate::bad_flag::BadFlag;

/// Whom an apiserver asks. The last step takes what the server serves, for it may have to look there.
pub(crate) fn observers(flags: &ObserverService, shards: NonZeroU32) -> Result<MakeObservers, BadFlag> {
    let Some(address) = flags.observer_url.clone() else {
        return Ok(MakeObservers(Arc::new(|_, _| Arc::new(NoObserver))));
    };
    let tls = ProxiedTls {
        certificate: read("proxy-client-cert-file", flags.proxy_client_cert_file.as_deref())?,
        key: read("proxy-client-key-file", flags.proxy_client_key_file.as_deref())?,
        other_ca: read("observer-ca-file", flags.observer_ca_file.as_deref())?,
    };
    let client = ProxyClient::new(&tls).map_err(|source| {
        BadFlag::new("proxy-client-cert-file", shown(flags.proxy_client_cert_file.as_ref()), source)
    })?;
    let (routing, lease_namespace) = (flags.observer_routing, flags.lease_namespace.clone());
    Ok(MakeObservers(Arc::new(move |registry, host| match routing {
        ObserverRouting::Service => Arc::new(OneService { client: client.clone(), address: address.clone() }),
        ObserverRouting::Owner => Arc::new(ShardHolder {
            client: client.clone(),
            leases: match host {
                Some(host) => Leases::OfHost(host.clone()),
                None => Leases::Own(Arc::clone(registry)),
            },
            lease_namespace: lease_namespace.clone(),
            shards,
            server_name: address.host.clone(),
        }),
    })))
}

type Make = dyn Fn(&Arc<Registry>, Option<&kube::Client>) -> Arc<dyn Observers> + Send + Sync;

/// Makes whom an apiserver asks.
#[derive(Clone)]
pub(crate) struct MakeObservers(Arc<Make>);

impl MakeObservers {
    /// Nobody.
    pub(crate) fn none() -> Self {
        Self(Arc::new(|_, _| Arc::new(NoObserver)))
    }

    /// For a server of these objects. The leases are among them, or at the host.
    pub(crate) fn make(&self, registry: &Arc<Registry>, host: Option<&kube::Client>) -> Arc<dyn Observers> {
        (self.0)(registry, host)
    }
}

impl std::fmt::Debug for MakeObservers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MakeObservers").finish_non_exhaustive()
    }
}

/// Where an observer says that it is asked.
pub(crate) fn advertised(flags: &ObserverServing, serving: &Serving) -> Option<String> {
    let bound = serving.listener.local_addr().ok()?;
    let own = Some(bound.ip()).filter(|ip| !ip.is_unspecified());
    flags.advertise_address.or(own).map(|ip| SocketAddr::new(ip, bound.port()).to_string())
}

/// How an observer answers the apiserver; none when it answers nobody.
pub(crate) async fn serving(flags: &ObserverServing) -> anyhow::Result<Option<Serving>> {
    let (Some(ca), Some(url)) = (&flags.client_ca_file, &flags.render_store_url) else { return Ok(None) };
    let tls = ProxiedTls {
        certificate: read("tls-cert-file", flags.tls_cert_file.as_deref())?,
        key: read("tls-private-key-file", flags.tls_private_key_file.as_deref())?,
        other_ca: read("client-ca-file", Some(ca))?,
    };
    tls.check_server()
        .map_err(|source| BadFlag::new("tls-cert-file", shown(flags.tls_cert_file.as_ref()), source))?;
    let store = flags.s3.open(url)?;
    let address = SocketAddr::new(flags.bind_address, flags.secure_port);
    let listener =
        TcpListener::bind(address).await.map_err(|source| BadFlag::new("secure-port", address, source))?;
    tracing::info!(address = %listener.local_addr().unwrap_or(address), "answers the apiserver");
    Ok(Some(Serving { listener: Arc::new(listener), tls, own: None, store }))
}

fn shown(file: Option<&PathBuf>) -> String {
    file.map(|file| file.display().to_string()).unwrap_or_default()
}

fn read(flag: &'static str, file: Option<&Path>) -> Result<Vec<u8>, BadFlag> {
    // Which flags belong together is said on the command line.
    let file = file.unwrap_or(Path::new(""));
    std::fs::read(file).map_err(|source| BadFlag::new(flag, file.display(), source))
}

/// Both ends within one process: a CA of their own, which nobody else has a certificate of, and which is nowhere
/// stored.
pub(crate) async fn within(store: RenderStore, now: Timestamp) -> anyhow::Result<(MakeObservers, Serving)> {
    let authority = Authority::generate("convoy-proxy", now).context("making the CA of the observer")?;
    let host = Ipv4Addr::LOCALHOST.to_string();
    let serving = authority.serving(std::slice::from_ref(&host), now).context("making a certificate")?;
    let client = authority.client("convoy-apiserver", &[], now).context("making a certificate")?;
    let other_ca = authority.files().certificate.clone().into_bytes();
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("listening for the apiserver")?;
    let address = ProxyAddress { host, port: listener.local_addr()?.port(), server_name: None };
    let asking = ProxiedTls {
        certificate: client.certificate.into_bytes(),
        key: client.key.into_bytes(),
        other_ca: other_ca.clone(),
    };
    let answering =
        ProxiedTls { certificate: serving.certificate.into_bytes(), key: serving.key.into_bytes(), other_ca };
    let observers: Arc<dyn Observers> = Arc::new(OneService { client: ProxyClient::new(&asking)?, address });
    let observers = MakeObservers(Arc::new(move |_, _| Arc::clone(&observers)));
    Ok((observers, Serving { listener: Arc::new(listener), tls: answering, own: None, store }))
}
