//! `longshore completions`.

use clap_complete::Shell;

use super::CommandResult;

/// Print the completions of a shell
///
/// The Debian package and the tarball contain those of bash, zsh and fish.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  source <(longshore completions bash)
  longshore completions zsh > ~/.zfunc/_longshore
  longshore completions fish > ~/.config/fish/completions/longshore.fish")]
pub struct Arguments {
    /// The shell
    shell: Shell,
}

pub fn run(arguments: &Arguments) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut super::commands(), "longshore", &mut script);
    print!("{}", String::from_utf8(script)?);
    Ok(())
}
