//! The gRPC contract of Durable, package `durable.v1`.
