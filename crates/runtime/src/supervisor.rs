//! Tasks that end together.

use std::collections::HashMap;

use tokio::task::{Id, JoinSet};

use crate::Shutdown;

/// Why a supervised task ended when it should not have.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// It returned an error.
    #[error("task {name} failed")]
    Failed {
        /// The task.
        name: &'static str,
        /// What it returned.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It panicked.
    #[error("task {name} panicked")]
    Panicked {
        /// The task.
        name: &'static str,
    },
    /// It returned though nobody had told it to.
    #[error("task {name} ended by itself")]
    EndedEarly {
        /// The task.
        name: &'static str,
    },
}

type TaskResult = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// A group of tasks: when one ends before shutdown, in whatever way, all are told to end, so that a
/// process never runs on with a part missing.
#[derive(Debug)]
pub struct Supervisor {
    tasks: JoinSet<TaskResult>,
    names: HashMap<Id, &'static str>,
    shutdown: Shutdown,
}

impl Supervisor {
    /// An empty group that ends with `shutdown`.
    pub fn new(shutdown: Shutdown) -> Self {
        Self { tasks: JoinSet::new(), names: HashMap::new(), shutdown }
    }

    /// Starts a task that runs until shutdown.
    pub fn spawn<E>(&mut self, name: &'static str, task: impl Future<Output = Result<(), E>> + Send + 'static)
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let handle = self.tasks.spawn(async move { task.await.map_err(Into::into) });
        self.names.insert(handle.id(), name);
    }

    /// Waits for all tasks. The first that ended early or failed is the error.
    ///
    /// # Errors
    /// See [`TaskError`].
    pub async fn join(mut self) -> Result<(), TaskError> {
        let mut first_error = None;
        while let Some(ended) = self.tasks.join_next_with_id().await {
            let id = match &ended {
                Ok((id, _)) => *id,
                Err(error) => error.id(),
            };
            let name = self.names.get(&id).copied().unwrap_or("unnamed");
            let error = match ended {
                Ok((_, Ok(()))) if self.shutdown.is_triggered() => None,
                Ok((_, Ok(()))) => Some(TaskError::EndedEarly { name }),
                Ok((_, Err(source))) => Some(TaskError::Failed { name, source }),
                Err(error) if error.is_panic() => Some(TaskError::Panicked { name }),
                Err(_) => None,
            };
            if let Some(error) = error {
                self.shutdown.trigger();
                first_error.get_or_insert(error);
            }
        }
        first_error.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_fails_ends_all_and_is_named() {
        let shutdown = Shutdown::new();
        let mut tasks = Supervisor::new(shutdown.clone());
        let waits = shutdown.clone();
        tasks.spawn("patient", async move {
            waits.wait().await;
            Ok::<(), std::io::Error>(())
        });
        tasks.spawn("broken", async { Err(std::io::Error::other("no luck")) });
        assert_eq!(tasks.join().await.unwrap_err().to_string(), "task broken failed");
        assert!(shutdown.is_triggered());
    }

    #[tokio::test]
    async fn all_ending_after_shutdown_is_no_error() {
        let shutdown = Shutdown::new();
        let mut tasks = Supervisor::new(shutdown.clone());
        let waits = shutdown.clone();
        tasks.spawn("patient", async move {
            waits.wait().await;
            Ok::<(), std::io::Error>(())
        });
        shutdown.trigger();
        tasks.join().await.unwrap();
    }
}
