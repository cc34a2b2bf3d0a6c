//! The word that a process is to end.

use tokio_util::sync::CancellationToken;

/// A word that is given once and heard by all clones.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    token: CancellationToken,
}

impl Shutdown {
    /// One that was not given yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives it; again has no effect.
    pub fn trigger(&self) {
        self.token.cancel();
    }

    /// Whether it was given.
    pub fn is_triggered(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Waits until it is given.
    pub async fn wait(&self) {
        self.token.cancelled().await;
    }

    /// One that is given with this one, or on its own without this one.
    pub fn child(&self) -> Shutdown {
        Shutdown { token: self.token.child_token() }
    }

    /// Gives it on SIGINT (Ctrl-C) and SIGTERM.
    ///
    /// # Errors
    /// When the signals cannot be listened to.
    pub fn on_signals(&self) -> std::io::Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let shutdown = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                _ = interrupt.recv() => tracing::info!("SIGINT: stopping"),
                _ = terminate.recv() => tracing::info!("SIGTERM: stopping"),
                () = shutdown.wait() => {}
            }
            shutdown.trigger();
        });
        Ok(())
    }
}
