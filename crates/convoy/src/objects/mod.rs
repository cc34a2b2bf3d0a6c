//! The commands about convoy's objects: what kubectl can do as well, with less to type, and what it cannot.
//!
//! | module | what it is |
//! |---|---|
//! | `arguments` | their flags |
//! | `what` | which objects a command line means |
//! | `server` | the API server, for a person |
//! | `get` | `convoy get`, also with `--watch` |
//! | `describe` | `convoy describe` |
//! | `preview` | `convoy preview` |
//! | `diff` | `convoy diff` |
//! | `markdown` | a diff as a comment on a pull request |
//! | `handed_in` | the files of `--source` |
//! | `health` | `convoy health` |
//! | `history` | `convoy history` |
//! | `watched` | `--watch` of these |
//! | `ask` | `convoy reconcile`, `suspend` and `resume` |
//! | `forget` | `convoy forget` |

pub(crate) mod arguments;
mod ask;
mod describe;
mod diff;
mod forget;
mod get;
mod handed_in;
mod health;
mod history;
mod markdown;
mod preview;
mod server;
mod watched;
mod what;

use std::process::ExitCode;

use convoy_runtime::Clock;

use crate::arguments::Command;
use crate::told::told;

/// A command line that cannot be meant.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Misuse(String);

/// Whether a command is one of these.
pub(crate) fn is_one(command: &Command) -> bool {
    matches!(
        command,
        Command::Get(_)
            | Command::Describe(_)
            | Command::Reconcile(_)
            | Command::Suspend(_)
            | Command::Resume(_)
            | Command::Forget(_)
            | Command::Preview(_)
            | Command::Diff(_)
            | Command::Health(_)
            | Command::History(_)
    )
}

/// Runs one of these commands; 1 when not all was as it was asked for.
pub(crate) async fn run(command: &Command, clock: &dyn Clock) -> anyhow::Result<ExitCode> {
    let is_good = match command {
        Command::Get(arguments) => get::run(arguments).await?,
        Command::Describe(arguments) => describe::run(arguments, clock).await?,
        Command::Reconcile(arguments) => ask::reconcile(arguments, clock).await?,
        Command::Suspend(arguments) => ask::suspend(arguments, true).await?,
        Command::Resume(arguments) => ask::suspend(arguments, false).await?,
        Command::Forget(arguments) => forget::run(arguments, clock).await?,
        Command::Preview(arguments) => preview::run(arguments).await?,
        Command::Health(arguments) => health::run(arguments, clock).await?,
        Command::History(arguments) => history::run(arguments, clock).await?,
        Command::Diff(arguments) => {
            // As kubectl diff has it: 1 says that there are differences, so that what failed needs another code.
            return Ok(match diff::run(arguments, clock).await {
                Ok(true) => ExitCode::SUCCESS,
                Ok(false) => ExitCode::FAILURE,
                Err(error) => {
                    eprintln!("convoy: {}", told(&error));
                    ExitCode::from(2)
                }
            });
        }
        _ => true,
    };
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
