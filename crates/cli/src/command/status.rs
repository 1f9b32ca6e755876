//! `setpoint status`: the clusters that have a name.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;

use crate::named::{ClusterName, Named, State};
use crate::output::say;

const EXAMPLES: &str = "Examples:
  setpoint status             # all clusters that were started with --detach or --name
  setpoint status default     # exit code 1 unless it runs";

/// List the clusters that were started with --detach or --name.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Show only this cluster. The exit code is 1 unless it runs.
    name: Option<ClusterName>,
}

/// Prints a table.
pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let one = arguments.name.is_some();
    let clusters = match arguments.name {
        Some(name) => vec![Named::of(name)?],
        None => Named::all()?,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut rows = vec![["NAME", "STATE", "SERVER", "PROCESS", "AGE", "OBJECTS IN"].map(str::to_owned)];
    let mut running = 0;
    for cluster in &clusters {
        let state = cluster.state()?;
        running += usize::from(matches!(state, State::Running(_)));
        if one || !matches!(state, State::Absent) {
            rows.push(row(cluster, &state, now));
        }
    }
    if rows.len() == 1 {
        say("no named cluster; `setpoint up --detach` starts one");
    } else {
        say(table(&rows).trim_end());
    }
    Ok(if one && running == 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn row(cluster: &Named, state: &State, now: Duration) -> [String; 6] {
    let (word, facts) = match state {
        State::Running(Some(facts)) => ("running", Some(facts)),
        State::Running(None) => ("starting", None),
        State::Crashed => ("crashed", None),
        State::Absent => ("absent", None),
    };
    let none = || "-".to_owned();
    let data = |data: Option<&std::path::PathBuf>| {
        data.map_or("memory".to_owned(), |data| data.display().to_string())
    };
    [
        cluster.name.to_string(),
        word.to_owned(),
        facts.map_or_else(none, |facts| facts.server.clone()),
        facts.map_or_else(none, |facts| facts.pid.to_string()),
        facts.map_or_else(none, |facts| age(now.as_secs().saturating_sub(facts.started))),
        facts.map_or_else(none, |facts| data(facts.data_dir.as_ref())),
    ]
}

/// A number of seconds in the unit that a person would choose.
fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Columns as wide as their longest value.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}", width = *width)).collect();
        text.push_str(cells.join("   ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_longest_value() {
        let rows = [["A", "B"], ["long", "x"], ["", "y"]].map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), "A      B\nlong   x\n       y\n");
        assert_eq!([119, 120, 7200, 172_800].map(age), ["119s", "2m", "2h", "2d"]);
    }
}
