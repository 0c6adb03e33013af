//! Dry runs and questions of commands that delete, or whose effects are hard to undo
//! (docs/reference/command-line.md).

use std::fs::OpenOptions;
use std::io::{IsTerminal as _, Write};

use serde_json::json;

use super::CommandResult;
use super::table::printable;
use kit::words::grouped;

/// Effects that are shown to a person.
const SHOWN: usize = 20;

/// The question of a command that has a dry run of its own.
#[derive(clap::Args)]
pub struct Confirmation {
    /// Do not ask for confirmation on a terminal
    #[arg(long)]
    yes: bool,
}

impl Confirmation {
    /// Whether there is somebody to ask: whoever can type an answer, wherever the output goes. A
    /// script has no terminal, so it is never asked.
    pub fn is_needed(&self) -> bool {
        !self.yes && std::io::stdin().is_terminal()
    }

    /// Whether the command line itself confirms.
    pub fn is_given(&self) -> bool {
        self.yes
    }

    /// Shows the effects and asks, if there is somebody to ask. The error is a no.
    ///
    /// No transaction may be open meanwhile, because a person may not respond for hours.
    pub fn ask(&self, effects: &[String]) -> CommandResult {
        if !self.is_needed() {
            return Ok(());
        }
        let mut terminal = terminal();
        write!(terminal, "{}Continue? [y/N] ", shown(effects))?;
        terminal.flush()?;
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer)?;
        if is_yes(&answer) { Ok(()) } else { Err("not confirmed: nothing was changed".into()) }
    }
}

/// The options of a command that asks before its changes, and can only show them.
#[derive(clap::Args)]
pub struct Consent {
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    confirmation: Confirmation,
}

impl Consent {
    /// Whether somebody reads the effects before they happen.
    pub fn needs_effects(&self) -> bool {
        self.dry_run || self.confirmation.is_needed()
    }

    /// Whether nothing may be changed, even by a command that does not ask.
    pub fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Whether to change anything. Prints their effects in a dry run, and asks on a terminal.
    pub fn is_given(&self, is_json: bool, effects: &[String]) -> CommandResult<bool> {
        if !self.dry_run {
            self.confirmation.ask(effects)?;
            return Ok(true);
        }
        if is_json {
            println!("{}", json!({ "dry_run": true, "effects": effects }));
        } else {
            print!("{}", shown(effects));
            println!("nothing was changed (--dry-run)");
        }
        Ok(false)
    }
}

/// Where a person sees a question: standard error, unless it is redirected.
fn terminal() -> Box<dyn Write> {
    if !std::io::stderr().is_terminal() {
        if let Ok(terminal) = OpenOptions::new().write(true).open("/dev/tty") {
            return Box::new(terminal);
        }
        if std::io::stdout().is_terminal() {
            return Box::new(std::io::stdout());
        }
    }
    Box::new(std::io::stderr())
}

/// A line for each of the effects; of many, the first ones and how many others there are.
fn shown(effects: &[String]) -> String {
    let mut lines = String::new();
    for effect in effects.iter().take(SHOWN) {
        lines += &printable(effect);
        lines.push('\n');
    }
    match effects.len().saturating_sub(SHOWN) {
        0 => {}
        1 => lines += "… and 1 other\n",
        others => lines += &format!("… and {} others\n", grouped(others as u64)),
    }
    lines
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].iter().any(|yes| answer.trim().eq_ignore_ascii_case(yes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_effects_are_shown_in_part() {
        let lines = |count: usize| {
            let effects: Vec<String> = (0..count).map(|number| number.to_string()).collect();
            shown(&effects).lines().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(lines(0), [""; 0]);
        assert_eq!(lines(SHOWN).len(), SHOWN);
        assert_eq!(lines(SHOWN)[SHOWN - 1], (SHOWN - 1).to_string());
        let many = lines(SHOWN + 1_130);
        assert_eq!((many.len(), &*many[SHOWN]), (SHOWN + 1, "… and 1,130 others"));
    }

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        for yes in ["y\n", "Y\n", "yes\n", " YES \r\n"] {
            assert!(is_yes(yes), "{yes:?}");
        }
        for no in ["", "\n", "n\n", "no\n", "yess\n", "y y\n", "да\n"] {
            assert!(!is_yes(no), "{no:?}");
        }
    }
}
