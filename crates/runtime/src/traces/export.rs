//! Sends spans, some hundred at a time, and gives them up when the collector does not take them for long.

use std::convert::Infallible;
use std::time::Duration;

use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use tokio::sync::mpsc;

use super::COUNTS;
use crate::Clock;

/// Spans of one request.
const MOST_AT_ONCE: usize = 512;
/// How long the first span of a request waits for others.
const GATHER_FOR: Duration = Duration::from_secs(1);
/// How often the same spans are sent.
const TRIES: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// What a process that ends waits for its last spans to be taken.
const LAST_WITHIN: Duration = Duration::from_secs(3);

/// Empties the queue.
#[derive(Debug)]
pub struct TraceExport {
    exporter: SpanExporter,
    waiting: mpsc::Receiver<SpanData>,
    /// What is being sent: whoever ends the export finds it here.
    batch: Vec<SpanData>,
    is_away: bool,
}

impl TraceExport {
    pub(super) fn new(exporter: SpanExporter, waiting: mpsc::Receiver<SpanData>) -> Self {
        Self { exporter, waiting, batch: Vec::new(), is_away: false }
    }

    /// Sends spans as they come.
    pub async fn run(&mut self, clock: &dyn Clock) -> Infallible {
        loop {
            self.gather(clock).await;
            let mut pause = FIRST_PAUSE;
            for attempt in 1..=TRIES {
                if self.send().await || attempt == TRIES {
                    break;
                }
                clock.sleep(pause).await;
                pause *= 2;
            }
            self.give_up();
        }
    }

    /// Sends what is left, once, for a process that ends.
    pub async fn finish(mut self) {
        let last = async {
            loop {
                while self.batch.len() < MOST_AT_ONCE
                    && let Ok(span) = self.waiting.try_recv()
                {
                    self.batch.push(span);
                }
                if self.batch.is_empty() || !self.send().await {
                    break;
                }
            }
        };
        let _ = tokio::time::timeout(LAST_WITHIN, last).await;
    }

    /// Waits for spans. What is there already stays.
    async fn gather(&mut self, clock: &dyn Clock) {
        if self.batch.is_empty() && self.waiting.recv_many(&mut self.batch, MOST_AT_ONCE).await == 0 {
            // Nobody has a span any more.
            std::future::pending::<()>().await;
        }
        let until = clock.sleep(GATHER_FOR);
        tokio::pin!(until);
        while self.batch.len() < MOST_AT_ONCE {
            let room = MOST_AT_ONCE - self.batch.len();
            tokio::select! {
                () = &mut until => break,
                came = self.waiting.recv_many(&mut self.batch, room) => if came == 0 { break },
            }
        }
    }

    /// Whether the collector took the batch. An outage is said once.
    async fn send(&mut self) -> bool {
        match self.exporter.export(self.batch.clone()).await {
            Ok(()) => {
                COUNTS.exported.inc_by(self.batch.len() as u64);
                self.batch.clear();
                if std::mem::take(&mut self.is_away) {
                    tracing::info!("the OpenTelemetry collector takes spans again");
                }
                true
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_away, true) {
                    tracing::warn!(%error, "the OpenTelemetry collector does not take spans");
                }
                false
            }
        }
    }

    fn give_up(&mut self) {
        COUNTS.dropped.inc_by(self.batch.len() as u64);
        self.batch.clear();
    }
}
