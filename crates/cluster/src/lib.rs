//! Setpoint.
