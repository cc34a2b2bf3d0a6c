//! `docs/src/command-line.md` is made from the command line itself; a test keeps it true.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, ArgAction, Command, CommandFactory as _};

use crate::arguments::Arguments;

const HEAD: &str = "\
# Command line

This page is made from the program: `CONVOY_UPDATE_DOCS=1 cargo test -p convoy docs` writes it anew.

Exit codes: 0 done, 1 failed, 2 wrong use. Output is coloured and redrawn on a terminal, and plain when it
is piped or `NO_COLOR` is set.
";

fn page() -> String {
    let mut root = Arguments::command();
    root.build();
    let mut page = HEAD.to_owned();
    page.push_str("\n## Flags of every command\n\n");
    flags(&mut page, root.get_arguments().filter(|argument| argument.is_global_set()));
    for command in root.get_subcommands().filter(|command| command.get_name() != "help") {
        section(&mut page, command);
    }
    page
}

fn section(page: &mut String, command: &Command) {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").trim();
    let _ = write!(page, "\n## convoy {}\n\n{about}\n\n```text\n{usage}\n```\n\n", command.get_name());
    let own = |argument: &&Arg| {
        !argument.is_global_set()
            && !argument.is_hide_set()
            && !matches!(argument.get_id().as_str(), "help" | "version")
    };
    flags(page, command.get_arguments().filter(own));
}

fn flags<'a>(page: &mut String, arguments: impl Iterator<Item = &'a Arg>) {
    page.push_str("| flag | default | what it does |\n|---|---|---|\n");
    for argument in arguments {
        let takes_value = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
        let value = argument
            .get_value_names()
            .filter(|_| takes_value)
            .map(|names| names.iter().map(|name| format!(" {name}")).collect::<String>())
            .unwrap_or_default();
        let name = match (argument.get_short(), argument.get_long()) {
            (Some(short), Some(long)) => format!("`-{short}`, `--{long}{value}`"),
            (None, Some(long)) => format!("`--{long}{value}`"),
            (Some(short), None) => format!("`-{short}{value}`"),
            (None, None) => format!("`{}`", value.trim()),
        };
        let defaults: Vec<String> = argument
            .get_default_values()
            .iter()
            .map(|text| format!("`{}`", text.to_string_lossy()))
            .collect();
        let default = if takes_value { defaults.join(", ") } else { String::new() };
        let mut help = argument.get_help().map(ToString::to_string).unwrap_or_default().replace('\n', " ");
        if !help.ends_with('.') {
            help.push('.');
        }
        let choices: Vec<String> = argument
            .get_possible_values()
            .iter()
            .filter(|_| takes_value)
            .map(|choice| format!("`{}`", choice.get_name()))
            .collect();
        if !choices.is_empty() {
            let _ = write!(help, " One of {}.", choices.join(", "));
        }
        if let Some(variable) = argument.get_env() {
            let _ = write!(help, " Environment: `{}`.", variable.to_string_lossy());
        }
        let _ = writeln!(page, "| {name} | {default} | {} |", help.replace('|', "\\|"));
    }
}

#[test]
fn the_docs_page_of_the_command_line_is_what_the_program_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/command-line.md");
    let page = page();
    if std::env::var_os("CONVOY_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/src/command-line.md is out of date: run CONVOY_UPDATE_DOCS=1 cargo test -p convoy docs"
    );
}
