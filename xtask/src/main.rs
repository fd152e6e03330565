//! `cargo xtask COMMAND`: everything a contributor runs besides plain cargo.

use std::process::ExitCode;

fn main() -> ExitCode {
    xtask::cli::main()
}
