//! A link to a server that can go bad in the ways in which links to clusters do.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How soon a changed mode is seen.
const LOOK: Duration = Duration::from_millis(100);

/// The head of a TLS record that never becomes whole: a client has to wait for the rest.
const RECORD: [u8; 6] = [0x16, 3, 3, 0x3f, 0xff, 2];

/// What a link does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkMode {
    /// Carries everything.
    Good,
    /// Takes connections and never answers.
    Hang,
    /// Refuses connections.
    Refuse,
    /// Answers one byte a second.
    Drip,
    /// Answers every connection with a plain HTTP 500.
    Error,
}

impl LinkMode {
    /// The bad ones.
    pub const BAD: [Self; 4] = [Self::Hang, Self::Refuse, Self::Drip, Self::Error];

    fn of(number: u8) -> Self {
        match number {
            1 => Self::Hang,
            2 => Self::Refuse,
            3 => Self::Drip,
            4 => Self::Error,
            _ => Self::Good,
        }
    }
}

/// A link to one server. When it goes bad, what is connected goes bad with it.
#[derive(Debug, Clone)]
pub struct FaultyLink {
    address: SocketAddr,
    mode: Arc<AtomicU8>,
    listener: Arc<Mutex<Option<TcpListener>>>,
}

impl FaultyLink {
    /// A good link to `server`. It ends with the process.
    ///
    /// # Errors
    /// When no port can be had.
    pub fn to(server: SocketAddr) -> io::Result<Self> {
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let link = Self {
            address: listener.local_addr()?,
            mode: Arc::default(),
            listener: Arc::new(Mutex::new(Some(listener))),
        };
        let accepting = link.clone();
        std::thread::spawn(move || accepting.accept(server));
        Ok(link)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what it does.
    pub fn set(&self, mode: LinkMode) {
        self.mode.store(mode as u8, Ordering::SeqCst);
    }

    fn mode(&self) -> LinkMode {
        LinkMode::of(self.mode.load(Ordering::SeqCst))
    }

    fn accept(&self, server: SocketAddr) {
        loop {
            let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
            if self.mode() == LinkMode::Refuse {
                // Nobody listens: the kernel refuses.
                *listener = None;
            } else if listener.is_none() {
                *listener = listen(self.address).ok();
            }
            let accepted = listener.as_ref().map(TcpListener::accept);
            drop(listener);
            match accepted {
                Some(Ok((client, _))) => {
                    let link = self.clone();
                    std::thread::spawn(move || link.carry(&client, server));
                }
                _ => std::thread::park_timeout(LOOK),
            }
        }
    }

    /// Serves one connection. That it ends with an error is what a bad link is for.
    fn carry(&self, client: &TcpStream, server: SocketAddr) -> io::Result<()> {
        client.set_nonblocking(false)?;
        client.set_read_timeout(Some(LOOK))?;
        if self.mode() == LinkMode::Good {
            let server = TcpStream::connect(server)?;
            server.set_read_timeout(Some(LOOK))?;
            std::thread::scope(|scope| {
                scope.spawn(|| self.pump(client, &server));
                self.pump(&server, client);
            });
        }
        self.spoil(client)
    }

    /// Carries bytes while the link is good and both sides are there.
    fn pump(&self, mut from: &TcpStream, mut to: &TcpStream) {
        let mut buffer = vec![0; 64 * 1024];
        while self.mode() == LinkMode::Good {
            match from.read(&mut buffer) {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                }
                Ok(count) if count > 0 => {
                    if buffer.get(..count).is_none_or(|bytes| to.write_all(bytes).is_err()) {
                        break;
                    }
                }
                Ok(_) | Err(_) => break,
            }
        }
        if self.mode() == LinkMode::Good {
            let _ = to.shutdown(Shutdown::Write);
        }
    }

    fn spoil(&self, mut client: &TcpStream) -> io::Result<()> {
        let mut buffer = [0; 4096];
        let mut record = RECORD.into_iter();
        loop {
            match self.mode() {
                LinkMode::Good | LinkMode::Refuse => return client.shutdown(Shutdown::Both),
                LinkMode::Error => {
                    client.write_all(b"HTTP/1.1 500 x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
                    return client.shutdown(Shutdown::Both);
                }
                LinkMode::Drip => {
                    client.write_all(&[record.next().unwrap_or_default()])?;
                    std::thread::park_timeout(Duration::from_secs(1));
                }
                LinkMode::Hang => match client.read(&mut buffer) {
                    Ok(0) => return Ok(()),
                    Ok(_) => {}
                    Err(error)
                        if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                    Err(error) => return Err(error),
                },
            }
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that answers each byte with the next one.
    fn server() -> SocketAddr {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut byte = [0];
                    while stream.read_exact(&mut byte).is_ok() && stream.write_all(&[byte[0] + 1]).is_ok() {}
                });
            }
        });
        address
    }

    fn answer(mut stream: &TcpStream) -> Option<u8> {
        let mut byte = [0];
        stream.write_all(&[7]).ok()?;
        stream.read_exact(&mut byte).ok()?;
        Some(byte[0])
    }

    fn connect(link: &FaultyLink) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(link.address())?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        Ok(stream)
    }

    fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let began = std::time::Instant::now();
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(began.elapsed() < Duration::from_secs(30), "{what}");
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    #[test]
    fn a_link_goes_bad_in_each_way_and_good_again() {
        let link = FaultyLink::to(server()).unwrap();
        for mode in LinkMode::BAD {
            link.set(LinkMode::Good);
            let old = until(&format!("good before {mode:?}"), || {
                connect(&link).ok().filter(|good| answer(good) == Some(8))
            });
            link.set(mode);
            until(&format!("{mode:?}: what was connected stays good"), || {
                (answer(&old) != Some(8)).then_some(())
            });
            until(&format!("{mode:?}: what connects now is not bad"), || {
                let is_bad = match (mode, connect(&link)) {
                    (LinkMode::Refuse, connected) => connected.is_err(),
                    (LinkMode::Hang, Ok(new)) => answer(&new).is_none(),
                    (LinkMode::Drip, Ok(new)) => answer(&new) == Some(RECORD[0]),
                    (_, Ok(new)) => answer(&new) == Some(b'H'),
                    (_, Err(_)) => false,
                };
                is_bad.then_some(())
            });
        }
    }
}
