//! Rules that say on which nodes a pod may run. The scheduler and the controllers share them.

pub mod affinity;
pub mod taint;
