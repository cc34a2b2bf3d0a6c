//! The `convoy` program: it reads the command line, wires the parts and says how it ended.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that speaks to a person")]

mod aggregated;
mod arguments;
mod backup;
mod bad_flag;
mod certificates;
mod chart_files;
#[cfg(test)]
mod command_line_docs;
mod demo;
mod lint;
mod objects;
mod processes;
mod proxied;
mod render_store;
mod rollback;
mod sandbox;
mod sharding;
mod shards;
mod show;
mod standalone;
mod template;
mod terminal;
mod told;
mod traces;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser as _};
use convoy_runtime::{Clock, RealClock, Shutdown};
use jiff::Timestamp;

use crate::arguments::{Arguments, Command};
use crate::told::told;

/// Threads for work that blocks: files of the render store, renderings, fetches of Git. More would not be
/// quicker, and each holds on to memory. It is more than the renderings and fetches that run at a time, which
/// wait for files themselves.
const BLOCKING_THREADS: usize = 64;

/// Work moves between threads, and the C library's allocator has an arena for nearly each of them, which keeps what was
/// freed. Here are few arenas (`.cargo/config.toml`), and what is not used goes back after two seconds.
#[cfg(all(unix, not(target_os = "macos")))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("convoy: {}", told(&error));
            let is_misused = error.is::<convoy_shard::SettingsError>()
                || error.is::<bad_flag::BadFlag>()
                || error.is::<objects::Misuse>();
            if is_misused { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is where the clock comes from")]
fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    // These need no runtime and no logs.
    match &arguments.command {
        Command::Template(template) => return template::run(template, Timestamp::now()),
        Command::Lint(arguments) => return Ok(lint::run(arguments, Timestamp::now())),
        Command::Show(arguments) => return show::run(arguments),
        Command::Certificates(arguments) => {
            return certificates::run(arguments, Timestamp::now()).map(|()| ExitCode::SUCCESS);
        }
        Command::Completion(completion) => {
            let mut command = Arguments::command();
            clap_complete::generate(completion.shell, &mut command, "convoy", &mut std::io::stdout());
            return Ok(ExitCode::SUCCESS);
        }
        Command::Manual(manual) => {
            let writing = || format!("writing manual pages into {}", manual.folder.display());
            std::fs::create_dir_all(&manual.folder).with_context(writing)?;
            clap_mangen::generate_to(Arguments::command(), &manual.folder).with_context(writing)?;
            return Ok(ExitCode::SUCCESS);
        }
        _ => {}
    }
    let traces = arguments.tracing.open(&arguments.command, |name| std::env::var(name).ok())?;
    let (traces, mut export) = traces.unzip();
    let log_filter = start_logs(arguments, traces.as_ref())?;
    convoy_runtime::install_tls_provider();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .context("starting the thread pool")?;
    if let Command::Shards(shards) = &arguments.command {
        return Ok(runtime.block_on(shards::run(shards, &RealClock::new())));
    }
    if let Command::Rollback(rollback) = &arguments.command {
        return runtime.block_on(rollback::run(rollback)).map(|()| ExitCode::SUCCESS);
    }
    if let Command::Backup(backup) = &arguments.command {
        return runtime.block_on(backup::back_up(backup)).map(|()| ExitCode::SUCCESS);
    }
    if let Command::Restore(restore) = &arguments.command {
        return runtime.block_on(backup::restore(restore)).map(|()| ExitCode::SUCCESS);
    }
    if objects::is_one(&arguments.command) {
        return runtime.block_on(objects::run(&arguments.command, &RealClock::new()));
    }
    let ended = runtime.block_on(async {
        let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
        let serving = serve(&arguments.command, Arc::clone(&clock));
        let following = async {
            match &arguments.logs.log_filter_file {
                Some(file) => log_filter.follow(file, &*clock).await,
                None => std::future::pending().await,
            }
        };
        let sending = async {
            match &mut export {
                Some(export) => export.run(&*clock).await,
                None => std::future::pending().await,
            }
        };
        let ended = tokio::select! {
            ended = serving => ended,
            never = following => match never {},
            never = sending => match never {},
        };
        if let Some(export) = export.take() {
            export.finish().await;
        }
        ended
    });
    // Blocking fetches that outlive the shutdown are not waited for.
    runtime.shutdown_background();
    ended.map(|()| ExitCode::SUCCESS)
}

async fn serve(command: &Command, clock: Arc<dyn Clock>) -> anyhow::Result<()> {
    let shutdown = Shutdown::new();
    shutdown.on_signals().context("listening for signals")?;
    match command {
        Command::Demo(demo) => demo::run(demo, clock, &shutdown).await,
        Command::Standalone(arguments) => standalone::run(arguments, clock, &shutdown).await,
        Command::Sandbox(arguments) => sandbox::run(arguments, clock, &shutdown).await,
        Command::Apiserver(arguments) => processes::apiserver(arguments, clock, &shutdown).await,
        Command::ControllerManager(arguments) => {
            processes::controller_manager(arguments, clock, &shutdown).await
        }
        Command::Observer(arguments) => processes::observer(arguments, clock, &shutdown).await,
        // They ended before.
        _ => Ok(()),
    }
}

/// Starts logging. The demo tells its own story, and so do commands that print an answer.
fn start_logs(
    arguments: &Arguments,
    traces: Option<&convoy_runtime::traces::Traces>,
) -> anyhow::Result<convoy_runtime::LogFilter> {
    let default = match &arguments.command {
        Command::Demo(_)
        | Command::Shards(_)
        | Command::Rollback(_)
        | Command::Backup(_)
        | Command::Restore(_) => "error",
        command if objects::is_one(command) => "error",
        // kube's own line about a failed request says less than ours, which follows.
        _ => "info,kube_client::client::builder=off",
    };
    let filter = arguments.logs.log.as_deref().unwrap_or(default);
    let format = match arguments.logs.log_format {
        arguments::LogFormat::Text => convoy_runtime::LogFormat::Text,
        arguments::LogFormat::Json => convoy_runtime::LogFormat::Json,
    };
    convoy_runtime::init_telemetry(filter, format, traces).context("starting logs")
}
