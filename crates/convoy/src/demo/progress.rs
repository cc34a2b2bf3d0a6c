//! What the demo shows while it works.

use std::collections::BTreeMap;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::terminal::{Colour, Display};

/// Bars on a terminal, one line a step elsewhere.
#[derive(Debug)]
pub(crate) struct Progress {
    display: Display,
    bars: MultiProgress,
    releases: BTreeMap<String, Shown>,
}

#[derive(Debug)]
struct Shown {
    bar: ProgressBar,
    line: String,
}

/// Where a Release stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The Release's name.
    pub(crate) release: String,
    /// Objects that are healthy.
    pub(crate) healthy: u64,
    /// Objects in all; 0 while unknown.
    pub(crate) objects: u64,
    /// The reason of its Ready condition.
    pub(crate) reason: String,
    /// How it ended, if it has.
    pub(crate) ended: Option<Ended>,
}

/// How a Release ended up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Ready,
    Failed,
}

impl Progress {
    pub(crate) fn new(display: Display) -> Self {
        Self { display, bars: MultiProgress::new(), releases: BTreeMap::new() }
    }

    /// A heading for what follows.
    pub(crate) fn chapter(&self, text: &str) {
        self.say(&format!("\n{}", self.display.paint(Colour::Bold, text)));
    }

    /// A step that was done.
    pub(crate) fn done(&self, text: &str) {
        self.say(&format!("{} {text}", self.display.paint(Colour::Good, "✓")));
    }

    /// A line that is not about a Release.
    #[expect(clippy::print_stdout, reason = "the demo speaks to a person")]
    pub(crate) fn say(&self, text: &str) {
        self.bars.suspend(|| println!("{text}"));
    }

    /// Shows where a Release stands: moves its bar, or prints a line when something changed.
    pub(crate) fn release(&mut self, standing: &Standing) {
        let line = match standing.ended {
            Some(Ended::Ready) => format!("{}: ready, {} objects", standing.release, standing.objects),
            Some(Ended::Failed) => format!("{}: {}", standing.release, standing.reason),
            // The observer may have seen objects before the controller-manager has counted them.
            None if standing.objects < standing.healthy.max(1) => {
                format!("{}: {}", standing.release, standing.reason)
            }
            None => format!(
                "{}: {}, {} of {} objects healthy",
                standing.release, standing.reason, standing.healthy, standing.objects
            ),
        };
        if self.releases.get(&standing.release).is_some_and(|shown| shown.line == line) {
            return;
        }
        match self.display {
            Display::Plain => {
                self.say(&line);
                let shown = Shown { bar: ProgressBar::hidden(), line };
                self.releases.insert(standing.release.clone(), shown);
            }
            Display::Terminal => self.move_bar(standing, line),
        }
    }

    fn move_bar(&mut self, standing: &Standing, line: String) {
        let bars = &self.bars;
        let shown = self.releases.entry(standing.release.clone()).or_insert_with(|| {
            let bar = bars.add(ProgressBar::new(1));
            bar.set_prefix(standing.release.clone());
            Shown { bar, line: String::new() }
        });
        shown.line = line;
        let colour = match standing.ended {
            Some(Ended::Ready) => "green",
            Some(Ended::Failed) => "red",
            None => "yellow",
        };
        // The template is ours and constant but for the colour; a fault in it would only cost the style.
        let template = format!("  {{prefix:18}} {{bar:24.{colour}/black.bright}} {{pos:>2}}/{{len}} {{msg}}");
        if let Ok(style) = ProgressStyle::with_template(&template) {
            shown.bar.set_style(style.progress_chars("━━─"));
        }
        let objects = standing.objects.max(standing.healthy).max(1);
        shown.bar.set_length(objects);
        shown.bar.set_position(standing.healthy);
        match standing.ended {
            None => shown.bar.set_message(standing.reason.clone()),
            Some(Ended::Ready) => {
                shown.bar.set_position(standing.objects.max(1));
                shown.bar.abandon_with_message("ready");
            }
            Some(Ended::Failed) => shown.bar.abandon_with_message(standing.reason.clone()),
        }
    }

    /// Ends this round of bars; the next one draws new ones below.
    pub(crate) fn end_round(&mut self) {
        self.releases.clear();
        self.bars = MultiProgress::new();
    }
}
