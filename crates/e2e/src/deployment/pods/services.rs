//! Services at their cluster IPs: what kube-proxy and the cluster's DNS do.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;

use super::container::Pod;

/// All Services that are listened for.
#[derive(Debug, Default)]
pub(super) struct Services {
    fronts: Mutex<BTreeMap<SocketAddr, Front>>,
    names: Mutex<String>,
}

/// One port of one Service.
#[derive(Debug)]
struct Front {
    ready: Arc<Mutex<Vec<SocketAddr>>>,
    is_over: Arc<AtomicBool>,
    listening: JoinHandle<()>,
}

impl Services {
    /// Brings what is listened on up to what Services and pods there are.
    pub(super) fn follow(&self, services: &[Value], pods: &BTreeMap<String, Pod>) {
        let mut names = "127.0.0.1 localhost\n".to_owned();
        let mut fronts = self.fronts.lock();
        for service in services {
            let text = |path: &str| service.pointer(path).and_then(Value::as_str).unwrap_or_default();
            let Ok(ip) = text("/spec/clusterIP").parse::<Ipv4Addr>() else { continue };
            let (name, namespace) = (text("/metadata/name"), text("/metadata/namespace"));
            let _ = writeln!(
                names,
                "{ip} {name}.{namespace}.svc {name}.{namespace}.svc.cluster.local {name}.{namespace}"
            );
            let Some(selector) = service["spec"]["selector"].as_object() else { continue };
            let chosen: Vec<&Pod> = pods
                .values()
                .filter(|pod| pod.is_ready())
                .filter(|pod| {
                    selector
                        .iter()
                        .all(|(key, value)| pod.labels.get(key).map(String::as_str) == value.as_str())
                })
                .collect();
            for port in service["spec"]["ports"].as_array().into_iter().flatten() {
                let Some(number) = port["port"].as_u64().and_then(|number| u16::try_from(number).ok()) else {
                    continue;
                };
                let ready = chosen
                    .iter()
                    .filter_map(|pod| Some(SocketAddr::from((pod.address, pod.port(&port["targetPort"])?))));
                let ready = ready.collect();
                let front = fronts.entry(SocketAddr::from((ip, number)));
                let address = *front.key();
                // When it cannot be listened on it is tried again at the next turn.
                match front {
                    std::collections::btree_map::Entry::Occupied(found) => *found.get().ready.lock() = ready,
                    std::collections::btree_map::Entry::Vacant(free) => {
                        if let Ok(made) = Front::listen(address, ready) {
                            free.insert(made);
                        }
                    }
                }
            }
        }
        *self.names.lock() = names;
    }

    /// Names of Services, as `/etc/hosts` has them.
    pub(super) fn hosts(&self) -> String {
        self.names.lock().clone()
    }

    /// Listens no more.
    pub(super) fn end(&self) {
        for (address, front) in std::mem::take(&mut *self.fronts.lock()) {
            front.is_over.store(true, Ordering::Relaxed);
            // It wakes.
            let _ = TcpStream::connect_timeout(&address, Duration::from_secs(1));
            let _ = front.listening.join();
        }
    }
}

impl Front {
    fn listen(address: SocketAddr, ready: Vec<SocketAddr>) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let (ready, is_over) = (Arc::new(Mutex::new(ready)), Arc::new(AtomicBool::new(false)));
        let listening = std::thread::spawn({
            let (ready, is_over) = (Arc::clone(&ready), Arc::clone(&is_over));
            move || {
                let turn = AtomicUsize::new(0);
                while let Ok((stream, _)) = listener.accept() {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let ready = ready.lock().clone();
                    let chosen =
                        ready.get(turn.fetch_add(1, Ordering::Relaxed) % ready.len().max(1)).copied();
                    // Without an endpoint the connection is refused, nearly: it is closed at once.
                    if let Some(chosen) = chosen {
                        std::thread::spawn(move || carry(&stream, chosen));
                    }
                }
            }
        });
        Ok(Self { ready, is_over, listening })
    }
}

/// Carries bytes both ways until both ends are done.
fn carry(near: &TcpStream, to: SocketAddr) {
    let Ok(far) = TcpStream::connect_timeout(&to, Duration::from_secs(5)) else { return };
    let one_way = |from: &TcpStream, to: &TcpStream| {
        let (Ok(mut from), Ok(mut into)) = (from.try_clone(), to.try_clone()) else { return };
        let _ = io::copy(&mut from, &mut into);
        let _ = into.shutdown(Shutdown::Write);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| one_way(near, &far));
        one_way(&far, near);
    });
}
