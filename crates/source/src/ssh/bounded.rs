use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::error::Failure;
use crate::job::Job;

/// A connection that breaks when the fetch is over, whoever still holds it.
///
/// The SSH session is a task of its own. It would outlive a fetch that was given up in the middle of a key
/// exchange, for as long as the server keeps silent.
pub(super) struct Bounded<S> {
    stream: S,
    over: Pin<Box<dyn Future<Output = Failure> + Send>>,
    is_over: bool,
}

impl<S> Bounded<S> {
    pub(super) fn new(stream: S, job: &Job) -> Self {
        Self { stream, over: Box::pin(job.over()), is_over: false }
    }

    fn poll_over(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        self.is_over = self.is_over || self.over.as_mut().poll(context).is_ready();
        if self.is_over { Err(io::Error::from(io::ErrorKind::TimedOut)) } else { Ok(()) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_over(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_over(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_over(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
