//! Probes over HTTP and HTTPS.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use convoy_testkit::HttpsClient;
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(2);

/// A probe, and what came of it.
#[derive(Debug, Default)]
pub(super) struct Probe {
    /// None is always met.
    asked: Option<Asked>,
    period: Duration,
    /// For so long it may fail.
    patience: Duration,
    last: Option<Instant>,
    is_met: bool,
    failing_since: Option<Instant>,
}

#[derive(Debug)]
struct Asked {
    address: SocketAddr,
    path: String,
    is_https: bool,
}

impl Probe {
    /// That of a container; none when it has none.
    pub(super) fn new(probe: &Value, address: Ipv4Addr, ports: &BTreeMap<String, u16>) -> Option<Self> {
        let get = probe.get("httpGet")?;
        let named = get["port"].as_str().and_then(|name| ports.get(name).copied());
        let port = named.or_else(|| u16::try_from(get["port"].as_u64()?).ok())?;
        let asked = Asked {
            address: SocketAddr::from((address, port)),
            path: get["path"].as_str()?.to_owned(),
            is_https: get["scheme"] == "HTTPS",
        };
        let period = Duration::from_secs(probe["periodSeconds"].as_u64().unwrap_or(10));
        let threshold = probe["failureThreshold"].as_u64().and_then(|count| u32::try_from(count).ok());
        let patience = period.saturating_mul(threshold.unwrap_or(3));
        Some(Self { asked: Some(asked), period, patience, ..Self::default() })
    }

    /// Asks when it is time to.
    pub(super) fn look(&mut self) {
        let Some(asked) = &self.asked else { return };
        // What is not met is looked at more often, so that tests need not wait.
        let period = if self.is_met { self.period } else { self.period.min(Duration::from_secs(1)) };
        if self.last.is_some_and(|last| last.elapsed() < period) {
            return;
        }
        self.last = Some(Instant::now());
        if asked.is_answered() {
            (self.is_met, self.failing_since) = (true, None);
            return;
        }
        self.failing_since.get_or_insert_with(Instant::now);
        if self.has_failed() {
            self.is_met = false;
        }
    }

    pub(super) fn is_met(&self) -> bool {
        self.asked.is_none() || self.is_met
    }

    /// Whether it failed as often as it may.
    pub(super) fn has_failed(&self) -> bool {
        self.failing_since.is_some_and(|since| since.elapsed() >= self.patience)
    }

    /// Begins anew.
    pub(super) fn forget(&mut self) {
        (self.is_met, self.failing_since, self.last) = (false, None, None);
    }
}

impl Asked {
    fn is_answered(&self) -> bool {
        if self.is_https {
            let answer = HttpsClient::unchecked(self.address).and_then(|client| client.get(&self.path));
            return answer.is_ok_and(|answer| answer.status < 400);
        }
        self.plain().is_ok_and(|head| {
            let code = head.split(' ').nth(1).and_then(|code| code.parse::<u16>().ok());
            code.is_some_and(|code| (200..400).contains(&code))
        })
    }

    fn plain(&self) -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&self.address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        write!(stream, "GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.path, self.address)?;
        let mut head = [0; 64];
        let read = stream.read(&mut head)?;
        Ok(String::from_utf8_lossy(&head[..read]).into_owned())
    }
}
