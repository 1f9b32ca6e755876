//! The owner of log lines: an operator, or the cluster that runs in the same process.

/// The target of the log lines of a manager, its controllers and its informers.
///
/// In a test an operator and the built-in controllers of its cluster run in one process, on this crate both. A filter can
/// tell their lines apart by the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogTarget {
    /// The modules of this crate, such as `setpoint::controller::report`.
    #[default]
    Runtime,
    /// `setpoint_controllers`: the built-in controllers of a cluster.
    BuiltIn,
}

/// An event, as the macros of `tracing` write it, under the target of its owner. A target is part of the place in the
/// code, so there are two places.
macro_rules! log_as {
    ($target:expr, $level:ident, $($rest:tt)*) => {
        match $target {
            $crate::log_target::LogTarget::Runtime => tracing::$level!($($rest)*),
            $crate::log_target::LogTarget::BuiltIn => {
                tracing::$level!(target: "setpoint_controllers", $($rest)*)
            }
        }
    };
}

pub(crate) use log_as;
