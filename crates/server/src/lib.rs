//! The control plane: the same engine behind doors.
