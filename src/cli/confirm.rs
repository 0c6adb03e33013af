//! Dry runs and questions of commands that delete, or whose effects are hard to undo
//! (docs/reference/command-line.md).

use std::io::IsTerminal as _;

use serde_json::json;

use super::CommandResult;
use super::table::printable;

/// The question of a command that has a dry run of its own.
#[derive(clap::Args)]
pub struct Confirmation {
    /// Do not ask for confirmation on a terminal
    #[arg(long)]
    yes: bool,
}

impl Confirmation {
    /// Whether there is somebody to ask. A script has no terminal, so it is never asked.
    pub fn is_needed(&self) -> bool {
        !self.yes && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }

    /// Shows the effects and asks, if there is somebody to ask. The error is a no.
    ///
    /// No transaction may be open meanwhile, because a person may not respond for hours.
    pub fn ask(&self, effects: &[String]) -> CommandResult {
        if !self.is_needed() {
            return Ok(());
        }
        effects.iter().for_each(|effect| eprintln!("{}", printable(effect)));
        eprint!("Continue? [y/N] ");
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

    /// Whether to change anything. Prints their effects in a dry run, and asks on a terminal.
    pub fn is_given(&self, is_json: bool, effects: &[String]) -> CommandResult<bool> {
        if !self.dry_run {
            self.confirmation.ask(effects)?;
            return Ok(true);
        }
        if is_json {
            println!("{}", json!({ "dry_run": true, "effects": effects }));
        } else {
            effects.iter().for_each(|effect| println!("{}", printable(effect)));
            println!("nothing was changed (--dry-run)");
        }
        Ok(false)
    }
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].iter().any(|yes| answer.trim().eq_ignore_ascii_case(yes))
}

#[cfg(test)]
mod tests {
    use super::*;

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
