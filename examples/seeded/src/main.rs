//! The seeded operator as a process, for `setpoint prove`.

use clap::Parser;
use seeded_operator::{Bug, NAME, definition, register};
use setpoint::program::{Program, ProgramError};

/// An operator with a seeded bug, or without.
#[derive(Parser, Debug)]
struct Command {
    /// The number of the bug.
    #[arg(long, value_parser = bug)]
    bug: Option<Bug>,
    /// Compete for a lease.
    #[arg(long)]
    leader_elect: bool,
    /// Print the definition of the kind, and exit.
    #[arg(long)]
    definition: bool,
}

fn bug(text: &str) -> Result<Bug, String> {
    let number = text.parse().map_err(|error| format!("{error}"))?;
    Bug::numbered(number).ok_or_else(|| "there is no such bug here".to_owned())
}

#[tokio::main]
async fn main() -> Result<(), ProgramError> {
    let command = Command::parse();
    if command.definition {
        println!("{}", definition());
        return Ok(());
    }
    let program = Program::with(|program| {
        program.name = NAME.into();
        program.leader_elect = command.leader_elect;
    });
    program.run(|manager| register(manager, command.bug)).await
}
