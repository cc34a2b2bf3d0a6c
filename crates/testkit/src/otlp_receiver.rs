//! What an OpenTelemetry collector is to those who send to it: it takes bodies over HTTP, or refuses them.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);
const LONGEST_BODY: usize = 16 << 20;

/// A request that was taken.
#[derive(Debug, Clone)]
pub struct OtlpRequest {
    /// Method, path and headers, as received.
    pub head: String,
    /// The protobuf message.
    pub body: Vec<u8>,
}

/// A receiver on a loopback port, until the process ends.
#[derive(Debug, Clone)]
pub struct OtlpReceiver {
    address: SocketAddr,
    status: Arc<AtomicU16>,
    taken: Arc<Mutex<Vec<OtlpRequest>>>,
    refused: Arc<AtomicUsize>,
}

impl OtlpReceiver {
    /// One that answers everything with a status, and keeps what it answers with 200.
    ///
    /// # Errors
    /// When there is no port.
    pub fn start(status: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let receiver = Self {
            address: listener.local_addr()?,
            status: Arc::new(AtomicU16::new(status)),
            taken: Arc::default(),
            refused: Arc::default(),
        };
        let serving = receiver.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serving = serving.clone();
                // A connection that breaks off ends; who sends begins anew.
                std::thread::spawn(move || serving.serve(&stream));
            }
        });
        Ok(receiver)
    }

    /// The endpoint for who sends.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers with this status from now on.
    pub fn set_status(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    /// How many requests were refused so far.
    pub fn refused(&self) -> usize {
        self.refused.load(Ordering::SeqCst)
    }

    /// What was taken so far.
    pub fn taken(&self) -> Vec<OtlpRequest> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(TIMEOUT))?;
        let mut reader = BufReader::new(stream);
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if reader.read_line(&mut head)? == 0 {
                    return Ok(());
                }
            }
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
            });
            let length: usize = length.unwrap_or(0);
            if length > LONGEST_BODY {
                return Err(io::Error::other("the body is too long"));
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body)?;
            let status = self.status.load(Ordering::SeqCst);
            if status == 200 {
                let request = OtlpRequest { head, body };
                self.taken.lock().unwrap_or_else(PoisonError::into_inner).push(request);
            } else {
                self.refused.fetch_add(1, Ordering::SeqCst);
            }
            write!(&mut (&*stream), "HTTP/1.1 {status} Said\r\nContent-Length: 0\r\n\r\n")?;
        }
    }
}
