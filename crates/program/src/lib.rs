//! The interpreter workflow `durable.program` and the built-in activities.
